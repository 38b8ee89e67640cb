"""Grids of the identity beside PyTorch's, to the last bit: they end on samples, where derivatives of images jump."""

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("n", [1, 2, 12, 28, 63])
def test_identity(n, align_corners):
    grids = [
        library.nn.functional.affine_grid(library.eye(2, 3)[None], (1, 1, n, n), align_corners=align_corners).numpy()
        for library in (jitgrad, torch)
    ]
    np.testing.assert_array_equal(*grids)
