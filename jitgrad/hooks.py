"""Small things that modules, optimisers and tensors share: hook handles, and names of types."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

from .tensor import Tensor

__all__ = ["RemovableHandle", "typename"]


class RemovableHandle:
    """What registering a hook returns: ``remove()``, or the end of a with block, takes it away."""

    _numbers = itertools.count()

    def __init__(self, hooks_dict: Any):
        self.hooks_dict_ref, self.id = weakref.ref(hooks_dict), next(self._numbers)

    def remove(self) -> None:
        """Take the hook away; nothing to do if that has happened."""
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        return (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: Any) -> None:
        self.hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self.id = state[1]


def add_hook(hooks: OrderedDict[int, Any], entry: Any, first: bool = False) -> RemovableHandle:
    """Put ``entry`` among ``hooks``, at the end or in front, and return its handle."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = entry
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def typename(obj: Any) -> str:
    """The name of an object's type, for messages: ``torch.FloatTensor``, ``int``, ``module.Class``."""
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = named.__module__ or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"
