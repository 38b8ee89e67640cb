"""Programs that run under both libraries: functions of a library and a tensor, and what came of them."""

import re
import warnings
from typing import NamedTuple

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")


class Raised(NamedTuple):
    """The class and the words of an error."""

    kind: str
    text: str


def leaves(value):
    """Tensors as (dtype, shape, values), all else as text."""
    if isinstance(value, dict):
        return [(k, leaves(v)) for k, v in value.items()]
    if isinstance(value, (tuple, list)) and not hasattr(value, "numel"):
        return [leaves(v) for v in value]
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        kept = np.float32 if "float32" in str(value.dtype) else None
        return (str(value.dtype), tuple(value.shape), np.asarray(value.detach().tolist(), kept))
    return re.sub(r" at 0x\w+", "", repr(value)).replace("jitgrad.", "torch.")


def same(ours, theirs):
    if isinstance(ours, np.ndarray):
        # PyTorch's sums of float32 are in another order on other processors.
        np.testing.assert_allclose(ours, theirs, rtol=1e-6 if ours.dtype == np.float32 else 1e-9, atol=1e-12)
    elif isinstance(ours, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        assert ours == theirs


def outcome(run, library, values):
    """What a program returns for a tensor of ``values``, in comparable form, or the error that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return leaves(run(library, library.tensor(values)))
        except Exception as error:
            text = str(error).split(" (Triggered internally")[0]
            return Raised(type(error).__name__, text.replace("jitgrad.", "torch."))
