"""Resized images of bytes beside PyTorch's, whose sums along each dim are bytes again."""

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")
MODES = [("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True), ("lanczos", True)]
# Not with one column, of which PyTorch's wide images (more than four channels) have the first element everywhere.
SIZES = [{"size": (5, 9)}, {"size": (3, 2)}, {"size": (4, 6)}, {"scale_factor": 1.7}, {"scale_factor": (1.3, 1.0)}]


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize(("mode", "antialias"), MODES)
def test_bytes(mode, antialias, channels):
    pixels = np.random.default_rng(0).integers(0, 256, (2, channels, 7, 6)).astype(np.uint8)
    for align in (False, True) if mode != "lanczos" else (False,):
        for given in SIZES:
            ours, theirs = (
                library.nn.functional.interpolate(
                    library.from_numpy(pixels), mode=mode, antialias=antialias, align_corners=align, **given
                )
                for library in (jitgrad, torch)
            )
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), str((align, given)))
