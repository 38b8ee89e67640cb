"""Creation of tensors from sizes and numbers: zeros, full, arange, eye and the like.

All take ``dtype=`` (floating point by default: ``get_default_dtype()``), ``device=`` and
``requires_grad=``; ``out=``, where there, is written to and returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import resolve
from jitgrad.core.errors import must_be, must_be_tensor, overflow
from jitgrad.core.layout import Layout, cache, halves, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import fill_array, filled, preserved_layout
from jitgrad.dispatch.memory_formats import layout_in_format
from jitgrad.dispatch.out_argument import into_out
from jitgrad.dispatch.parameter_types import explained, mark_explaining
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.sizes import (
    after_tensor,
    as_ints,
    check_dims,
    check_no_negative,
    ints_argument,
    number_argument,
    size_argument,
)
from jitgrad.dispatch.sparse_calls import among, apply_form, is_sparse
from jitgrad.dispatch.strides import empty_with_strides
from jitgrad.ops.creation.type_info import Format

__all__ = ["as_dtype", "convert_number", "filled_like", "finished", "fits", "new"]


def as_dtype(op: str, dtype: Any) -> dtypes.dtype | None:
    """A ``dtype=`` argument, which may be Python's float, int, bool or complex."""
    if dtype is None or isinstance(dtype, dtypes.dtype):
        return dtype
    if (chosen := dtypes.from_argument(dtype)) is not None:
        return chosen
    raise must_be(op, "dtype", None, "torch.dtype", dtype)


def fits(value: Any, dtype: dtypes.dtype) -> bool:
    """Whether a dtype can hold a number; an unsigned one of b bits takes from -(2**b - 1) on, modulo 2**b as C does."""
    kind = dtype.category
    if kind == 2 and type(value) in (float, int) and -65504 <= value <= 65504:  # float16 ends there: no need to ask
        return True
    complex_lost = isinstance(value, complex) and kind in (1, 2) and value.imag != 0
    size = value.real if isinstance(value, complex) else value
    if kind >= 2:
        limit = float(dtype.limits.max)
        outside = isinstance(size, int) and abs(size) > limit
        outside = outside or (isinstance(size, float) and math.isfinite(size) and abs(size) > limit)
    elif kind == 1:
        info = np.iinfo(dtype.numpy)
        # Of unsigned dtypes -1 is the largest number, as in C; a negative float has no such meaning.
        low = -int(info.max) if info.min == 0 and isinstance(size, int) else int(info.min)
        outside = not math.isfinite(size) or not low <= size <= info.max
    else:
        outside = False
    return not (complex_lost or outside)


def convert_number(value: Any, dtype: dtypes.dtype) -> Any:
    """The Python number that ``value`` is in ``dtype``: what fill kernels take."""
    if value.__class__ is float and dtype.category == 2 and -65504 <= value <= 65504:  # every dtype of floats holds it
        return value
    if isinstance(value, (np.generic, Tensor)):
        value = value.item()
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise OverflowError("int too big to convert")
    if not fits(value, dtype):
        raise overflow(dtype)
    if dtype.category == 3:
        return complex(value)
    if dtype.category == 0:
        return bool(value)
    value = value.real if isinstance(value, complex) else value
    if dtype.category == 1:  # modulo 2**bits, in two's complement
        bits = 8 * dtype.itemsize
        value = int(value) % (1 << bits)
        return value - (1 << bits) if dtype.is_signed and value >> (bits - 1) else value
    return float(value)


def finished(
    op: str, result: Tensor, requires_grad: bool = False, out: Tensor | None = None, like: Tensor | None = None,
    allows_internal_overlap: bool = False, resized: str = "",
) -> Tensor:  # fmt: skip
    """The last step of a creation function: write to ``out``, wrap as ``like`` is, set ``requires_grad``.

    resized: the warning where ``out`` gets another shape; PyTorch's creation functions have none, but for ``arange``.
    """
    if out is not None:
        result = into_out(op, result, out, allows_internal_overlap, resized)
    if like is not None and like._level is not None and like._level.open:
        result = like.wrap_new(result)  # type: ignore[attr-defined]  # a wrapped tensor has it
    if requires_grad:
        if not isinstance(requires_grad, (bool, np.bool_)):
            raise must_be(op, "requires_grad", None, "bool", requires_grad)
        if result.dtype.category < 2:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        result._requires_grad = True
    return result


def new(dtype: dtypes.dtype, shape: tuple[int, ...], device: Any = None) -> Tensor:
    """An uninitialised row-major tensor."""
    layout = intern(dtype.numpy, shape, None, resolve(device))
    return wrap(empty_for(layout), layout)


def filled_like(x: Tensor, value: float) -> Tensor:
    """A tensor of x's shape, order in memory, dtype and device, every element ``value``: ``full_like`` for rules."""
    made = filled(preserved_layout(x._layout), value)
    return made if type(x) is Tensor else finished("full_like", made, like=x)


# -- constants ----------------------------------------------------------------------------------------


def _of_any_arguments(name: str, takes_format: bool, make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """jitgrad.NAME(*size) of arguments that few calls have; its errors name wrong ones. ``make``: that of `_sized`."""

    def create_any(*size: Any, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
                   requires_grad: bool = False, **named: Any) -> Tensor:  # fmt: skip
        memory_format = named.pop("memory_format", None) if takes_format else None
        if layout is not None and not isinstance(layout, Format):
            raise must_be(name, "layout", None, "torch.layout", layout)
        given = as_dtype(name, dtype) or (out.dtype if out is not None else dtypes.get_default_dtype())
        if out is not None:
            _check_place(out, layout, device)
        if is_sparse(layout) or (out is not None and halves and among((out,))):
            where = {"dtype": given, "device": device, "requires_grad": requires_grad}
            return apply_form(name, (_size(name, size, named),), layout=layout, out=out, **where)
        made = make(name, _size(name, size, named), given, device, memory_format)
        return finished(name, made, requires_grad, out, allows_internal_overlap=True)

    return explained(create_any, name)


def _sized(name: str, value: float | None, doc: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Declare jitgrad.NAME(*size), jitgrad.NAME_like(x) and Tensor.new_NAME(*size); return the first two.

    ``value`` is what all elements are, a number that every dtype holds, or None for memory that is not written.
    """

    def make(
        op: str, size: tuple[int, ...], dtype: dtypes.dtype, device: Any, memory_format: Any = None
    ) -> Tensor:  # fmt: skip
        check_no_negative(op, size)
        layout = intern(dtype.numpy, size, None, resolve(device))
        if memory_format is not None:
            layout = layout_in_format(layout, memory_format)
        return wrap(empty_for(layout), layout) if value is None else filled(layout, value)

    create_any = _of_any_arguments(name, value is None, make)
    layouts: dict[tuple[tuple[int, ...], dtypes.dtype], Layout] = cache()

    def plan(shape: tuple[int, ...], dtype: dtypes.dtype) -> Layout:
        check_no_negative(name, shape)
        found = layouts[shape, dtype] = intern(dtype.numpy, shape, None, resolve(None))
        return found

    def create(*size: Any, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None,
               pin_memory: bool = False, requires_grad: bool = False, memory_format: Any = None,
               **named: Any) -> Tensor:  # fmt: skip
        if out is None and device is None and memory_format is None and layout is None and not named and size:
            given = as_dtype(name, dtype) or dtypes.get_default_dtype()
            shape = size_argument(name, size)
            known = layouts.get((shape, given)) or plan(shape, given)
            made = wrap(empty_for(known), known) if value is None else filled(known, value)
            return finished(name, made, requires_grad) if requires_grad else made
        if memory_format is not None:
            named["memory_format"] = memory_format
        return create_any(
            *size, out=out, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad, **named
        )

    def like(input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False, memory_format: Any = None) -> Tensor:  # fmt: skip
        # The seed of every backward and many gradients ask for no more than this: 4.8 us instead of 5.7.
        plain = dtype is None and device is None and memory_format is None and layout is None and not requires_grad
        if value is not None and plain and type(input) is Tensor:
            return filled(preserved_layout(input._layout), value)
        if is_sparse(layout) or (halves and among((input,))):
            where = {"dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad}
            return apply_form(f"{name}_like", (input,), memory_format=memory_format, **where)
        layout = _layout_like(f"{name}_like", input, dtype, device, memory_format)
        result = wrap(empty_for(layout), layout) if value is None else filled(layout, value)
        return finished(f"{name}_like", result, requires_grad, like=input)

    def new_one(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
                layout: Any = None, pin_memory: bool = False, **named: Any) -> Tensor:  # fmt: skip
        op = f"new_{name}"
        where = self._layout.device if device is None else device
        if is_sparse(layout) or (layout is None and halves and among((self,))):
            where = {"layout": layout or self.layout, "requires_grad": requires_grad}
            return apply_form(name, (_size(op, size, named),), dtype=as_dtype(op, dtype) or self.dtype, **where)
        result = make(op, _size(op, size, named), as_dtype(op, dtype) or self.dtype, where)
        return finished(op, result, requires_grad, like=self)

    for function, label, about in ((create, name, doc), (like, f"{name}_like", f"{doc} The shape is ``input``'s."),
                                   (new_one, f"new_{name}", f"{doc} dtype and device are this tensor's.")):  # fmt: skip
        function.__name__ = function.__qualname__ = label
        function.__doc__ = about
        if function is not like:  # whose argument may be an object that takes over ops
            mark_explaining(function)
        public(function, function_too=function is not new_one, method_too=function is new_one)
    return create, like


def _check_place(out: Tensor, layout: Any, device: Any) -> None:
    """RuntimeError if a layout or device is asked for that is not that of ``out``."""
    if layout is not None and layout != out.layout:
        asked, given = (str(k).removeprefix("torch.").split("_")[0].capitalize() for k in (layout, out.layout))
        raise RuntimeError(f"layout {asked} does not match layout of out parameter ({given})")
    if device is not None and (asked := str(resolve(device)).split(":")[0]) != out.device.type:
        raise RuntimeError(f"device type {asked} does not match device type of out parameter ({out.device.type})")


def _size(op: str, size: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
    shape = named.pop("size", None)
    if named:
        raise TypeError(f"{op}() got an unexpected keyword argument '{next(iter(named))}'")
    if len(size) > 1 and isinstance(size[0], (tuple, list)):
        raise TypeError(f"{op}() takes 1 positional argument but {len(size)} were given")
    return size_argument(op, size, "size", shape)


def _layout_like(op: str, x: Any, dtype: Any, device: Any, memory_format: Any = None) -> Layout:
    """The layout of a new tensor of the shape and order in memory of ``x``; dtype and device are x's unless given."""
    if not isinstance(x, Tensor):
        raise must_be_tensor(op, "input", 1, x)
    if x._level is not None and not x._level.open:
        x._data  # noqa: B018 - the attribute of a sample that outlived its vmap raises
    layout = layout_in_format(x._layout, memory_format, as_dtype(op, dtype))
    if device is not None:
        layout = intern(layout.numpy_dtype, layout.shape, layout.strides, resolve(device))
    return layout


def uninitialised_like(
    op: str, x: Any, dtype: Any = None, device: Any = None, memory_format: Any = None
) -> Tensor:  # fmt: skip
    """An uninitialised tensor of the shape and order in memory of ``x``."""
    layout = _layout_like(op, x, dtype, device, memory_format)
    return wrap(empty_for(layout), layout)


zeros, zeros_like = _sized("zeros", 0, "A tensor of zeros of the given size.")
ones, ones_like = _sized("ones", 1, "A tensor of ones of the given size.")
empty, empty_like = _sized("empty", None, "A tensor of the given size whose values are whatever lay in memory.")


def _fill_dtype(op: str, value: Any) -> dtypes.dtype:
    if value.__class__ is float:
        return dtypes.get_default_dtype()
    value = number_argument(op, "fill_value", 3 if op == "new_full" else 2, value)
    return dtypes.default_for(dtypes.category_of(value))


def _full(op: str, size: Any, fill_value: Any, dtype: Any, device: Any, out: Tensor | None = None) -> Tensor:
    """``full`` without what ``finished`` does; errors name ``op``."""
    if not isinstance(size, (tuple, list)):
        raise must_be(op, "size", after_tensor(op), "tuple of ints", size)
    inferred = _fill_dtype(op, fill_value)
    chosen = as_dtype(op, dtype) or (out.dtype if out is not None else inferred)
    shape = as_ints(op, size)
    layout = _full_layouts.get((shape, chosen)) if device is None else None
    if layout is None:
        check_no_negative(op, shape)
        layout = intern(chosen.numpy, shape, None, resolve(device))
        if device is None:
            _full_layouts[shape, chosen] = layout
    return filled(layout, convert_number(fill_value, chosen))


_full_layouts: dict[tuple[tuple[int, ...], dtypes.dtype], Layout] = cache()


def full(size: Any, fill_value: Any, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
         device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A tensor of the given size, every element ``fill_value``; dtype by default that of the value."""
    made = _full("full", size, fill_value, dtype, device, out)
    return finished("full", made, requires_grad, out, allows_internal_overlap=True)


def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, memory_format: Any = None) -> Tensor:  # fmt: skip
    """A tensor of ``input``'s shape and, by default, dtype; every element ``fill_value``."""
    _fill_dtype("full_like", fill_value)
    result = uninitialised_like("full_like", input, dtype, device, memory_format)
    fill_array(result._data, result._layout, convert_number(fill_value, result.dtype))
    return finished("full_like", result, requires_grad, like=input)


def new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A tensor of the given size, every element ``fill_value``; dtype and device are this tensor's."""
    made = _full("new_full", size, fill_value, dtype or self.dtype, device or self._layout.device)
    return finished("new_full", made, requires_grad, like=self)


public(full, method_too=False)
public(full_like, method_too=False)
method(new_full)


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                  requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """An uninitialised tensor of a size whose elements lie in memory by the given strides."""
    return _by_strides("empty_strided", size, stride, dtype, device, requires_grad)


def _by_strides(op: str, size: Any, stride: Any, dtype: Any, device: Any, requires_grad: bool,
                like: Tensor | None = None) -> Tensor:  # fmt: skip
    first = 1 if like is None else 2
    size, stride = ints_argument(op, "size", first, size), ints_argument(op, "stride", first + 1, stride)
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    check_dims(size)
    chosen = as_dtype(op, dtype) or dtypes.get_default_dtype()
    reach = sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1 if 0 not in size else 0
    if any(s < 0 for s in stride) or reach * chosen.itemsize >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}")
    made = intern(chosen.numpy, size, stride, resolve(device))
    return finished(op, wrap(empty_with_strides(made), made), requires_grad, like=like)


public(empty_strided, method_too=False)


def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
                   requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """An uninitialised tensor without gaps, its dims in memory in the order ``physical_layout``, the widest first."""
    size = ints_argument("empty_permuted", "size", 1, size)
    order = ints_argument("empty_permuted", "physical_layout", 2, physical_layout)
    if len(size) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    strides, step = [0] * len(size), 1
    for k, d in enumerate(order):
        if not 0 <= d < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at index {k}).  "
                "NB: negative dims not currently supported; file an issue if you want it."
            )
        if d in order[:k]:
            raise RuntimeError("Duplicate dim not allowed")
    for d in reversed(order):
        strides[d], step = step, step * max(size[d], 1)
    return _by_strides("empty_permuted", size, tuple(strides), dtype, device, requires_grad)


public(empty_permuted, method_too=False)


def new_empty_strided(self: Tensor, size: Any, stride: Any, *, dtype: Any = None, layout: Any = None,
                      device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """An uninitialised tensor as ``empty_strided`` makes; dtype and device are this tensor's."""
    return _by_strides("new_empty_strided", size, stride, dtype or self.dtype, device or self._layout.device,
                       requires_grad, self)  # fmt: skip


method(new_empty_strided)


def scalar_tensor(value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor without dimensions; of the default dtype unless told otherwise."""
    made = _full("scalar_tensor", (), value, dtype or dtypes.get_default_dtype(), device)
    return finished("full", made, requires_grad)


public(scalar_tensor, method_too=False)
