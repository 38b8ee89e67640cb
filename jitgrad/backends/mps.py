"""Apple's GPUs, which are not used."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_built() -> bool:
    """Whether this is a build for them: never."""
    return False


def is_available() -> bool:
    """Whether one can be used: never."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether they run under this version of macOS: never."""
    return False
