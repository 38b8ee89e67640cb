"""Cases: remainders, medians, products, norms and distances, gates, parts of memory with gaps, windows of stride 2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _vectors(rng: np.random.Generator, n: int) -> list[Any]:
    return [rng.standard_normal(n, dtype=np.float32), rng.uniform(0.1, 1, n).astype(np.float32)]


def _matrix(rng: np.random.Generator, n: int) -> list[Any]:
    side = max(math.isqrt(n), 2) // 2 * 2
    return [rng.standard_normal((side, side), dtype=np.float32)]


def _near_one(rng: np.random.Generator, n: int) -> list[Any]:
    return [1 + 1e-3 * x for x in _matrix(rng, n)]


def _points(rng: np.random.Generator, n: int) -> list[Any]:
    """Two sets of points in 16 dims, with ``n`` distances."""
    side = max(math.isqrt(n), 1)
    return [rng.standard_normal((side, 16), dtype=np.float32) for _ in range(2)]


def _images(rng: np.random.Generator, n: int) -> list[Any]:
    """Images of 8 channels, and weights for 8 results."""
    side = max(math.isqrt(n // 32), 3)
    shapes = (4, 8, side, side), (8, 8, 3, 3)
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


CASES = {
    "remainder by a number": Case(_vectors, lambda lib, x, y: x % 0.7),
    "remainder": Case(_vectors, lambda lib, x, y: lib.remainder(x, y)),
    "fmod": Case(_vectors, lambda lib, x, y: lib.fmod(x, y)),
    "median": Case(_vectors, lambda lib, x, y: x.median()),
    "median(1)": Case(_matrix, lambda lib, x: x.median(1)[0]),
    "median(0)": Case(_matrix, lambda lib, x: x.median(0)[0]),
    "nansum": Case(_matrix, lambda lib, x: x.nansum()),
    "nansum(0)": Case(_matrix, lambda lib, x: x.nansum(0)),
    "prod(1)": Case(_near_one, lambda lib, x: x.prod(1)),
    "norm": Case(_matrix, lambda lib, x: x.norm()),
    "norm(dim=1)": Case(_matrix, lambda lib, x: x.norm(dim=1)),
    "cdist": Case(_points, lambda lib, x, y: lib.cdist(x, y)),
    "pdist": Case(_points, lambda lib, x, y: lib.nn.functional.pdist(x)),
    "glu": Case(_matrix, lambda lib, x: lib.nn.functional.glu(x)),
    "trapezoid": Case(_matrix, lambda lib, x: lib.trapezoid(x)),
    "inner": Case(_points, lambda lib, x, y: x.inner(y)),
    "x[:, ::2]": Case(_matrix, lambda lib, x: x[:, ::2]),
    "x[:, 1:].expand": Case(_matrix, lambda lib, x: x[:, 1:].expand(2, -1, -1)),
    "x[:, 1:].diagonal": Case(_matrix, lambda lib, x: x[:, 1:].diagonal()),
    "x[:, 1:].sum": Case(_matrix, lambda lib, x: x[:, 1:].sum()),
    "unbind": Case(_matrix, lambda lib, x: x.unbind()),
    "conv2d of stride 2": Case(_images, lambda lib, x, w: lib.nn.functional.conv2d(x, w, stride=2, padding=1)),
    "interpolate bilinear": Case(
        _images, lambda lib, x, w: lib.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    ),
}
