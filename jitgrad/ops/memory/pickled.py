"""Tensors in pickles and deep copies."""

from __future__ import annotations

import copy
import copyreg
import math
import pickle
import threading
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import layout_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.wrapped import Wrapped
from jitgrad.dispatch.registry import method
from jitgrad.dispatch.strides import owner_of
from jitgrad.ops.creation.conversion import on_host
from jitgrad.ops.shape.lazy_view import is_conj, is_neg, with_bits, without_bits


class PickledArray:
    """An array in a pickle: its bytes, the name of its dtype, its shape, whether its dims lie in the other order.

    An array itself would be pickled NumPy's way, and of a damaged pickle NumPy's dtypes end the process.
    """

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray):
        self.array = array

    def __reduce_ex__(self, protocol: Any) -> Any:
        array = self.array
        turned = array.flags.f_contiguous and not array.flags.c_contiguous
        items = np.ascontiguousarray(array.T if turned else array).reshape(-1).view(np.uint8)
        buffer = pickle.PickleBuffer(items) if protocol >= 5 else items.tobytes()  # type: ignore[arg-type]
        return _array_of, (buffer, array.dtype.name, array.shape, turned)


def _array_of(buffer: Any, dtype: str, shape: tuple[int, ...], turned: bool) -> PickledArray:
    """What `PickledArray` pickled. RuntimeError if the bytes are no such array."""
    kind, items = dtypes.by_name(dtype).numpy, np.frombuffer(buffer, np.uint8)
    if not (isinstance(shape, tuple) and len(shape) <= 64 and all(type(n) is int and n >= 0 for n in shape)):
        raise RuntimeError("the shape of a pickled tensor must be a tuple of up to 64 sizes")
    if math.prod(shape) * kind.itemsize != items.size:
        raise RuntimeError(f"{items.size} bytes are no tensor of shape {list(shape)} and dtype {dtype}")
    if kind == np.bool_:
        array = items != 0  # kernels take for granted that they are 0 or 1
    else:
        array = items.view(kind)
        if not (array.flags.writeable and array.flags.aligned):
            array = array.copy()
    return PickledArray(array.reshape(shape[::-1]).T if turned else array.reshape(shape))


def _rebuild(
    kind: Any, memory: PickledArray, requires_grad: bool, device: str = "cpu",
    bits: tuple[bool, bool] = (False, False)
) -> Tensor:  # fmt: skip
    """The tensor of a pickle: what ``__reduce_ex__`` names to be called with the memory and its bits."""
    if not (isinstance(kind, type) and issubclass(kind, Tensor) and isinstance(memory, PickledArray)):
        raise TypeError("a pickled tensor needs a class of tensors and an array")
    array = memory.array
    result = wrap(array, layout_of(array))
    result = with_bits(result if device == "cpu" else result.to(device), *bits)
    result.__class__ = kind
    result._requires_grad = requires_grad
    return result


class _Saving(threading.local):
    """What this thread writes: while `active`, tensors reduce by ``reduce`` to what files in PyTorch's format hold."""

    active = False
    reduce: Any = None  # reduce_for_file of rebuild.py, which is not imported before a file is written
    skip_data = False
    materialize_fake_tensors = False
    map_location: Any = None  # of the file that is read


saving = _Saving()
# Attributes of a tensor that belong to jitgrad: no state of a user's, and never set from a file.
OWN_NAMES = frozenset(n for kind in (Tensor, Wrapped) for n in (*vars(kind), *kind.__annotations__) if n[0] == "_")


def user_state(x: Tensor) -> Any:
    """What a program has set on a tensor, None if nothing: its attributes, and with ``__slots__`` (those, slots)."""
    kind: Any = type(x)
    if getattr(kind, "__getstate__", None) is not getattr(object, "__getstate__", None):
        return kind.__getstate__(x)
    state = {k: v for k, v in x.__dict__.items() if k not in OWN_NAMES}
    slots = {name: getattr(x, name) for name in copyreg._slotnames(kind) if hasattr(x, name)}  # type: ignore
    return (state, slots) if slots else state or None


@method
def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    if saving.active:
        return saving.reduce(self)
    memory, bits = PickledArray(on_host(without_bits(self))), (is_conj(self), is_neg(self))
    args = self.__class__, memory, self._requires_grad, str(self._layout.device)
    return _rebuild, (*args, bits) if any(bits) else args, user_state(self)


def check_copied(x: Tensor) -> None:
    """RuntimeError for a tensor with a node, whose graph a deep copy would not have."""
    if x._edge is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )


@method
def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    check_copied(self)
    if id(self) in memo:
        return memo[id(self)]
    if read_observers:
        announce_read("deepcopy()")
    result = _on_copied_memory(self, memo)
    if self._level is None:  # the class of a wrapped tensor belongs to its transform, whose clone has set it
        result.__class__ = self.__class__
    result._requires_grad = self._requires_grad
    memo[id(self)] = result
    if self._grad is not None:
        result._grad = copy.deepcopy(self._grad, memo)
    state = copy.deepcopy(user_state(self), memo)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    result.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(result, name, value)
    return result


def _on_copied_memory(x: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy of a leaf; tensors that share memory share it again when they are copied together, as in PyTorch."""
    # A wrapped tensor of a transform shows no array of its own; other devices' memory knows no owner.
    if x._level is not None or not isinstance(x._data, np.ndarray) or not x._layout.numel:
        return x.detach().clone()
    owner = owner_of(x._data)
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):  # a part of memory that NumPy does not own
        return x.detach().clone()
    if id(owner) not in memo:
        memo[id(owner)] = owner.copy(order="K")
        memo.setdefault(id(memo), []).append(owner)  # copy.deepcopy keeps there what must live until its end
    copied = memo[id(owner)]
    start = x._data.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    array: np.ndarray = np.ndarray(x._data.shape, x._data.dtype, copied, start, x._data.strides)
    return wrap(array, layout_of(array))
