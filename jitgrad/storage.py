"""``torch.storage``: the classes of tensors' memory."""

from jitgrad.ops.creation.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
