"""Writes into saved tensors allowed: what a node saved is copied when somebody is about to write into it.

Within the block nodes keep handles. A handle's tensor is the one that was saved, until a kernel is about
to write into its memory: every write is a launch, and ``launch`` asks its observers beforehand.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.saved_tensors import pop_hooks, push_hooks
from jitgrad.core.tensor import Tensor, address
from jitgrad.kernels.launch import Kernel, observers

__all__ = ["allow_mutation_on_saved_tensors"]

_OUTSIDE = (  # the missing space is PyTorch's
    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was originally "
    "recorded."
)
# What a saved tensor is known by: where it lies, its layout, and the version that was saved.
_Place = tuple[int, Any, int]


class _Handle:
    """Stands for a saved tensor. Nodes that saved the same version of the same one share it."""

    __slots__ = ("__weakref__",)


class _AllowMutationOnSavedContext:
    """What one block keeps, under PyTorch's names; tensors live as long as a node has their handle."""

    def __init__(self) -> None:
        self.original: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.cloned: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: WeakValueDictionary[_Place, _Handle] = WeakValueDictionary()
        self.sid_to_tid: defaultdict[int, set[_Place]] = defaultdict(set)

    def clear(self) -> None:
        """Graphs recorded inside can't be run any more."""
        for kept in (self.original, self.cloned, self.tid_to_weakhandle, self.sid_to_tid):
            kept.clear()

    def pack(self, tensor: Tensor) -> _Handle:
        """The handle of a tensor that a node saves."""
        place = (address(tensor), tensor._layout, tensor._counter[0])
        handle = self.tid_to_weakhandle.get(place)
        if handle is None:
            handle = self.tid_to_weakhandle[place] = _Handle()
            kept = tensor.detach() if tensor.requires_grad else tensor  # its node must not be kept: it has the handle
            if tensor._layout.device == "cpu":
                self.original[handle] = kept
                self.sid_to_tid[id(_owner(tensor._data))].add(place)
            else:  # memory of devices has no owner to be known by
                self.cloned[handle] = kept.clone()
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        """The tensor as it was when it was saved."""
        found = self.cloned.get(handle)
        found = self.original.get(handle) if found is None else found
        if found is None:
            raise AssertionError(_OUTSIDE)
        return found

    def before(self, kernel: Kernel, args: tuple[Any, ...]) -> None:
        """A kernel is about to run: copy what is saved of the memory that it writes."""
        for k in kernel.writes:
            places = self.sid_to_tid.pop(id(_owner(args[k])), None)
            for place in places or ():
                handle = self.tid_to_weakhandle.pop(place, None)
                if handle is not None:  # else no node needs it any more
                    with no_grad():
                        self.cloned[handle] = self.original.pop(handle).clone()

    def __call__(self, kernel: Kernel, args: tuple[Any, ...], seconds: float) -> None:
        """A kernel has run."""


def _owner(array: Any) -> Any:
    """The array that holds the memory of ``array``."""
    base = getattr(array, "base", None)
    while base is not None and hasattr(base, "base"):
        array, base = base, base.base
    return array


_thread = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """A block in which what nodes save may be written to in place: then they get a copy of what was there.

    Backward has to run inside of the block.
    """
    if getattr(_thread, "open", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    push_hooks((context.pack, context.unpack))
    observers.append(context)
    _thread.open = True
    try:
        yield context
    finally:
        _thread.open = False
        observers.remove(context)
        pop_hooks()
        context.clear()
