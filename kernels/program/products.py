"""Products of matrices as rows: in tiles of our own, or calls of BLAS by its address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.kernels import threads
from jitgrad.kernels.loops import matmul
from jitgrad.kernels.product_parts import by_tiles, product_jobs

__all__ = ["KINDS", "WORTH_TURNING", "factors", "jobs"]

WORTH_TURNING = 1 << 21  # multiplications from which a transposed product and its copy are quicker than the product
_SPLIT_TILES = 1 << 20  # multiplications from which tiles are clearly quicker on two threads

# Kernels that are one product of matrices. Not ``small_product``, a loop whose sums come out as eager's to the bit.
KINDS = {matmul.dot.name, matmul.dot_on_one.name, matmul.matmul.name, matmul.tile_product.name}


def factors(args: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Both sides and the result of a launch of one of KINDS."""
    x, y, out, *rest = args
    if rest:
        x_turned, y_turned, _ = rest
        x, y = x.T if x_turned else x, y.T if y_turned else y
    return x, y, out


def jobs(x: Any, y: Any, out: Any) -> Any:
    """The rows of a product, as `product_jobs` gives them, which may run at once; None if there are none for it."""
    if not (x.ndim == y.ndim == out.ndim == 2):
        return None
    work, parts = out.size * x.shape[1], 1
    split = _SPLIT_TILES if by_tiles(out.dtype.char, work) else matmul.SPLIT
    if work >= split and threads.get_num_threads() > 1:
        parts = min(threads.get_num_threads(), 2 * work // split)
    return product_jobs(x, y, out, parts)
