"""PyTorch's place of the module that ``compile`` makes of a module."""

from __future__ import annotations

from jitgrad.compiler.optimized_module import OptimizedModule

__all__ = ["OptimizedModule"]
