"""PyTorch's place for the handles that registering a hook returns."""

from ..hooks import RemovableHandle

__all__ = ["RemovableHandle"]
