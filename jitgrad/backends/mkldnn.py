"""mkldnn, which is not used."""

from __future__ import annotations

__all__ = ["allow_tf32", "deterministic", "enabled", "is_available"]


def is_available() -> bool:
    """Whether mkldnn is used: never."""
    return False


enabled, deterministic, allow_tf32 = True, False, True
