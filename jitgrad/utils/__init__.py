"""What a training script needs besides tensors and modules."""

from . import data, hooks

__all__ = ["data", "hooks"]
