"""Handles of hooks: what registering one returns, and how to take it away."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

__all__ = ["RemovableHandle", "add_hook"]


class RemovableHandle:
    """What registering a hook returns: ``remove()``, or the end of a with block, takes it away."""

    _numbers = itertools.count()

    # What ``remove`` clears besides: dictionaries that say how a hook wants to be called.
    extra_dict_ref: tuple[Any, ...] = ()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None):
        self.hooks_dict_ref, self.id = weakref.ref(hooks_dict), next(self._numbers)
        if extra_dict is not None:
            several = extra_dict if isinstance(extra_dict, (list, tuple)) else (extra_dict,)
            self.extra_dict_ref = tuple(map(weakref.ref, several))

    def remove(self) -> None:
        """Take the hook away; nothing to do if that has happened."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    def __getstate__(self) -> Any:
        extra = tuple(ref() for ref in self.extra_dict_ref)
        return (self.hooks_dict_ref(), self.id, extra) if extra else (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: Any) -> None:
        hooks, self.id, *extra = state
        self.hooks_dict_ref = _reference(hooks)
        self.extra_dict_ref = tuple(map(_reference, extra[0])) if extra else ()


def _reference(hooks: Any) -> Any:
    return weakref.ref(OrderedDict() if hooks is None else hooks)


def add_hook(
    hooks: OrderedDict[int, Any], entry: Any, first: bool = False, marks: Sequence[tuple[Any, bool]] = ()
) -> RemovableHandle:
    """Put ``entry`` among ``hooks``, at the end or in front, and return its handle.

    marks: dictionaries beside ``hooks``, each of which holds True for the hooks that want something.
    """
    handle = RemovableHandle(hooks, extra_dict=[beside for beside, _ in marks] or None)
    hooks[handle.id] = entry
    for beside, wanted in marks:
        if wanted:
            beside[handle.id] = True
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle
