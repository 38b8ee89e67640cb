"""Tensors in checkpoints: what PyTorch's files call to make them, and the calls that stand for ours in such files.

A checkpoint is a pickle in which a tensor is a call of ``torch._utils._rebuild_tensor_v2`` or one of its kin, on a
storage that is kept outside of the pickle. Those functions are here, under PyTorch's names. While ``jitgrad.save`` runs
(`saving.active` of pickled.py) tensors reduce to such calls, with all of their storage; in other pickles, which
nobody else reads, to their own part of the memory.

Another kind of tensor joins by a function in `REDUCTIONS`, which returns (function, arguments) for tensors of its kind
and None for others, and by ``@pickled_as`` at the function that makes them. If its module is imported late, `LATER` has
to name it: {PyTorch's module and name: the module}. What is to be checked when all numbers have been read goes into
`AFTER_LOADING`.
"""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from jitgrad.core import dtypes
from jitgrad.core.device import resolve
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.strides import check_bounds, restrided
from jitgrad.ops.creation.from_data import from_numpy
from jitgrad.ops.memory.pickled import OWN_NAMES, saving, user_state
from jitgrad.ops.memory.typed_storage import TypedStorage, _typed_storage
from jitgrad.ops.shape.lazy_view import is_conj, is_neg, with_bits

__all__ = ["AFTER_LOADING", "LATER", "REDUCTIONS", "TORCH_NAMES", "pickled_as", "reduce_for_file"]

F = TypeVar("F", bound=Callable[..., Any])
TORCH_NAMES: dict[Any, tuple[str, str]] = {}  # {a function or class: PyTorch's module and name for it}
LATER = {("torch._utils", "_rebuild_sparse_tensor"): "jitgrad.ops.sparse.files"}
REDUCTIONS: list[Callable[[Tensor], tuple[Any, tuple[Any, ...]] | None]] = []
AFTER_LOADING: list[Callable[[], None]] = []


def pickled_as(module: str) -> Callable[[F], F]:
    """Have files name a function by PyTorch's module and the function's own name."""

    def note(function: F) -> F:
        TORCH_NAMES[function] = module, function.__name__
        return function

    return note


# -- from a tensor to a call ------------------------------------------------------------------------


def reduce_for_file(x: Tensor) -> tuple[Any, tuple[Any, ...]]:
    """The call that stands for a tensor in a file, as ``__reduce_ex__`` gives it."""
    warn_of_hooks(x)
    call = _call(x)
    state = user_state(x)
    if type(x) is Tensor and not state:
        return call
    return _rebuild_from_type_v2, (*call[:1], type(x), call[1], state)


def _call(x: Tensor) -> tuple[Any, tuple[Any, ...]]:
    for reduction in REDUCTIONS:
        if (call := reduction(x)) is not None:
            return call
    layout = x._layout
    shape, strides = (*layout.shape,), (*layout.strides,)  # new tuples: layouts share theirs, which pickles would show
    if x.device.type == "meta":
        if saving.skip_data:
            warnings.warn("Serializing tensors on the meta device under skip_data context manager is a no-op",
                          UserWarning, stacklevel=user_level())  # fmt: skip
        return _rebuild_meta_tensor_no_storage, (layout.dtype, shape, strides, x.requires_grad)
    shown: tuple[Any, ...] = (x.storage_offset(), shape, strides, x.requires_grad, OrderedDict())
    bits = {name: True for name, is_set in (("conj", is_conj(x)), ("neg", is_neg(x))) if is_set}
    rest = (bits,) if bits else ()
    if layout.dtype in _WITHOUT_STORAGE_CLASS:
        return _rebuild_tensor_v3, (x.untyped_storage(), *shown, layout.dtype, *rest)
    return _rebuild_tensor_v2, (_typed_storage(x), *shown, *rest)


_WITHOUT_STORAGE_CLASS = (dtypes.uint16, dtypes.uint32, dtypes.uint64)
_HOOKED = (
    "backward hook {!r} on tensor will not be serialized.  If this is expected, you can decorate the function with "
    "@torch.utils.hooks.unserializable_hook to suppress this warning"
)


def warn_of_hooks(x: Tensor) -> None:
    """Say that the hooks of a tensor are left out, but for those that are marked."""
    hooks = x._backward_hooks
    for hook in (hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(_HOOKED.format(hook), UserWarning, stacklevel=user_level())


# -- from a call to a tensor ------------------------------------------------------------------------


def _sizes(size: Any, stride: Any, dtype: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and strides in a file, as tuples; RuntimeError or TypeError if no tensor of the dtype can have them."""
    for values in (size, stride):
        if not isinstance(values, (tuple, list)) or not all(type(n) is int for n in values):
            raise TypeError("sizes and strides of a tensor in a file must be tuples of ints")
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"the dtype of a tensor in a file must be a dtype, not {type(dtype).__name__}")
    if len(size) > 64:
        raise RuntimeError(f"a tensor of {len(size)} dimensions is not supported: there may be 64")
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    for n in size:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(size)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    if max(math.prod(n for n in size if n), *(s + 1 for s in stride), 1) * dtype.itemsize >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    return tuple(size), tuple(stride)


def _placed(storage: Any, offset: Any, size: Any, stride: Any, dtype: dtypes.dtype) -> Tensor:
    """The tensor that lies in a storage at an offset, by sizes and strides in elements; RuntimeError if it does not."""
    shape, strides = _sizes(size, stride, dtype)
    if type(offset) is not int:
        raise TypeError("the storage offset of a tensor in a file must be an int")
    if offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {offset}")
    memory = storage.untyped()._items
    check_bounds(shape, strides, offset, dtype.itemsize, memory.numel())
    layout = intern(dtype.numpy, shape, strides, memory._layout.device)
    return wrap(restrided(memory._data, shape, strides, offset, dtype.numpy), layout)


def _finished(x: Tensor, requires_grad: Any, metadata: Any) -> Tensor:
    """With its bits and as a leaf, without the hooks that very old files may name."""
    if metadata:
        if not isinstance(metadata, dict):
            raise AssertionError(f"expected dict, got {type(metadata).__name__}")
        x = with_bits(x, bool(metadata.get("conj")) and x.is_complex(), bool(metadata.get("neg")))
    x.requires_grad = requires_grad
    return x


@pickled_as("torch._utils")
def _rebuild_tensor(storage: TypedStorage, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """The tensor of the storage's dtype at this place in it."""
    return _placed(storage, storage_offset, size, stride, storage.dtype)


@pickled_as("torch._utils")
def _rebuild_tensor_v2(storage: TypedStorage, storage_offset: int, size: Any, stride: Any, requires_grad: bool,
                       backward_hooks: Any, metadata: Any = None) -> Tensor:  # fmt: skip
    """The same as a leaf, with the bits that ``metadata`` names."""
    return _finished(_rebuild_tensor(storage, storage_offset, size, stride), requires_grad, metadata)


@pickled_as("torch._utils")
def _rebuild_tensor_v3(storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool,
                       backward_hooks: Any, dtype: Any, metadata: Any = None) -> Tensor:  # fmt: skip
    """The same with a dtype that has no class of storages."""
    if dtype is dtypes.bool_:  # has storages of its own, whose bytes are looked at
        raise RuntimeError("a tensor of bools can't be made of a storage of bytes")
    return _finished(_placed(storage, storage_offset, size, stride, dtype), requires_grad, metadata)


@pickled_as("torch._utils")
def _rebuild_meta_tensor_no_storage(dtype: Any, size: Any, stride: Any, requires_grad: bool) -> Tensor:
    """A tensor on the device "meta"."""
    layout = intern(dtype.numpy, *_sizes(size, stride, dtype), resolve("meta"))
    return _finished(wrap(empty_for(layout), layout), requires_grad, None)


@pickled_as("torch._utils")
def _rebuild_device_tensor_from_cpu_tensor(data: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """The tensor on the device where it was, of a device without storages."""
    return _finished(data.to(dtype=dtype, device=device), requires_grad, None)


@pickled_as("torch._utils")
def _rebuild_device_tensor_from_numpy(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """The same, of files written before PyTorch 2.6."""
    return _rebuild_device_tensor_from_cpu_tensor(from_numpy(data), dtype, device, requires_grad)


@pickled_as("torch._utils")
def _rebuild_wrapper_subclass(cls: Any, dtype: Any, size: Any, stride: Any, storage_offset: int, layout: Any,
                              device: Any, requires_grad: bool) -> Any:  # fmt: skip
    """A tensor of a subclass that holds others instead of memory."""
    return Tensor._make_wrapper_subclass(
        cls, size, strides=stride, dtype=dtype, storage_offset=storage_offset, layout=layout, device=device,
        requires_grad=requires_grad)  # fmt: skip


@pickled_as("torch._tensor")
def _rebuild_from_type_v2(func: Any, new_type: Any, args: Any, state: Any) -> Any:
    """The tensor that ``func`` makes, of a subclass and with the attributes that a program had set."""
    made = func(*args)
    made.__class__ = new_type  # it is new, so nobody else has it
    if hasattr(new_type, "__setstate__"):
        made.__setstate__(state)
        return made
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    set_user_state(made, attributes, slots)
    return made


@pickled_as("torch._tensor")
def _rebuild_from_type(func: Any, type: Any, args: Any, dict: Any) -> Any:
    """The same, of older files."""
    return _rebuild_from_type_v2(func, type, args, dict)


def set_user_state(x: Tensor, attributes: Any, slots: Any) -> None:
    """Set what `user_state` found; what would reach into a tensor's own state is refused."""
    if own := OWN_NAMES & {*(attributes or ()), *(slots or ())}:
        raise RuntimeError(f"a file may not set {sorted(own)} of a tensor")
    x.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(x, name, value)


@pickled_as("torch.serialization")
def _get_layout(name: str) -> Any:
    """The layout of this name, as ``torch.strided``."""
    from jitgrad.dispatch.registry import FUNCTIONS

    found = FUNCTIONS.get(name.removeprefix("torch."))
    if not isinstance(found, FUNCTIONS["layout"]):  # type: ignore[arg-type]
        raise KeyError(name)
    return found


