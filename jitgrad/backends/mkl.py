"""mkl, which is not used."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether mkl is used: never."""
    return False
