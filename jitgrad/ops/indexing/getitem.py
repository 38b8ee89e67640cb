"""x[...] and x[...] = y: ints, slices and None make views one after another; index tensors and masks are left to last.

Where nothing is recorded and no transform is at work, keys of ints and slices take a fast path: NumPy's own view.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.host_reads import read_observers
from jitgrad.core.inference import is_inference
from jitgrad.core.layout import Layout, cache
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.core.transform_guards import scopes
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.copying import fill_array, filled
from jitgrad.dispatch.inplace_ops import warn_of_expanded
from jitgrad.dispatch.operand_checks import check_history, check_memory
from jitgrad.dispatch.registry import method
from jitgrad.dispatch.views import layout_of_view, view_of
from jitgrad.kernels.launch import check_observers
from jitgrad.ops.creation.constants import convert_number
from jitgrad.ops.creation.fill import copy_, fill_
from jitgrad.ops.creation.from_data import from_numpy
from jitgrad.ops.indexing.index_pattern import planned_fold
from jitgrad.ops.indexing.index_put import Index, fill_at, put, put_at, resolve
from jitgrad.ops.indexing.keys import apply_key
from jitgrad.ops.indexing.places import row_major
from jitgrad.ops.shape.expand import Unsqueeze
from jitgrad.ops.shape.slicing import Select, Slice, selecting, slicing
from jitgrad.ops.shape.view import Alias

__all__: list[str] = []


def _basic_view(x: Tensor, key: Any) -> Tensor | None:
    """The view that NumPy gives for ints, slices and an Ellipsis, where nothing is recorded; None for other keys."""
    part = _basic_part(x, key)
    return None if part is None else view_of(x, part)


def _in_bytes(layout: Layout) -> tuple[int, ...]:
    """A layout's strides as NumPy counts them."""
    return tuple([s * layout.numpy_dtype.itemsize for s in layout.strides])


def _basic_part(x: Tensor, key: Any) -> Any:
    """The array of that view; None for other keys."""
    layout = x._layout
    # The array of an empty tensor may have another shape, and that of a new dim of size 1 has a stride of 0 there.
    if not layout.numel or (1 in layout.shape and x._data.strides != _in_bytes(layout)):
        return None
    items = key if type(key) is tuple else (key,)
    rest = True
    for item in items:
        if type(item) is not int:
            if item is Ellipsis and rest:
                rest = False
            elif type(item) is not slice or not (item.step is None or (type(item.step) is int and item.step > 0)):
                return None
    try:
        return x._data[(*items, ...) if rest else items]
    except (IndexError, TypeError):
        return None  # the general path raises PyTorch's error for this key


# -- reading ------------------------------------------------------------------------------------------


@method
def __getitem__(self: Tensor, key: Any) -> Tensor:
    kind = key.__class__
    if kind is not int and kind is not slice:
        key = _simplified(key)
        kind = key.__class__
    try:
        if kind is int:
            if self._requires_grad or (row := _rows.get(self._layout)) is None:
                return _first_row(self, key)
            return row(self, key)
        if kind is slice:
            start, end, step = key.indices(self._layout.shape[0])
            if step > 0:
                if self._requires_grad or (part := _parts.get(self._layout)) is None:
                    return _first_part(self, start, end if end > start else start, step)
                return part(self, start, end if end > start else start, step)
        elif key is None:
            return _unsqueeze(self, 0)
        elif kind is tuple and key:
            if key[0].__class__ is not Tensor and key[-1].__class__ is not Tensor:
                recorded = (self._requires_grad and grad_state.enabled) or grad_state.levels
                view = None if recorded else _basic_view(self, key)
                view = _view_by_steps(self, key) if view is None else view
                if view is not None:
                    return view
    except (IndexError, TypeError, ValueError):
        """The general path raises PyTorch's error for this key."""
    first, given = _indexed(self, key)
    if (fold := _fold(self, first, given)) is not None:
        if fold.read is None or check_observers or (self._requires_grad and grad_state.enabled):
            return Index.apply(self, *fold.resolve(given))
        try:
            return fold.read(self, given)
        except IndexError:
            """The general path says which index it is."""
    if kind is Tensor and key._layout.dtype is bool_ and key._layout.ndim and not grad_state.levels:
        result, indices = self, [key]
        if key._layout.ndim > self._layout.ndim:
            apply_key(self, key)  # for its error
    else:
        result, indices = apply_key(self, key)
    if indices:
        if grad_state.levels and (wrapped := outermost_wrapped(indices)) is not None:
            return wrapped.taken_at(wrapped._level, result, indices)
        return Index.apply(result, *resolve(result, indices))
    return Alias.apply(self) if result is self else result


_MADE_SIMPLE = frozenset({Tensor, list})
_numbers: dict[Layout, bool] = cache()  # whether tensors of a layout are whole numbers without dims


def _simplified(key: Any) -> Any:
    """A key, or its items, as `_simple` gives them; of a tuple only if the first or the last item asks for it."""
    kind = key.__class__
    if kind is Tensor:
        return key if _numbers.get(key._layout) is False else _simple(key)
    if kind is tuple and key and (key[0].__class__ in _MADE_SIMPLE or key[-1].__class__ in _MADE_SIMPLE):
        return tuple(map(_simple, key))
    return _simple(key) if kind is list else key


def _simple(item: Any) -> Any:
    """A tensor that is one whole number as that, a list of whole numbers as a tensor; anything else as it is.

    Whether reading a number is allowed, and what a wrapped one means, is for the general path to say.
    """
    if item.__class__ is Tensor:
        known = _numbers.get(item._layout)
        if known is None:
            known = _is_number(item._layout)
            if item._level is None:
                _numbers[item._layout] = known
        if known and not read_observers and item._level is None and type(item._data) is np.ndarray:
            return item._data.item()
    elif item.__class__ is list and item and _ONLY_INTS.issuperset(map(type, item)):
        with suppress(OverflowError):
            return from_numpy(np.array(item, np.int64))
    return item


def _is_number(layout: Layout) -> bool:
    return not layout.ndim and layout.dtype.category == 1 and layout.dtype.name != "uint8"


_ONLY_INTS = frozenset({int})


# The plans of Select and Slice along the first dim, by layout: what isn't recorded needs no more of an op than these.
_rows: dict[Layout, Callable[..., Tensor]] = cache()
_parts: dict[Layout, Callable[..., Tensor]] = cache()


def _first_row(x: Tensor, index: int) -> Tensor:
    """``x[index]`` by the op; later ones of this layout go by its plan, those of wrapped tensors never."""
    if x._level is None and x._layout.ndim:
        _rows[x._layout] = selecting(x._layout, 0)
    return Select.apply(x, 0, index)


def _first_part(x: Tensor, start: int, end: int, step: int) -> Tensor:
    """The same for ``x[start:end:step]``."""
    if x._level is None:
        _parts[x._layout] = slicing(x._layout, 0)
    return Slice.apply(x, 0, start, end, step)


_TENSORS = frozenset({Tensor})


_WHOLE = slice(None)


def _indexed(x: Tensor, key: Any) -> tuple[int, tuple[Any, ...]]:
    """The items of a key without the slices of whole dims at its ends, and how many it begins with."""
    if type(key) is not tuple or len(key) > x._layout.ndim:  # of which there may be too many
        return 0, (key,)
    first, end = 0, len(key)
    while first < end and key[first].__class__ is slice and key[first] == _WHOLE:
        first += 1
    while first < end and key[end - 1].__class__ is slice and key[end - 1] == _WHOLE:
        end -= 1
    return first, key[first:end]


def _fold(x: Tensor, first: int, given: tuple[Any, ...]) -> Any:
    """The plan that resolves a key of index tensors alone, if there is one; see ``planned_fold``."""
    return planned_fold(x, first, given) if given and _TENSORS.issuperset(map(type, given)) else None


def _view_by_steps(x: Tensor, key: tuple[Any, ...]) -> Tensor | None:
    """What ``apply_key`` makes of ints, slices and None, each a node of its own; None for other keys and no change."""
    result, dim = x, 0
    for item in key:
        kind = item.__class__
        if kind is int:
            result = _select(result, dim, item)
            continue
        if kind is slice:
            n = result._layout.shape[dim]
            start, end, step = item.indices(n)
            if step < 1:
                return None
            if start or end != n or step != 1:
                result = _cut(result, dim, start, end if end > start else start, step)
        elif item is None:
            result = _unsqueeze(result, dim)
        else:
            return None
        dim += 1
    return None if result is x else result


_select, _cut, _unsqueeze = Select.apply, Slice.apply, Unsqueeze.apply


# -- writing ------------------------------------------------------------------------------------------


@method
def __setitem__(self: Tensor, key: Any, value: Any) -> None:
    if not isinstance(value, (Tensor, bool, int, float, complex, np.generic)):
        raise TypeError(f"can't assign a {_type_name(value)} to a {self.type()}")
    if key.__class__ is not int and key.__class__ is not slice:
        key = _simplified(key)
    recorded = grad_state.enabled and (self._requires_grad or (isinstance(value, Tensor) and value._requires_grad))
    if not (recorded or grad_state.levels or key.__class__ is Tensor):
        part = _basic_part(self, key)
        if part is not None:  # for other keys, and errors, there is the general path
            if not _set_numbers(self, part, value):
                _assign(view_of(self, part), value)
            return
    if grad_state.levels:
        if _is_fill(self, key, value):
            self.masked_fill_(key, value)  # type: ignore[arg-type]  # it is none of NumPy's numbers
            return
    elif type(key) is Tensor and isinstance(value, (bool, int, float)) and not recorded:
        if _masks_all(self, key):
            self.masked_fill_(key, value)
            return
    first, given = _indexed(self, key)
    begins_with_one = isinstance(value, Tensor) and value._layout.shape[:1] == (1,)
    if not begins_with_one and (fold := _fold(self, first, given)) is not None:
        warn_of_expanded("index_put_", self, "tensor[indices] = tensor")
        check_history(self, recorded)
        places, pattern = fold.resolve(given)
        if not recorded and value.__class__ in _PLAIN and _is_plain_target(self):
            if fill_at(self, places, pattern, convert_number(value, self._layout.dtype)):
                return
        put_at(self, places, pattern, value if isinstance(value, Tensor) else _number_like(value, self), False)
        return
    if key is False:  # it names no element: nothing is written, and nothing recorded
        return
    # True alone is a new dim of size 1, as None is, and no index: overlaps and other dtypes are a copy's to handle.
    result, indices = apply_key(self, None if key is True else key, writing=True)
    if not indices:
        if recorded and not isinstance(value, Tensor):
            # PyTorch copies a tensor into the view here: a grad_fn CopySlices over CopyBackwards, not a fill.
            value = _number_like(value, result)
        _assign(result, value)
        return
    if not isinstance(value, Tensor):
        value = _number_like(value, result)
    elif value._layout.shape[:1] == (1,):
        value = value.view(value._layout.shape[_leading_ones(value._layout.shape) :])
    warn_of_expanded("index_put_", result, "tensor[indices] = tensor")
    put(result, indices, value, False)


def _set_numbers(x: Tensor, part: Any, value: Any) -> bool:
    """Write a number to a part of the array of ``x`` and count the write, without making a view of ``x``.

    False, and nothing done, where the checks and the recorder need one.
    """
    if value.__class__ not in _PLAIN or not _is_plain_target(x):
        return False
    layout = layout_of_view(x._layout, part)
    if not layout.contiguous:
        check_memory(layout)
    fill_array(part, layout, convert_number(value, layout.dtype))
    count_write(x)
    return True


_PLAIN = frozenset({int, float, bool})


def _is_plain_target(x: Tensor) -> bool:
    """Whether a write into ``x`` that isn't recorded only has to be counted."""
    base = x._base
    if scopes or grad_state.levels or x._layout.dtype.is_half or (base is not None and base._requires_grad):
        return False
    return not is_inference(x)


def _masks_all(x: Tensor, mask: Tensor) -> bool:
    """Whether ``x[mask] = number`` is a fill under a mask: of memory without repetition, by a mask of its shape."""
    layout = x._layout
    fits = mask._layout.dtype is bool_ and mask._layout.shape == layout.shape and layout.ndim > 0
    return fits and layout.contiguous and not layout.special and layout.device == mask._layout.device


def _is_fill(x: Tensor, key: Any, value: Any) -> bool:
    """Whether ``x[key] = value`` is a fill under a mask that has the shape of ``x`` and is the same for every sample.

    So it is under jacfwd, whose samples differ in their tangents only. Under vmap masks differ from sample to sample:
    such a write is an error, as in PyTorch.
    """
    if not isinstance(key, Tensor) or key.dtype is not bool_ or key.shape != x.shape or not key.ndim:
        return False
    if key._level is None or key._level.give_batch is None:
        return False
    return not value.ndim if isinstance(value, Tensor) else isinstance(value, (bool, int, float))


def _number_like(value: Any, x: Tensor) -> Tensor:
    """A number as a tensor without dims, of the dtype and device of ``x``."""
    dtype = x._layout.dtype
    # PyTorch's is a wider one, so a number that 16 bits don't hold becomes infinite here, while ``fill_`` refuses it.
    number = float(value) if dtype.is_half and isinstance(value, (int, float)) else convert_number(value, dtype)
    return filled(row_major(x._layout, ()), number)


def _leading_ones(shape: tuple[int, ...]) -> int:
    return next((k for k, n in enumerate(shape) if n != 1), len(shape))


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _assign(target: Tensor, value: Any) -> None:
    """target[...] = value, ``target`` being a view; leading dims of size 1 that it lacks are dropped from ``value``."""
    if not isinstance(value, Tensor) or (not value._layout.ndim and target._layout.ndim):
        if not target._layout.contiguous:
            check_memory(target._layout)
        wide = target._layout.dtype.is_half and not isinstance(value, Tensor)
        fill_(target, _number_like(value, target) if wide else value)
        return
    shape = value._layout.shape
    if shape != target._layout.shape:
        extra = max(len(shape) - len(target._layout.shape), 0)
        lead = min(_leading_ones(shape), extra)
        value = value.reshape(shape[lead:]) if lead else value
        value = value if value._layout.shape == target._layout.shape else value.expand(target._layout.shape)
    copy_(target, value)


@method
def __delitem__(self: Tensor, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")
