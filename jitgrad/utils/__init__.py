"""What a training script needs besides tensors and modules."""

from . import _pytree, checkpoint, data, hooks

__all__ = ["_pytree", "checkpoint", "data", "hooks"]
