"""mkldnn, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from jitgrad.backends.flags import kept, set_given

__all__ = ["allow_tf32", "deterministic", "enabled", "flags", "fp32_precision", "is_available", "set_flags"]

enabled, deterministic, allow_tf32, fp32_precision = True, False, True, "none"


def is_available() -> bool:
    """Whether mkldnn is used: never."""
    return False


def set_flags(
    _enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None,
    _fp32_precision: str | None = "none",
) -> tuple[Any, ...]:  # fmt: skip
    """Set the flags that are given; returns those before."""
    return set_given(globals(), enabled=_enabled, deterministic=_deterministic, allow_tf32=_allow_tf32,
                     fp32_precision=_fp32_precision)  # fmt: skip


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> AbstractContextManager[None]:
    """Set the flags for the time of a ``with`` block."""
    return kept(globals(), enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32,
                fp32_precision=fp32_precision)  # fmt: skip
