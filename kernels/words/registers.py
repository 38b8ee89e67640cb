"""The vectors in which words for blocks of matrices work, and products in tiles."""

from __future__ import annotations

__all__ = ["BYTES"]

BYTES = 64  # of a vector; what a processor has no registers for LLVM splits
