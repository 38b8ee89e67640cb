"""Parameters of either library, and state compared."""

import numpy as np
import pytest

SHAPES = [(16, 5), (16,), (3, 16), (), (2, 1, 3)]


def parameters(lib, dtype):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(s).astype(dtype) for s in SHAPES]
    return [lib.tensor(np.asarray(v), requires_grad=True) for v in values]


def plain(value):
    """State as a program may save it: no functions, tensors as numbers."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.item() if hasattr(value, "item") else value


def same(ours, theirs):
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    elif isinstance(ours, dict):
        assert list(ours) == list(theirs)
        same(list(ours.values()), list(theirs.values()))
    elif isinstance(theirs, float) or hasattr(ours, "item"):
        assert float(ours) == pytest.approx(float(theirs), rel=1e-6)
    else:
        assert ours == theirs
