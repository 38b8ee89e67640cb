"""What a training script needs besides tensors and modules."""

from jitgrad.utils import _pytree, checkpoint, data, hooks

__all__ = ["_pytree", "checkpoint", "data", "hooks"]
