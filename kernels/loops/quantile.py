"""Where quantiles stand in sorted rows."""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.words.vocabulary import T

__all__ = ["INTERPOLATIONS", "ranks"]

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@loop(split=("x", "below", "above", "weights"))
def ranks(x, q, below, above, weights, interpolation, skip_nan):
    """Places around the fractions ``q`` of each row, and how much the one above counts; see INTERPOLATIONS.

    Where there is a NaN, which rows have last, its place; with ``skip_nan`` the others are the row.
    """
    for r in range(x.shape[0]):
        row, numbers = x[r], x.shape[1]
        while numbers and row[numbers - 1] != row[numbers - 1]:
            numbers -= 1
        for k in range(q.size):
            rank = q[k] * T(max(numbers - 1, 0))
            if not skip_nan and numbers < row.size:
                rank = T(row.size - 1)
            low, high = np.int64(math.floor(rank)), np.int64(math.ceil(rank))
            weight = rank - T(low)
            if interpolation == 4:  # to the even one of two that are equally near
                low = high if weight > T(0.5) or (weight == T(0.5) and low % 2 == 1) else low
            below[r, k], above[r, k] = (high if interpolation == 2 else low), high
            weights[r, k] = weight
