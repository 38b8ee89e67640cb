"""x[...] and x[...] = y: views for ints, slices and None, gathers for index tensors and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.checks import check_history, check_memory
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.structured import view_of
from jitgrad.ops.creation.constants import convert_number, full
from jitgrad.ops.creation.fill import copy_, fill_
from jitgrad.ops.indexing.index_put import Index, IndexPut, Pattern, resolve
from jitgrad.ops.indexing.keys import apply_key
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.slicing import Select
from jitgrad.ops.shape.view import Alias

__all__: list[str] = []


def _quick_view(x: Tensor, key: Any) -> Tensor | None:
    """The view that NumPy gives for ints and slices, where nothing is recorded; None for all other keys."""
    items = key if type(key) is tuple else (key,)
    for item in items:
        if type(item) is not int:
            if type(item) is not slice or not (item.step is None or (type(item.step) is int and item.step > 0)):
                return None
    try:
        return view_of(x, x._data[(*items, ...)])
    except (IndexError, TypeError):  # said in PyTorch's words by the general path
        return None


# -- reading ------------------------------------------------------------------------------------------


@method
def __getitem__(self: Tensor, key: Any) -> Tensor:
    if not ((self._requires_grad and grad_state.enabled) or grad_state.levels):
        view = _quick_view(self, key)
        if view is not None:
            return view
    elif type(key) is int and self._layout.ndim and -self._layout.shape[0] <= key < self._layout.shape[0]:
        return Select.apply(self, 0, key)
    result, indices = apply_key(self, key)
    if indices:
        if grad_state.levels and (wrapped := outermost_wrapped(indices)) is not None:
            return wrapped.taken_at(wrapped._level, result, indices)
        return Index.apply(result, *resolve(result, indices))
    return Alias.apply(self) if result is self else result


# -- writing ------------------------------------------------------------------------------------------


@method
def __setitem__(self: Tensor, key: Any, value: Any) -> None:
    if not isinstance(value, (Tensor, bool, int, float, complex, np.generic)):
        raise TypeError(f"can't assign a {_type_name(value)} to a {self.type()}")
    recorded = grad_state.enabled and (self._requires_grad or (isinstance(value, Tensor) and value._requires_grad))
    result = None if recorded or grad_state.levels else _quick_view(self, key)
    if result is not None:
        _assign(result, value)
        return
    if key is False:  # names no element
        return
    result, indices = apply_key(self, key, writing=True)
    if not indices:
        if recorded and not isinstance(value, Tensor):  # as PyTorch records it
            value = full((), convert_number(value, result.dtype), dtype=result.dtype)
        _assign(result, value)
        return
    if not isinstance(value, Tensor):
        value = full((), convert_number(value, result.dtype), dtype=result.dtype)
    elif value._layout.shape[:1] == (1,):
        value = value.view(value._layout.shape[_leading_ones(value._layout.shape) :])
    _put(result, indices, value, False)


def _leading_ones(shape: tuple[int, ...]) -> int:
    return next((k for k, n in enumerate(shape) if n != 1), len(shape))


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _assign(target: Tensor, value: Any) -> None:
    """target[...] = value: leading dims of size 1 too many are dropped."""
    if not isinstance(value, Tensor) or (not value._layout.ndim and target._layout.ndim):
        check_memory(target)
        fill_(target, value)
        return
    shape = value._layout.shape
    extra = max(len(shape) - len(target._layout.shape), 0)
    if shape != target._layout.shape:
        lead = next((k for k, n in enumerate(shape[:extra]) if n != 1), extra)
        value = value.reshape(shape[lead:]) if lead else value
        value = value if value._layout.shape == target._layout.shape else value.expand(target._layout.shape)
    copy_(target, value)


def _put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """``index_put_``, with the value's shape and dtype checked."""
    if grad_state.levels and (wrapped := outermost_wrapped(indices)) is not None:
        wrapped.put_at(wrapped._level, x, indices, values, accumulate)
        return x
    check_history(x, grad_state.enabled and (x._requires_grad or values._requires_grad))
    places, pattern = resolve(x, indices)
    if values._layout.numel == 1 and all(i is None or i._layout.dtype is bool_ for i in indices):
        values = cast(values, x._layout.dtype)  # a mask is filled, whatever the value's dtype
        values = values.clone() if values._counter is counter_of(x) else values
    _check_values(x, values, pattern)
    shape, want = values._layout.shape, len(pattern.result)
    if len(shape) > want:
        values = values.reshape(shape[len(shape) - want :])
    return IndexPut.inplace(x, places, values, pattern, accumulate)


def _check_values(x: Tensor, values: Tensor, pattern: Pattern) -> None:
    if values._layout.dtype is not x._layout.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{scalar_type(x.dtype)} for the destination and {scalar_type(values.dtype)} for the source."
        )
    shape = values._layout.shape
    lead, kept = shape[: max(len(shape) - len(pattern.result), 0)], shape[-len(pattern.result) or len(shape) :]
    into = pattern.result[len(pattern.result) - len(kept) :]
    if any(n != 1 for n in lead) or any(n not in (1, m) for n, m in zip(kept, into, strict=True)):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(shape)} cannot be broadcast to indexing result of shape "
            f"{list(pattern.result)}"
        )


def _index_list(op: str, x: Tensor, indices: Any) -> list[Tensor | None]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{op}(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}"
        )
    if all(i is None for i in indices):
        raise IndexError(f"{op}(): at least one index tensor is needed, got {len(indices)} None")
    if len(indices) > x._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x._layout.ndim} (got {len(indices)})")
    return list(indices)


def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Set, or with ``accumulate`` add to, the elements that a tuple of index tensors names."""
    return _put(self, _index_list("index_put_", self, indices), values, accumulate)


@public
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with the elements that a tuple of index tensors names set, or added to."""
    named = _index_list("index_put", input, indices)
    if grad_state.levels and (wrapped := outermost_wrapped(named)) is not None:
        own = input if wrapped._level.is_batched(input) else wrapped._level.with_batch(input)
        return _put(own.clone(), named, values, accumulate)
    places, pattern = resolve(input, named)
    _check_values(input, values, pattern)
    return IndexPut.apply(input, places, values, pattern, accumulate)


public(index_put_)


@method
def __delitem__(self: Tensor, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")
