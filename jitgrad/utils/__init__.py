"""What a training script needs besides tensors and modules."""

from . import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks"]
