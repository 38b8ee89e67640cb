"""Values and properties of tensors as Python objects, and casts: item, tolist, numpy, size, to, type.

Also Python's protocols: len, iteration, truth, int(), float(), format.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device as device_type
from jitgrad.core.device import move, resolve
from jitgrad.core.errors import invalid_combination, overflow, scalar_type, type_title
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.layout import normalize_dim
from jitgrad.core.tensor import Tensor, address
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.launch_plan import resolved
from jitgrad.dispatch.memory_formats import has_format, needs_copy
from jitgrad.dispatch.parameter_types import explained
from jitgrad.dispatch.registry import method, public, set_method
from jitgrad.dispatch.sizes import as_flag
from jitgrad.dispatch.strides import storage_of
from jitgrad.kernels.lazy_array import has_bits
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.creation.from_data import LegacyType, from_numpy
from jitgrad.ops.shape.copy import ToCopy, cast, warn_of_lost_imaginary
from jitgrad.ops.shape.lazy_view import is_conj, is_neg

__all__ = ["host_array", "on_host", "to"]


def host_array(x: Tensor) -> np.ndarray:
    """The array of a tensor on the CPU, through which values reach NumPy and Python; TypeError for other devices."""
    if read_observers:
        announce_read("item(), numpy() or a conversion to Python")
    elif type(x._data) is np.ndarray and x._layout.array_shape is x._layout.shape:  # nearly always
        return x._data
    if x._layout.device != "cpu":
        raise TypeError(
            f"can't convert {x.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    data = x._data if x._layout.array_shape is x._layout.shape else np.empty(x._layout.shape)  # which NumPy refuses
    for bit, (is_set, remedy) in zip(has_bits(data), _BITS, strict=True):
        if bit:
            raise RuntimeError(
                f"Can't call numpy() on Tensor that has {is_set} bit set. Use tensor.{remedy}().numpy() instead."
            )
    return data


_BITS = (("conjugate", "resolve_conj"), ("negative", "resolve_neg"))


# -- to Python ----------------------------------------------------------------------------------------


@method
def item(self: Tensor) -> Any:
    """The value of a tensor of one element, as a Python number."""
    if self._layout.numel != 1:
        raise RuntimeError(f"a Tensor with {self._layout.numel} elements cannot be converted to Scalar")
    data = self._data
    if type(data) is np.ndarray and not read_observers:
        return data.item()
    if self.is_meta:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    return on_host(self).item()


def on_host(x: Tensor) -> np.ndarray:
    """The values, copied from another device if need be."""
    if type(x._data) is np.ndarray:
        return host_array(x)
    return host_array(resolved(x) if x._layout.device == "cpu" else x.detach().cpu())


def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers; a number for a tensor without dimensions."""
    return on_host(self).tolist()


method(tolist, fast=True)


@method
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The values as an array on the same memory.

    RuntimeError for a tensor that requires grad; ``force=True`` detaches and copies as needed.
    """
    if self._requires_grad and grad_state.enabled and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if self._layout.dtype is dtypes.bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    return on_host(self) if force else host_array(self)


def _to_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = self.numpy()
    if copy is None:
        return array if dtype is None else array.astype(dtype, copy=False)
    return np.array(array, dtype=dtype, copy=copy)


def _from_array(self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
    """The result of a NumPy function of tensors as a tensor; bools become uint8, as in PyTorch.

    context, return_scalar: part of NumPy's protocol.
    """
    return from_numpy(array.astype(np.uint8) if array.dtype == np.bool_ else array)


_LOSES_GRADIENT = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
    "Consider using tensor.detach() first."
)


def _scalar(x: Tensor, warn: bool = True) -> Any:
    """The only element, for Python's conversions; ``warn`` where that loses a gradient, as PyTorch does for floats."""
    if x._layout.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if warn and x._requires_grad and grad_state.enabled:
        warn_once(_LOSES_GRADIENT)
    return x.item()


def _number(x: Tensor) -> Any:
    """The only element where it lies ready and nobody is to be told of the read, else None."""
    data = x._data
    return data.item() if type(data) is np.ndarray and data.size == 1 and not read_observers else None


def _real(x: Tensor, warn: bool = True) -> Any:
    value = _scalar(x, warn)
    if isinstance(value, complex):
        if value.imag != 0:
            raise overflow(dtypes.float64)
        return value.real
    return value


def _to_float(self: Tensor) -> float:
    if not self._requires_grad and (number := _number(self)).__class__ is float:
        return number
    return float(_real(self))


def _to_int(self: Tensor) -> int:
    return int(_real(self, warn=False))


def _to_complex(self: Tensor) -> complex:
    return complex(_scalar(self))


def _to_bool(self: Tensor) -> bool:
    if (number := _number(self)) is not None:
        return bool(number)
    count = self._layout.numel
    if count != 1:
        what = "no values" if count == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(on_host(self).item())


def _to_index(self: Tensor) -> int:
    """For ``range(x)`` and ``list[x]``, which ask for an exact int: floats are refused."""
    if self._layout.numel != 1 or self._layout.dtype.category > 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


def _length(self: Tensor) -> int:
    if self._layout.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self._layout.shape[0]


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self._layout.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _contains(self: Tensor, element: Any) -> bool:
    if not isinstance(element, (Tensor, bool, int, float, complex)):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )
    return bool((self == element).any())


def _reverse(self: Tensor) -> Tensor:
    return self if self._layout.ndim == 0 else self.flip(tuple(range(self._layout.ndim)))


def _format(self: Tensor, spec: str) -> str:
    return format(self.item(), spec) if self._layout.ndim == 0 else object.__format__(self, spec)


for _name, _function in {
    "__array__": _to_array, "__array_wrap__": _from_array, "__float__": _to_float, "__int__": _to_int,
    "__complex__": _to_complex, "__bool__": _to_bool, "__index__": _to_index, "__len__": _length,
    "__iter__": _iterate, "__contains__": _contains, "__reversed__": _reverse, "__format__": _format,
}.items():  # fmt: skip
    method(_function, _name)  # type: ignore[type-var]


# -- what it is ---------------------------------------------------------------------------------------


def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or the length of one dimension."""
    layout = self._layout
    if dim is None:
        return layout.size
    if dim.__class__ is int and 0 <= dim < layout.ndim:
        return layout.shape[dim]
    return _size_of(self, dim)


@functools.partial(explained, name="size")
def _size_of(self: Tensor, dim: int) -> int:
    return self._layout.shape[_dimension(self, dim)]


method(size, fast=True)


@method
def stride(self: Tensor, dim: int | None = None) -> Any:
    """How many elements lie between neighbours, for each dimension or one."""
    return self._layout.strides if dim is None else self._layout.strides[_dimension(self, dim)]


def _dimension(x: Tensor, dim: Any) -> int:
    if x._layout.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return normalize_dim(dim, x._layout.ndim)


def dim(self: Tensor) -> int:
    """The number of dimensions."""
    return self._layout.ndim


method(dim, fast=True)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input._layout.numel


@method
def element_size(self: Tensor) -> int:
    """Bytes an element."""
    return self._layout.dtype.itemsize


@method
def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    if read_observers:
        announce_read("data_ptr()")
    return address(self) if self._layout.numel else 0


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors show the same elements of the same memory in the same order; never if one has a bit set."""
    layout, other = self._layout, tensor._layout
    if is_conj(self) or is_conj(tensor) or is_neg(self) or is_neg(tensor):
        return False  # PyTorch compares their resolved copies
    same_memory = self is tensor or (layout.numel > 0 and address(self) == address(tensor))
    return same_memory and layout.shape == other.shape and layout.strides == other.strides


@method
def storage_offset(self: Tensor) -> int:
    """How many elements into its storage, the memory that it shares with its base, this tensor begins."""
    if not self._layout.numel:
        return 0
    return (address(self) - storage_of(self)[0]) // self._layout.dtype.itemsize


@method
def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in row-major order, or that of a memory format, without gaps."""
    return has_format(self._layout, memory_format)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is float32 or float64."""
    return input._layout.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex64 or complex128."""
    return input._layout.dtype.is_complex


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a Tensor."""
    return isinstance(obj, Tensor)


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input._layout.dtype.is_signed


@method
def get_device(self: Tensor) -> int:
    """The index of the CUDA device, -1 on CPU."""
    return -1 if self.device.type == "cpu" else self.device.index or 0


@method
def is_pinned(self: Tensor) -> bool:
    """Whether the memory is pinned for transfers: never here."""
    return False


for _function in (numel, is_floating_point, is_complex, is_signed):
    public(_function, fast=True)
public(is_tensor, method_too=False)
set_method("nelement", numel)
set_method("ndimension", dim)
_PROPERTIES = {
    "nbytes": (lambda self: self._layout.numel * self._layout.dtype.itemsize, "Bytes of all elements."),
    "itemsize": (element_size, "Bytes an element."),
    "is_cuda": (lambda self: self.device.type == "cuda", "Whether the values are on a CUDA device."),
    "is_cpu": (lambda self: self._layout.device == "cpu", "Whether the values are on the CPU."),
    "is_sparse": (lambda self: False, "Always False: there are no sparse tensors."),
    "is_nested": (lambda self: False, "Always False: there are no nested tensors."),
    "is_quantized": (lambda self: False, "Always False: there are no quantised tensors."),
    **{f"is_{name}": (lambda self: False, f"Always False: there are no tensors of {name}.")
       for name in ("ipu", "maia", "mkldnn", "mps", "mtia", "sparse_csr", "vulkan", "xla", "xpu")},
    "name": (lambda self: None, "Always None: tensors have no names."),
    "is_meta": (lambda self: self.device.type == "meta", "Whether the tensor has a shape and a dtype but no values."),
}
for _name, (_getter, _doc) in _PROPERTIES.items():
    setattr(Tensor, _name, property(_getter, doc=_doc))


# -- to another dtype or device -----------------------------------------------------------------------


@method
def to(self: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False,
       non_blocking: bool = False, memory_format: Any = None, other: Tensor | None = None) -> Tensor:  # fmt: skip
    """The tensor as another dtype and/or on another device; itself if it is so already.

    ``to(dtype)``, ``to(device, dtype=None)``, ``to(other)``, each with ``copy=False``.
    """
    flags: list[bool] = []
    for arg in args:
        if isinstance(arg, Tensor):
            other = arg
        elif isinstance(arg, dtypes.dtype) or (isinstance(arg, type) and dtype is None):
            dtype = arg
        elif isinstance(arg, bool):  # non_blocking, then copy
            flags.append(arg)
        elif isinstance(arg, (str, device_type)) or isinstance(arg, int):
            device = arg
        elif arg is not None:
            raise invalid_combination("to", args, "(torch.device device, torch.dtype dtype)", "(Tensor other)")
    if other is not None:
        dtype, device = other.dtype, other.device
    where = self._layout.device if device is None else resolve(device)
    force = (copy and as_flag(copy)) or flags[1:] == [True]
    return _converted(self, as_dtype("to", dtype), where, force, memory_format)


def _converted(x: Tensor, dtype: dtypes.dtype | None, where: Any, force: bool, memory_format: Any = None) -> Tensor:
    """``x`` on the device ``where``, of ``dtype`` (None: its own); ``x`` itself if it is so and no copy is forced."""
    result = x if where == x._layout.device else move(x, where)
    if dtype is not None and dtype is not x._layout.dtype:
        warn_of_lost_imaginary(x._layout.dtype, dtype)
        return cast(result, dtype) if memory_format is None else ToCopy.apply(result, dtype, memory_format)
    force = force or needs_copy(result._layout, memory_format)
    return ToCopy.apply(x, x._layout.dtype, memory_format) if force and result is x else result


def _declare_casts() -> None:
    names = {**dtypes.ALIASES, "bool": "bool", "byte": "uint8", "char": "int8", "bfloat16": "bfloat16"}
    for alias, name in names.items():
        target = dtypes.by_name(name)

        def convert(self: Tensor, memory_format: Any = None, *, target: dtypes.dtype = target) -> Tensor:
            return _converted(self, target, self._layout.device, False, memory_format)

        convert.__name__ = convert.__qualname__ = alias
        convert.__doc__ = f"The tensor as {name}; itself if it is so already."
        method(convert, fast=True)


_declare_casts()


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor as the dtype of ``other``."""
    return _converted(self, other.dtype, other._layout.device, False)


def tensor_type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The name of the tensor's type, as "torch.FloatTensor"; given a dtype or such a name, the cast."""
    if dtype is None:
        return type_title(self._layout)
    if isinstance(dtype, LegacyType):
        return self.to(dtype.dtype)
    if not isinstance(dtype, (dtypes.dtype, str, type)):
        raise TypeError("dtype must be a type, str, or dtype object")
    if dtype is Tensor:  # an alias of the default type
        return self.to(dtypes.get_default_dtype())
    for wanted in dtypes.all_dtypes():
        if dtype is wanted or dtype == f"torch.{scalar_type(wanted)}Tensor":
            return self.to(wanted)
    raise ValueError(f"invalid type: '{getattr(dtype, '__name__', dtype)}'")


set_method("type", tensor_type)

@method
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor in this process's memory."""
    return _converted(self, None, "cpu", False, memory_format)


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """The tensor on a CUDA device; AssertionError where there is none."""
    where = "cuda" if device is None else device_type(device)
    return _converted(self, None, resolve(where), False, memory_format)
