"""``torch._tensor``: where libraries take Tensor from to patch or subclass it."""

from jitgrad.core.tensor import Tensor

__all__ = ["Tensor"]
