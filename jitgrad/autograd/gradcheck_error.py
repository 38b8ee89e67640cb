"""The error of gradcheck, below the comparisons that raise it and the functions that catch it."""

__all__ = ["GradcheckError"]


class GradcheckError(RuntimeError):
    """gradcheck has found wrong gradients, or a backward without a property that all must have."""
