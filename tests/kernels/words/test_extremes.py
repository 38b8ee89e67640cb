"""``min`` and ``max`` in kernels: Python's, for NaN and for numbers of several types too."""

import math

import numpy as np
import pytest

from jitgrad.kernels.compiler import compile_text

TEXT = """\
def extremes(a, b, c):
    return min(a, b), max(a, b), min(a, b, c), max(a, b, c), max(a, 2), min(b, 2.5)
"""
NUMBERS = [
    (1, 2, 3), (3, 2, 1), (-1, -1, 5), (1.5, 2.5, 0.5),
    (math.nan, 1.0, 2.0), (1.0, math.nan, 2.0), (2.0, 1.0, math.nan),
    (0.0, -0.0, 0.0), (-0.0, 0.0, 0.0), (1, 2.5, 3), (np.float32(4), np.int32(3), 2.0), (True, 0, 1),
    (np.uint64(7), np.uint64(1 << 63), np.uint64(0)),
]  # fmt: skip


@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_they_are_pythons(numbers):
    a, b, c = numbers
    found = compile_text("extremes", TEXT)(a, b, c)
    expected = min(a, b), max(a, b), min(a, b, c), max(a, b, c), max(a, 2), min(b, 2.5)
    for one, other in zip(found, expected, strict=True):
        assert (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
