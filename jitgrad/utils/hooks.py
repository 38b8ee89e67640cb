"""PyTorch's place for the handles that registering a hook returns."""

from jitgrad.core.handles import RemovableHandle

__all__ = ["RemovableHandle"]
