"""Indices of triangles."""

import numpy as np
import pytest

import jitgrad as torch


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (3, 5), (5, 3)])
def test_indices_of_triangles(shape):
    for offset in range(-6, 7):
        for name, reference in (("tril_indices", np.tril_indices), ("triu_indices", np.triu_indices)):
            found = getattr(torch, name)(*shape, offset)
            rows, columns = reference(shape[0], offset, shape[1])
            assert found.dtype is torch.int64 and found.tolist() == [rows.tolist(), columns.tolist()]
    assert torch.tril_indices(3, 3, dtype=torch.int32).dtype is torch.int32
    with pytest.raises(RuntimeError, match="row must be non-negative"):
        torch.triu_indices(-1, 2)
    with pytest.raises(TypeError, match="argument 'offset' \\(position 3\\) must be int, not float"):
        torch.triu_indices(2, 2, 1.5)
