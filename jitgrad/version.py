"""Versions, under PyTorch's names: of jitgrad, and None for what it is not built with."""

from __future__ import annotations

__all__ = ["cuda", "debug", "git_version", "hip", "rocm", "xpu"]

__version__ = "0.1.0"
debug = False
cuda: str | None = None
git_version: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
