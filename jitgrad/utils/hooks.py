"""PyTorch's path for the handles that registering a hook returns; they live in ``core/handles.py``."""

from jitgrad.core.handles import RemovableHandle

__all__ = ["RemovableHandle"]
