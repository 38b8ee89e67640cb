"""Dictionaries of hooks, and the handles by which a registered hook is removed."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

__all__ = ["RemovableHandle", "add_hook"]


class RemovableHandle:
    """What registering a hook returns: ``remove()``, or the end of a with block, removes the hook.

    The dictionary is known weakly: a handle that is kept must not keep a tensor's or module's hooks alive.
    """

    # One count for all dictionaries, so that a number never comes back and an old handle removes nothing new.
    _numbers = itertools.count()

    # Weak references to the dictionaries beside the hooks from which ``remove`` deletes, too (see ``add_hook``).
    extra_dict_ref: tuple[Any, ...] = ()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None):
        self.hooks_dict_ref, self.id = weakref.ref(hooks_dict), next(self._numbers)
        if extra_dict is not None:
            several = extra_dict if isinstance(extra_dict, (list, tuple)) else (extra_dict,)
            self.extra_dict_ref = tuple(map(weakref.ref, several))

    def remove(self) -> None:
        """Remove the hook, if it is still there."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()

    # Copies and pickles of modules contain handles; the state has PyTorch's form, with the dictionaries themselves.
    def __getstate__(self) -> Any:
        extra = tuple(ref() for ref in self.extra_dict_ref)
        return (self.hooks_dict_ref(), self.id, extra) if extra else (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: Any) -> None:
        hooks, self.id, *extra = state
        self.hooks_dict_ref = _reference(hooks)
        self.extra_dict_ref = tuple(map(_reference, extra[0])) if extra else ()


def _reference(hooks: Any) -> Any:
    # A dictionary that was gone when the handle was pickled: an empty one, which is gone at once.
    return weakref.ref(OrderedDict() if hooks is None else hooks)


def add_hook(
    hooks: OrderedDict[int, Any], entry: Any, first: bool = False, marks: Sequence[tuple[Any, bool]] = ()
) -> RemovableHandle:
    """Add ``entry`` to ``hooks``, at the end or as the ``first``, and return its handle.

    marks: (dictionary, flag) pairs. The dictionary gets True under the hook's number if the flag is set, as PyTorch
    notes which of a module's hooks want keyword arguments.
    """
    handle = RemovableHandle(hooks, extra_dict=[beside for beside, _ in marks] or None)
    hooks[handle.id] = entry
    for beside, wanted in marks:
        if wanted:
            beside[handle.id] = True
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle
