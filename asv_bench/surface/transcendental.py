"""Cases: elementwise functions that were there first, as a yardstick for the others."""

from __future__ import annotations

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _vector(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.random(n, dtype=np.float32)]


CASES = {
    "exp": Case(_vector, lambda lib, x: lib.exp(x)),
    "cumsum": Case(_vector, lambda lib, x: lib.cumsum(x, 0)),
}
