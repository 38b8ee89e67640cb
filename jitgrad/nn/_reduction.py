"""What losses' ``reduction`` says, as PyTorch's numbers, and how it was said before it had a name."""

from __future__ import annotations

import warnings

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]


def get_enum(reduction: str) -> int:
    """0 for "none", 1 for "mean", 2 for "sum"; ValueError for others."""
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2
        )
        return 1
    try:
        return ("none", "mean", "sum").index(reduction)
    except ValueError:
        raise ValueError(f"{reduction} is not a valid value for reduction") from None


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The ``reduction`` that two flags of older versions mean, which are True by default."""
    found = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.", stacklevel=2
        )
    return found


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """``get_enum`` of ``legacy_get_string``."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
