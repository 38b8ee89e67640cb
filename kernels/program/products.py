"""Products of matrices as rows: in tiles of our own, or calls of BLAS by its address."""

from __future__ import annotations

from typing import Any

from jitgrad.kernels import threads
from jitgrad.kernels.loops import matmul
from jitgrad.kernels.product_parts import product_jobs
from jitgrad.kernels.program.tile_products import INNER, tiles_address

__all__ = ["KINDS", "WORTH_TURNING", "by_blas", "jobs"]

BY_TILES = 1 << 18  # multiplications up to which tiles of our own were measured to be quicker than BLAS
WORTH_TURNING = 1 << 21  # multiplications from which a transposed product and its copy are quicker than the product

# Kernels that are one product of matrices. Not ``small_product``, a loop whose sums come out as eager's to the bit.
KINDS = {matmul.dot.name, matmul.dot_on_one.name, matmul.matmul.name}


def by_blas(x: Any, y: Any, out: Any) -> bool:
    """Whether a product of matrices is left to BLAS."""
    return bool(x.ndim != 2 or x.shape[1] > INNER or out.size * x.shape[1] > BY_TILES)


def jobs(x: Any, y: Any, out: Any) -> Any:
    """The rows of a product, as `product_jobs` gives them, which may run at once; None if there are none for it."""
    if not (x.ndim == y.ndim == out.ndim == 2):
        return None
    work, parts = out.size * x.shape[1], 1
    if not by_blas(x, y, out) and (found := product_jobs(x, y, out, 1)) is not None:
        return [(tiles_address(out.dtype.char), [out.itemsize, *head[1:]], places) for _, head, places in found]
    if work >= matmul.SPLIT and threads.get_num_threads() > 1:
        parts = min(threads.get_num_threads(), 2 * work // matmul.SPLIT)
    return product_jobs(x, y, out, parts)
