"""Least squares for batches of matrices, by LAPACK."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.lapack import each, integers, on_one, workspace
from jitgrad.kernels.launch import library

__all__ = ["least_squares"]


@library("both", "residuals", "rank", "values", "info")
def least_squares(a, b, both, residuals, rank, values, info, rcond, driver):
    """X of the smallest |A X - B|, the squares of what is left over, ranks and singular values, as ``driver`` finds.

    X is in the first rows of ``both``, which has as many as A or X, whichever are more. What is not found is empty.
    """
    (m, n), k, dtype = a.shape[-2:], b.shape[-1], a.dtype
    most, least, batch = max(m, n), min(m, n), a.shape[:-2]
    with_rest, with_values = residuals.shape == (*batch, k), values.shape == (*batch, least)
    info[...] = 0
    both[...] = 0
    if not (a.size and b.size):
        rank[...] = 0
        values[...] = 0
        residuals[...] = (np.abs(b) ** 2).sum(-2) if with_rest else 0
        return
    count = info.size
    factors = np.empty((*batch, n, m), dtype)
    np.copyto(factors, a.swapaxes(-1, -2))
    both[..., :m, :] = b
    whole, real = integers(dtype, driver), np.zeros(0, dtype).real.dtype
    found, ranks, limit = np.zeros(count, whole), np.zeros(count, whole), (np.full(1, rcond, real), None)
    kept = values if with_values else np.empty((*batch, least), real)
    complex_, sizes = dtype.kind == "c", (m, n, k)
    if driver == "gels":
        before, after = ("N", *sizes, factors, m, both, most), (found,)
        asked = ("N", *sizes, None, m, None, most)
    elif driver == "gelsy":
        exchanged, scratch = np.zeros((*batch, n), whole), [(np.empty(2 * n, real), None)] if complex_ else []
        before, after = (*sizes, factors, m, both, most, exchanged, limit, ranks), (*scratch, found)
        asked = (*sizes, None, m, None, most, None, None, None)
    else:
        scratch = _scratch(driver, complex_, m, n, k, real, whole)
        before, after = (*sizes, factors, m, both, most, kept, limit, ranks), (*scratch, found)
        asked = (*sizes, None, m, None, most, None, None, None)
    with on_one(count * m * n):
        size = workspace(driver, dtype, *asked, more=len(after) - 1)
        each(driver, dtype, count, *before, (np.empty(size, dtype), None), size, *after)
    info[...] = found.reshape(batch)
    if rank.shape == batch:
        rank[...] = ranks.reshape(batch)
    if with_rest:
        residuals[...] = (np.abs(both[..., n:, :]) ** 2).sum(-2)


def _scratch(driver, complex_, m, n, k, real, whole):
    """The further working memory of the drivers by singular values, by the formulas of their documentation."""
    least, most = min(m, n), max(m, n)
    if driver == "gelss":
        return [(np.empty(5 * least, real), None)] if complex_ else []
    levels = max(0, int(np.log2(least / 26)) + 1) if least > 26 else 0
    whole_part = (np.empty(max(1, 3 * least * levels + 11 * least), whole), None)
    if not complex_:
        return [whole_part]
    size = 10 * most + 2 * most * 25 + 8 * most * levels + 3 * 25 * k + max(26**2, n * (1 + k) + 2 * k)
    return [(np.empty(size, real), None), whole_part]
