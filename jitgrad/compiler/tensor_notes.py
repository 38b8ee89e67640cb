"""What is noted of tensors: those that were there before, as they were then, and what is read and assigned of them."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from jitgrad.compiler.numbers import read_number
from jitgrad.compiler.trust import ABSENT, static_attribute, takes_over
from jitgrad.core.inference import is_inference
from jitgrad.core.node import node_of
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.nn.parameter import is_lazy

__all__ = ["HOOKS", "TensorNote", "TensorNotes", "hooks_of"]

REPLACED: Any = type("Replaced", (), {"__repr__": lambda self: "<replaced>"})()  # an old gradient that nothing read
HOOKS = "it registers hooks on a tensor from outside, or retains its gradient"
_OF_STORAGE = ("storage_offset", "storage", "untyped_storage")
# Attributes of a tensor that follow from what is guarded for every tensor, or that are ops.
_UNSTEADY = ("_version", "data_ptr", "storage", "untyped_storage", "_cdata", "_base", "_is_view", "storage_offset")
_OF_NODES = ("grad_fn", "output_nr", "retains_grad")  # the same for all leaves


class TensorNote:
    """A tensor that was there before the recording, as it was then."""

    def __init__(self, tensor: Tensor):
        self.tensor, self.data, self.layout = tensor, tensor._data, tensor._layout
        self.grad, self.requires_grad, self.edge = tensor._grad, tensor._requires_grad, tensor._edge
        self.inference = self.inference_counts = is_inference(tensor)
        self.counter, self.version = tensor._counter, 0 if self.inference else tensor._counter[0]
        self.grad_read = self.grad_written = False
        self.reached = False  # whether a backward of the function's own has led to it
        self.history_counts = False  # whether the run depends on whether it is a leaf
        self.apart: list[TensorNote] = []  # tensors that gradients were asked for, to which its history does not lead
        self.hooks = hooks_of(tensor)
        self.own: dict[str, Any] = {}  # attributes of a program's own that were read, ABSENT for those not found
        self.owner: TensorNote | None = None  # the tensor whose ``.grad`` this is, if the function reached it only so
        # Whether its ``.grad`` is also an argument, the ``.grad`` of another tensor, or in an object that was read:
        # then the recording holds only while ``.grad`` is that very tensor.
        self.grad_is_known = False
        # A tensor with the same version counter, to which the run's writes are credited: the two have to share one.
        self.counts_with: TensorNote | None = None


def hooks_of(tensor: Tensor) -> int:
    """How many hooks a tensor and its node have; a gradient that is retained counts as one."""
    own = tensor._leaf_hooks
    found = 0 if own is None else len(own.before) + len(own.after)
    node = node_of(tensor._edge) if tensor._edge is not None else tensor._leaf_edge
    if node is None and own is not None and own.node is not None:
        node = own.node()
    if node is not None and node.special:
        found += sum(map(len, (node.tensor_hooks or {}).values()))
        found += sum(len(those or ()) for those in (node.retained, node.pre_hooks, node.post_hooks))
    return found


class TensorNotes:
    """The part of `Notes` that is about tensors."""

    reason: str | None

    def __init__(self) -> None:
        self.tensors: dict[int, TensorNote] = {}
        self.created = weakref.WeakValueDictionary[int, Tensor]()  # by id
        self.reading = False  # whether a number of a tensor is read that a program can read as well
        self.host_made: set[int] = set()  # ids of memory that Python's numbers were put in
        self.found_elsewhere: set[int] = set()  # of the arguments, those that are also in what the function reads
        self.arguments: set[int] = set()  # tensors and containers that the call was given

    def fail(self, reason: str, where: Any = None, lasting: bool = False) -> None:
        """Note that the function can't be compiled."""
        raise NotImplementedError

    def effect(self, what: str) -> None:
        """Something is about to happen that a program could notice."""
        raise NotImplementedError

    def _found(self, obj: Any, value: Any) -> None:
        """Something was found in a known object."""
        raise NotImplementedError

    def is_another(self, tensor: Tensor) -> bool:
        """Whether a tensor is another one in each call: one that was given, or is new."""
        return id(tensor) in self.arguments or id(tensor) not in self.tensors

    def tensor(self, tensor: Tensor) -> None:
        """Note a tensor that was there before."""
        if id(tensor) in self.created:
            return
        if (known := self.tensors.get(id(tensor))) is not None:
            if known.owner is not None:
                self._fix_grad(known.owner)
            return
        self._refuse_override(tensor)
        if is_lazy(tensor):
            self.fail("it uses a parameter that has no shape yet")
            return
        if isinstance(tensor, SparseTensor):  # which has several arrays, of lengths that change
            self.fail("it uses a sparse tensor", lasting=True)
            return
        self.tensors[id(tensor)] = TensorNote(tensor)
        if tensor._edge is not None and id(tensor) not in self.arguments:
            self.fail("it uses a tensor that another computation has made and that requires grad")
        if tensor._level is not None:
            self.fail("it uses a tensor of a transform that is open outside of it")
        if tensor._leaf_hooks is not None:
            self.fail("it uses a tensor with hooks")

    def tensor_argument(self, tensor: Tensor) -> None:
        """A tensor is about to be used."""
        self._refuse_override(tensor)
        if id(tensor) in self.created or id(tensor) in self.tensors:
            return
        base = tensor._base
        if tensor._level is not None:  # made by a transform that is open inside of the function
            self.created[id(tensor)] = tensor
        elif base is not None and self._is_known_base(base):
            self.created[id(tensor)] = tensor  # views are not announced
        else:
            self.fail("it uses a tensor of which it is not known where it comes from")

    def _is_known_base(self, base: Tensor) -> bool:
        """Whether the recording knows a tensor or a view of it: ops may have made a new view from that."""
        if id(base) in self.created or id(base) in self.tensors:
            return True
        return any(note.tensor._base is base for note in self.tensors.values())

    def _refuse_override(self, tensor: Tensor) -> None:
        if takes_over(tensor):
            self.fail(f"it uses a {type(tensor).__name__}, which has a __torch_function__ of its own")

    def read(self, tensor: Tensor) -> Any:
        """``tensor.item()`` of a new tensor."""
        if type(tensor._data) is not np.ndarray:  # which would wait for a device
            self.fail("item() reads a number of a tensor on a device", lasting=True)
        self.reading = True
        try:
            value = tensor.item()
        finally:
            self.reading = False
        number = read_number(tensor, value)
        if number is value:
            self.fail(f"item() reads a {type(value).__name__} of a tensor", lasting=True)
        return number

    def tensor_attribute(self, tensor: Tensor, name: str) -> Any:
        """``tensor.name``."""
        note = self.tensors.get(id(tensor))
        if name == "is_inference":
            for each in (note,) if note is not None else self.tensors.values():  # of which it may be a view
                each.inference_counts = True
        elif note is not None:
            if name in ("grad", "_grad"):
                self.grad_of(note)
            elif name in _UNSTEADY or (name in _OF_NODES and note.edge is not None):
                self.fail(f"it reads {name} of a tensor")
            elif name in _OF_NODES or name == "is_leaf":
                note.history_counts = True
            elif name not in ("_data", "_layout") and static_attribute(Tensor, name) is ABSENT:
                note.own.setdefault(name, found := tensor.__dict__.get(name, ABSENT))
                self._found(tensor, found)
        elif name == "data_ptr" or (name in _OF_STORAGE and self._is_of_outside(tensor)):
            self.fail(f"it reads {name} of a tensor")
        elif name == "_base" and self._is_of_outside(tensor):
            self.fail("it reads of which tensor from outside another one is a view")
        return getattr(tensor, name)

    def _is_of_outside(self, tensor: Tensor) -> bool:
        """Whether a new tensor is a view of one from outside."""
        return tensor._base is not None and id(tensor._base) not in self.created

    def grad_of(self, note: TensorNote) -> None:
        """``.grad`` is read: if nothing has assigned it so far, what it was before counts."""
        if note.grad_written or note.grad_read:
            return
        note.grad_read = True
        if note.grad is None:
            return
        known = id(note.grad) in self.tensors
        self.tensor(note.grad)
        if known:
            self._fix_grad(note)
        else:
            self.tensors[id(note.grad)].owner = note

    def _fix_grad(self, note: TensorNote) -> None:
        """Let the recording hold only while ``.grad`` is this very tensor, which was reached in two ways."""
        note.grad_is_known = True
        self.tensors[id(note.grad)].owner = None
        if id(note.grad) in self.arguments:
            self.found_elsewhere.add(id(note.grad))

    def store_tensor_attribute(self, tensor: Tensor, name: str, value: Any) -> None:
        """``tensor.name = value`` is about to happen."""
        self.effect(f"it assigns {name} of a tensor")
        note = self.tensors.get(id(tensor))
        if note is None:
            if name not in ("grad", "_grad", "requires_grad"):
                self.fail(f"it assigns {name} of a tensor")
        elif name in ("grad", "_grad"):
            if not (note.grad_written or note.grad_read):
                note.grad = REPLACED  # the old one is not needed: it is freed now, as in an uncompiled run
            note.grad_written = True
            if isinstance(value, Tensor) and id(value) in self.tensors:
                self.fail("it makes a tensor from outside the gradient of another one")
        elif not (name == "requires_grad" and value is tensor._requires_grad):
            self.fail(f"it assigns {name} of a tensor from outside")
        else:  # an error for all but leaves
            note.history_counts = True
