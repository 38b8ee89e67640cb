"""Flags of cuDNN, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from jitgrad.backends.flags import kept, set_given

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "is_available", "version"]

enabled, benchmark, deterministic, allow_tf32 = True, False, False, True
benchmark_limit: int | None = None


def is_available() -> bool:
    """Whether cuDNN is there: never."""
    return False


def version() -> int | None:
    """cuDNN's version: None, as there is none."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN could take a tensor: never."""
    return False


def set_flags(
    _enabled: bool | None = None, _benchmark: bool | None = None, _benchmark_limit: int | None = None,
    _deterministic: bool | None = None, _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Set the flags that are given; returns those before."""
    return set_given(globals(), enabled=_enabled, benchmark=_benchmark, benchmark_limit=_benchmark_limit,
                     deterministic=_deterministic, allow_tf32=_allow_tf32)  # fmt: skip


def flags(enabled: bool = False, benchmark: bool = False, benchmark_limit: int | None = 10, deterministic: bool = False,
          allow_tf32: bool = True) -> AbstractContextManager[None]:  # fmt: skip
    """Set the flags for the time of a ``with`` block."""
    return kept(globals(), enabled=enabled, benchmark=benchmark, benchmark_limit=benchmark_limit,
                deterministic=deterministic, allow_tf32=allow_tf32)  # fmt: skip
