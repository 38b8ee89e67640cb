"""Tensors from Python data and NumPy arrays: tensor, as_tensor, from_numpy, the legacy constructors."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import device as device_type
from jitgrad.core.device import resolve
from jitgrad.core.errors import invalid_combination, scalar_type, type_name
from jitgrad.core.layout import Layout, Size, cache, layout_of
from jitgrad.core.settings import set_default_dtype
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import warn_once
from jitgrad.core.wrapped import Wrapped
from jitgrad.dispatch.parameter_types import mark_explaining
from jitgrad.dispatch.registry import FUNCTIONS, method, public
from jitgrad.dispatch.sizes import is_int, size_argument
from jitgrad.ops.creation.constants import as_dtype, finished, fits, new
from jitgrad.ops.shape.subclasses import as_kind
from jitgrad.ops.shape.view import Alias

__all__ = ["array_of", "as_tensor", "from_numpy", "tensor", "writable"]

_NEGATIVE = (
    "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently "
    "supported. (You can probably work around this by making a copy of your array  with array.copy().) "
)
_COPY = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
)


def _check_array(array: np.ndarray) -> None:
    """An array that a tensor can be made of: PyTorch's dtypes, no negative strides."""
    if array.dtype.kind == "V":  # that of bfloat16, too, which PyTorch doesn't take from NumPy
        dtypes.from_numpy_dtype(np.dtype(np.void))
    dtypes.from_numpy_dtype(array.dtype)
    if array.strides and min(array.strides) < 0:
        raise ValueError(_NEGATIVE)


# -- nested sequences ---------------------------------------------------------------------------------


def _is_sequence(value: Any) -> bool:
    if isinstance(value, (list, tuple, range)):
        return True
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, Tensor):  # one element, whatever its shape
        return False
    if isinstance(value, (str, bytes)):
        return False
    kind = type(value)
    return isinstance(value, Sequence) or (
        hasattr(kind, "__getitem__") and hasattr(kind, "__len__") and not isinstance(value, Mapping)
    )


def _shape_of(data: Any) -> tuple[int, ...]:
    """The sizes of nested sequences, by the first element of each level; ``_flatten`` then checks the others."""
    shape: list[int] = []
    while _is_sequence(data):
        shape.append(len(data))
        if len(shape) > 128:  # a list may contain itself
            raise ValueError("too many dimensions 'list'")
        if shape[-1] == 0:
            break
        try:
            data = data[0]
        except (TypeError, IndexError, KeyError):
            raise ValueError(f"could not determine the shape of object type '{type(data).__name__}'") from None
        if isinstance(data, str):
            raise ValueError("too many dimensions 'str'")
    return tuple(shape)


def _flatten(data: Any, shape: tuple[int, ...], dim: int, found: list[Any]) -> None:
    """Append the elements to ``found``; ValueError where lengths differ."""
    if dim == len(shape):
        if _is_sequence(data):
            wanted = "an integer" if all(isinstance(f, int) for f in found) else "a real number"
            raise TypeError(f"'{type(data).__name__}' object cannot be interpreted as {wanted}")
        found.append(data)
        return
    if not _is_sequence(data) and not (isinstance(data, Tensor) and data._layout.ndim):  # a row beside others
        raise TypeError("not a sequence")
    if len(data) != shape[dim]:
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {len(data)})")
    for item in data:
        if item is data:
            raise TypeError("new(): self-referential lists are incompatible")
        _flatten(item, shape, dim + 1, found)


def _element_dtype(value: Any) -> dtypes.dtype:
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, (np.generic, np.ndarray)):
        return dtypes.from_numpy_dtype(value.dtype)
    if isinstance(value, (bool, int, float, complex)):
        return dtypes.default_for(dtypes.category_of(value))
    if isinstance(value, str):
        raise TypeError("new(): invalid data type 'str'")
    raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")


def _python_number(value: Any, dtype: dtypes.dtype) -> Any:
    """A tensor, array or NumPy scalar of one element as a Python number; others as they are."""
    if isinstance(value, Tensor):
        if dtype.category < 2 and (value._layout.dtype.category > 1 or value._layout.numel != 1):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        if value._layout.numel != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
    if isinstance(value, (Tensor, np.generic, np.ndarray)):
        return value.item()
    if isinstance(value, (bool, int, float, complex)):
        return value
    return _READ[dtype.category](value)


def _real(value: Any) -> float:
    try:
        return float(value)
    except TypeError:
        raise TypeError(f"must be real number, not {type(value).__name__}") from None


# By a dtype's category: objects that know their value, such as fractions, as a number; TypeError for others.
_READ: tuple[Callable[[Any], Any], ...] = (bool, operator.index, _real, _real)


def _checked(values: list[Any], dtype: dtypes.dtype) -> list[Any]:
    """The same numbers; PyTorch's errors where ``dtype`` cannot hold one."""
    for value in values:
        if isinstance(value, complex) and 0 < dtype.category < 3:
            what = ("be interpreted as an integer" if dtype.category == 1 else "")
            raise TypeError(f"'complex' object cannot {what}" if what else "must be real number, not complex")
        if dtype is dtypes.uint64 and isinstance(value, int):
            if value < 0 or value >= 1 << 64:
                raise OverflowError("can't convert negative int to unsigned" if value < 0 else "int too big to convert")
        elif dtype.category == 1:
            if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
                raise ValueError("Overflow when unpacking long long")
            if not fits(value, dtype):
                raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    return values


def _from_elements(data: Any, dtype: dtypes.dtype | None) -> np.ndarray:
    """A new array, element by element: for any mixture of numbers, NumPy scalars and tensors of one element."""
    shape = _shape_of(data)
    found: list[Any] = []
    _flatten(data, shape, 0, found)
    if dtype is None:
        dtype = dtypes.get_default_dtype() if not found else _element_dtype(found[0])
        for value in found[1:]:
            dtype = dtypes.promote_types(dtype, _element_dtype(value))
    values = _checked([_python_number(v, dtype) for v in found], dtype)
    if dtype.category == 1:
        values = [int(v) for v in values]
    with np.errstate(over="ignore", invalid="ignore"):
        wide = np.array(values, np.complex128 if dtype.category == 3 else None) if values else np.empty(0)
        return wide.astype(dtype.numpy).reshape(shape)


_INFERRED = [np.dtype(t).char for t in (np.float64, np.int64, np.bool_)]  # to compare dtypes takes 1 us


def array_of(data: Any, dtype: dtypes.dtype | None) -> np.ndarray:
    """A new array of Python data, in ``dtype`` or the one that PyTorch infers."""
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if not isinstance(data, (list, tuple, int, float, complex)) or isinstance(data, np.generic):
        return _from_elements(data, dtype)
    try:
        array = np.array(data)
    except (ValueError, TypeError, OverflowError, RuntimeError):
        return _from_elements(data, dtype)
    # NumPy reads lists of numbers 5 to 30 times as fast. Where it may infer what PyTorch does not (strings, objects,
    # ints beyond int64, NumPy scalars that keep a dtype), the elements are looked at one by one.
    if array.dtype.char not in _INFERRED or array.size == 0 or not _only_numbers(data):
        return _from_elements(data, dtype)
    inferred = dtype or dtypes.default_for("bif".index(array.dtype.kind))
    if inferred.numpy is array.dtype:
        return array
    if inferred.category < 2:
        return _from_elements(data, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(inferred.numpy)


def _only_numbers(data: Any) -> bool:
    """Whether the nested lists hold Python's own numbers only: others have a dtype of their own."""
    while isinstance(data, (list, tuple)):
        if not isinstance(data[0], (list, tuple)):
            kinds = set(map(type, data))
            return kinds <= {bool, int, float}
        if len(data) > 1:
            return all(_only_numbers(d) for d in data)
        data = data[0]
    return type(data) in (bool, int, float)


# -- functions ----------------------------------------------------------------------------------------


def tensor(*data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False, **named: Any) -> Tensor:  # fmt: skip
    """Make a tensor of numbers, nested sequences, or a NumPy array; the data is always copied.

    Without ``dtype``: Python floats become the default dtype, ints int64, bools bool, complex
    numbers the default's complex dtype; arrays keep theirs. ValueError for ragged sequences.
    """
    value = _only_argument("tensor", data, named)
    chosen = as_dtype("tensor", dtype)
    if isinstance(value, Tensor):
        warnings.warn(_COPY, UserWarning, stacklevel=2)
        result = value.detach().to(dtype=chosen, device=device, copy=True)
        return finished("tensor", result, requires_grad)
    return finished("tensor", _copied(value, chosen, device), requires_grad)


def _only_argument(op: str, data: tuple[Any, ...], named: dict[str, Any]) -> Any:
    if "data" in named and not data:
        data = (named.pop("data"),)
    if named:
        raise TypeError(f"{op}() got an unexpected keyword argument '{next(iter(named))}'")
    if not data:
        raise TypeError(f'{op}() missing 1 required positional arguments: "data"')
    if len(data) > 1:
        raise TypeError(f"{op}() takes 1 positional argument but {len(data)} were given")
    return data[0]


def _copied(value: Any, dtype: dtypes.dtype | None, device: Any) -> Tensor:
    if isinstance(value, np.ndarray):
        _check_array(value)
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.array(value, dtype.numpy if dtype else value.dtype, order="K")
    else:
        array = array_of(value, dtype)
    result = wrap(array, layout_of(array))
    where = resolve(device)
    return result if where == "cpu" else result.to(str(where))


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the memory of a NumPy array: writing to one changes the other."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    key = array.dtype, array.shape, array.strides
    layout = _layouts.get(key)
    if layout is None:
        _check_array(array)
        layout = _layouts[key] = layout_of(array)
    if not array.flags.writeable:
        warn_once(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means "
            "writing to this tensor will result in undefined behavior. You may want to copy the array to protect its "
            "data or make it writable before converting it to a tensor. This type of warning will be suppressed for "
            "the rest of this program."
        )
        array = writable(array)
    elif isinstance(array.base, np.ndarray):
        # The storage is to begin with this array, not with the one that it is cut from.
        array = np.asarray(memoryview(array))  # type: ignore[arg-type]
    return wrap(array, layout)


_layouts: dict[Any, Layout] = cache()  # of tensors on arrays, by the arrays' dtype, shape and strides


def writable(array: np.ndarray) -> np.ndarray:
    """The same memory as an array that NumPy and kernels write to, whether its owner meant it to be or not."""
    if array.flags.writeable:
        return array

    class Memory:  # offers the memory to NumPy again, and keeps its owner alive
        __array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}
        owner = array

    return np.asarray(Memory())


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ``data``, without a copy where it is a tensor or array of that dtype and device."""
    chosen = as_dtype("as_tensor", dtype)
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    if isinstance(data, Tensor):
        return data.to(dtype=chosen, device=device)
    return _copied(data, chosen, device)


def new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None,
               requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of ``data`` with this tensor's dtype and device."""
    where = self._layout.device if device is None else device
    return tensor(data, dtype=dtype or self.dtype, device=where, requires_grad=requires_grad)


for _function in (tensor, from_numpy, as_tensor):
    mark_explaining(_function)  # every value has its own error
    public(_function, method_too=False)
method(new_tensor)


def new_like_this(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """The old ``x.new(2, 3)`` (uninitialised) or ``x.new([2, 3])`` (values), of this tensor's dtype."""
    return _legacy(self.dtype, args, device, method=True)


method(new_like_this, "new")


# -- legacy constructors ------------------------------------------------------------------------------


def _legacy(dtype: dtypes.dtype, args: tuple[Any, ...], device: Any = None, method: bool = False) -> Tensor:
    """``Tensor(2, 3)`` is uninitialised memory of that shape, ``Tensor([2, 3])`` holds the values."""
    if device is not None and (wanted := device_type(device).type) != "cpu":
        raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {wanted} was passed")
    if len(args) == 1 and isinstance(args[0], Tensor) and args[0].ndim:
        if device is not None:
            raise RuntimeError(
                f"Legacy tensor {'new' if method else 'constructor'} of the form "
                f"{'tensor.new' if method else 'torch.Tensor'}(tensor, device=device) is not supported.  Use "
                f"{'' if method else 'torch.tensor(...) or '}torch.as_tensor(...) instead."
            )
        if args[0].dtype is not dtype:
            raise TypeError(f"expected {_title(dtype)} (got {args[0].type()})")
        return args[0].detach() if method else Alias.apply(args[0])
    if len(args) == 1 and isinstance(args[0], (list, tuple, range, np.ndarray)) and type(args[0]).__name__ != "Size":
        return _copied(args[0], dtype, device)
    if len(args) == 1 and isinstance(args[0], (float, type(None))):
        raise TypeError(f"new(): data must be a sequence (got {type_name(args[0])})")
    if len(args) == 1 and isinstance(args[0], str):
        raise TypeError("new(): invalid data type 'str'")
    if len(args) > 1 and not is_int(args[0]):
        raise invalid_combination("new", args, *_LEGACY_FORMS)
    shape = size_argument("new", args or (0,))
    if any(n < 0 for n in shape):
        negative = next(n for n in shape if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative}: {list(shape)}")
    return new(dtype, shape, device)


_LEGACY_FORMS = (
    "(*, torch.device device = None)", "(torch.Storage storage)", "(Tensor other)",
    "(tuple of ints size, *, torch.device device = None)", "(object data, *, torch.device device = None)",
)  # fmt: skip


def _legacy_argument(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """The one argument of a legacy constructor that was given by its keyword."""
    (name, value), *others = named.items()
    if args or others or name not in ("size", "data", "other"):
        raise invalid_combination("new", (*args, *named.values()), *_LEGACY_FORMS)
    return (Size(value) if name == "size" else value,)


def _title(dtype: dtypes.dtype) -> str:
    return f"torch.{scalar_type(dtype)}Tensor"


def _new(cls: type[Tensor], *args: Any, device: Any = None, **named: Any) -> Any:
    if issubclass(cls, Wrapped):
        return object.__new__(cls)
    args = _legacy_argument(args, named) if named else args
    result = _legacy(dtypes.get_default_dtype(), args, device)
    return result if cls is Tensor else as_kind(result, cls)


Tensor.__new__ = _new  # type: ignore[method-assign]


class LegacyType(type):
    """Metaclass of ``FloatTensor`` and its kin: names of dtypes that can be called."""

    dtype: dtypes.dtype
    place = "cpu"  # the type of device

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.device.type == cls.place

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return _legacy(cls.dtype, args, device)

    def __repr__(cls) -> str:
        return f"<class '{_title(cls.dtype)}'>"


def _declare_types() -> None:
    for dtype in dtypes.all_dtypes():
        if not dtype.is_complex:
            title = scalar_type(dtype)
            doc = f"``{title}Tensor(2, 3)`` or ``{title}Tensor([1, 2])``: a tensor of dtype {dtype.name}."
            made = LegacyType(f"{title}Tensor", (), {"dtype": dtype, "__doc__": doc})
            FUNCTIONS[f"{title}Tensor"] = made


_declare_types()


def set_default_tensor_type(t: Any) -> None:
    """Make the dtype of a type such as ``DoubleTensor``, or its name, that of new tensors (deprecated in PyTorch)."""
    if isinstance(t, str):
        name = t.rpartition(".")[2]
        t = FUNCTIONS.get(name)
        if t is None:
            raise AttributeError(f"module 'torch' has no attribute {name!r}")
    if not isinstance(t, LegacyType) or not t.dtype.is_floating_point:
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    warn_once(_DEFAULT_TYPE)
    set_default_dtype(t.dtype)


_DEFAULT_TYPE = (
    "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
    "torch.set_default_device() as alternatives."
)
public(set_default_tensor_type, method_too=False)
FUNCTIONS.update(device=device_type)
