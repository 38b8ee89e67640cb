"""Cases: float16 and bfloat16. Elementwise kernels convert as they load and store; other ops run on copies."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _vectors(count: int, rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.random(n, dtype=np.float32) + 0.5 for _ in range(count)]


def _matrices(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    size = max(2, int(n**0.5))
    return [rng.random((size, size), dtype=np.float32) for _ in range(2)]


_ONE, _TWO = functools.partial(_vectors, 1), functools.partial(_vectors, 2)


def _in(dtype: str, call: Any) -> Any:
    """The op on its arguments cast to a dtype, which is timed with it: once for each."""
    return lambda lib, *args: call(lib, *[a.to(getattr(lib, dtype)) for a in args])


_OPS = {
    "add": (_TWO, lambda lib, x, y: x + y),
    "mul, exp": (_ONE, lambda lib, x: (x * 1.5).exp()),
    "gelu": (_ONE, lambda lib, x: lib.nn.functional.gelu(x)),
    "sum": (_ONE, lambda lib, x: x.sum()),
    "cat": (_TWO, lambda lib, x, y: lib.cat([x, y])),
    "flip": (_ONE, lambda lib, x: x.flip(0)),
    "softmax": (_matrices, lambda lib, x, y: x.softmax(1)),
    "matmul": (_matrices, lambda lib, x, y: x @ y),
}
CASES = {
    f"{name} {dtype}": Case(inputs, _in(dtype, call))
    for dtype in ("bfloat16", "float16") for name, (inputs, call) in _OPS.items()
}  # fmt: skip
