"""Products of matrices as rows: calls of BLAS by its address."""

from __future__ import annotations

from typing import Any

from jitgrad.kernels import threads
from jitgrad.kernels.loops import matmul
from jitgrad.kernels.product_parts import product_jobs

__all__ = ["KINDS", "WORTH_TURNING", "jobs"]

WORTH_TURNING = 1 << 21  # multiplications from which a transposed product and its copy are quicker than the product

KINDS = {matmul.dot.name, matmul.dot_on_one.name, matmul.matmul.name}  # kernels that are one product of matrices


def jobs(x: Any, y: Any, out: Any) -> Any:
    """The rows of a product, as `product_jobs` gives them, which may run at once; None if BLAS can't."""
    if not (x.ndim == y.ndim == out.ndim == 2):
        return None
    work, parts = out.size * x.shape[1], 1
    if work >= matmul.SPLIT and threads.get_num_threads() > 1:
        parts = min(threads.get_num_threads(), 2 * work // matmul.SPLIT)
    return product_jobs(x, y, out, parts)
