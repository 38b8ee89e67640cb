"""The softmax of attention, in place: scores of blocks of queries become shares, gradients of shares those of scores.

Arrays are (stacks, queries, keys). ``mask`` is added to scores; it has a number of stacks that divides theirs, or none
at all where there is no mask. ``first`` is the first query's number: ``causal`` hides the keys behind each query's.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.extrema import row_largest
from jitgrad.kernels.words.rows import _exp_falling
from jitgrad.kernels.words.vocabulary import T

__all__ = ["shares", "shares_gradient"]


def _rows(x, *_):
    """(rows, numbers), for cutting the work."""
    return x.shape[0] * x.shape[1], x.size


@loop(reassoc=True, pieces=_rows)
def shares(x, mask, first, causal, scale, begin, end):
    """Softmax of scale * x + mask; rows without a key are 0."""
    queries, keys, factor = x.shape[1], x.shape[2], T(scale)
    for r in range(begin, end):
        n, i = r // queries, r % queries
        row = x[n, i]
        seen = min(keys, first + i + 1) if causal else keys
        if mask.shape[0]:
            added = mask[n % mask.shape[0], first + i]
            for j in range(seen):
                row[j] = row[j] * factor + added[j]
        else:
            for j in range(seen):
                row[j] *= factor
        for j in range(seen, keys):
            row[j] = T(0)
        if seen == 0:
            continue
        visible, total = row[:seen], T(0)
        top = row_largest(visible)
        if top == -np.inf:
            row[:] = T(0)
            continue
        for j in range(visible.size):
            e = _exp_falling(visible[j] - top)
            visible[j] = e
            total += e
        over = T(1) / total
        for j in range(visible.size):
            visible[j] *= over


@loop(reassoc=True, pieces=_rows)
def shares_gradient(share, g, scale, begin, end):
    """In the place of ``g``, the gradient of shares, that of the scores before they were scaled."""
    queries, factor = g.shape[1], T(scale)
    for r in range(begin, end):
        row, slope, total = share[r // queries, r % queries], g[r // queries, r % queries], T(0)
        for j in range(row.size):
            total += row[j] * slope[j]
        for j in range(row.size):
            slope[j] = row[j] * (slope[j] - total) * factor
