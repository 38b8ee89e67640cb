"""``allow_mutation_on_saved_tensors``: saved tensors are copied when a kernel is about to write into their memory.

Within the block nodes keep handles in place of saved tensors. A handle stands for the tensor itself until the first
write: every write is a launch, and an observer of launches is called before its kernel runs. Outside of the block there
is no observer, so nothing is asked.
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
# What identifies a saved tensor: its address, its layout, and the version that was saved.
_Place = tuple[int, Any, int]


class _Handle:
    """Stands for a saved tensor. Nodes that saved the same version of the same one share it."""

    __slots__ = ("__weakref__",)


class _AllowMutationOnSavedContext:
    """What one block keeps, under PyTorch's names. Tensors live as long as a node holds their handle."""

    def __init__(self) -> None:
        self.original: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.cloned: WeakKeyDictionary[_Handle, Tensor] = WeakKeyDictionary()
        self.tid_to_weakhandle: WeakValueDictionary[_Place, _Handle] = WeakValueDictionary()
        self.sid_to_tid: defaultdict[int, set[_Place]] = defaultdict(set)

    def clear(self) -> None:
        """Forget everything; running backward of a graph recorded inside is an AssertionError then."""
        for kept in (self.original, self.cloned, self.tid_to_weakhandle, self.sid_to_tid):
            kept.clear()

    def pack(self, tensor: Tensor) -> _Handle:
        """The handle of a tensor that a node saves."""
        place = (address(tensor), tensor._layout, tensor._counter[0])
        handle = self.tid_to_weakhandle.get(place)
        if handle is None:
            handle = self.tid_to_weakhandle[place] = _Handle()
            kept = tensor.detach() if tensor.requires_grad else tensor  # not its node, which holds the handle: a cycle
            if tensor._layout.device == "cpu":
                self.original[handle] = kept
                self.sid_to_tid[id(_owner(tensor._data))].add(place)
            else:  # device arrays have no ``base`` that would tell whose memory it is
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
        """Called before each kernel: copy the saved tensors in the arrays that it writes."""
        for k in kernel.writes:
            places = self.sid_to_tid.pop(id(_owner(args[k])), None)
            for place in places or ():
                handle = self.tid_to_weakhandle.pop(place, None)
                if handle is not None:  # a node still needs it
                    with no_grad():
                        self.cloned[handle] = self.original.pop(handle).clone()

    def __call__(self, kernel: Kernel, args: tuple[Any, ...], seconds: float) -> None:
        """Called after each kernel; nothing is left to do."""


def _owner(array: Any) -> Any:
    """The NumPy array that owns the memory of ``array``, which may be a view of a view."""
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
