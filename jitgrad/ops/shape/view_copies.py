"""The copying forms of views, ``transpose_copy`` of ``transpose``: the same elements in new, row-major memory.

One rule makes all of them, the view followed by a copy of it; gradients pass through both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.errors import must_be_tensor
from jitgrad.core.layout import as_int, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.parameter_types import mark_explaining
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.ops.shape.copy import Clone, Contiguous
from jitgrad.ops.shape.slicing import Slice

__all__ = ["slice_view"]


def _row_major_copy(view: Tensor) -> Tensor:
    return Clone.apply(view) if view._layout.contiguous else Contiguous.apply(view)


def _copying(view: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The copying form of a view, or of one that returns several, under ``name``."""

    @functools.wraps(view)
    def copying(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        shown = view(input, *args, **kwargs)
        return tuple(map(_row_major_copy, shown)) if isinstance(shown, (tuple, list)) else _row_major_copy(shown)

    copying.__name__ = copying.__qualname__ = name
    copying.__doc__ = f"A copy, in row-major memory, of what ``{name.removesuffix('_copy')}`` shows."
    form = takes_out(copying, name)
    return _silent(form) if name in ("split_copy", "split_with_sizes_copy", "unbind_copy") else form


def _silent(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which returns nothing where it writes into several tensors."""

    @functools.wraps(function)
    def form(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return None if kwargs.get("out") is not None else result

    mark_explaining(form)
    return form


def alias(input: Tensor) -> Tensor:
    """The tensor as it is."""
    if not isinstance(input, Tensor):
        raise must_be_tensor("alias_copy", "input", 1, input)
    return input


def slice_view(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A view of the elements ``start``, ``start + step``, ... below ``end`` of dim ``dim``."""
    if int_argument("slice", "step", 5, step) <= 0:
        raise RuntimeError("slice step must be positive")
    if not input._layout.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    d = normalize_dim(dim, input._layout.ndim)
    n = input._layout.shape[d]
    first, last = (_within(n, edge, default) for edge, default in ((start, 0), (end, n)))
    return Slice.apply(input, d, first, max(first, last), step)


def _viewed(self: Tensor, *each: Any, size: Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """``view``; of memory that no view shows in this shape, a copy."""
    named: dict[str, Any] = {name: value for name, value in (("size", size), ("dtype", dtype)) if value is not None}
    try:
        return self.view(*each, **named)
    except RuntimeError as error:
        if not str(error).startswith("view size is not compatible"):
            raise
        return self.reshape(*each, *named.values())


def _within(n: int, edge: int | None, default: int) -> int:
    """An end of a slice of ``n`` elements, counted from the front, in 0 .. n."""
    edge = default if edge is None else int_argument("slice", "start", 3, edge)
    return min(max(edge + n if edge < 0 else edge, 0), n)


def _narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``narrow`` with the checks of ``narrow_copy``."""
    shape, d, n = input._layout.shape, int_argument("narrow_copy", "dim", 2, dim), as_int(length)
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if d >= len(shape):
        raise RuntimeError(
            "Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false.  (Could this error "
            "message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    d, begin = normalize_dim(d, len(shape)), as_int(start)
    begin = begin + shape[d] if -shape[d] <= begin < 0 else begin
    if not 0 <= begin <= begin + n <= shape[d]:
        raise RuntimeError(f"start ({begin}) + length ({n}) exceeds dimension size ({shape[d]}).")
    return Slice.apply(input, d, begin, begin + n, 1)


_VIEWS = (
    "as_strided", "detach", "diagonal", "expand", "permute", "select", "split", "split_with_sizes", "squeeze", "t",
    "transpose", "unbind", "unfold", "unsqueeze", "view_as_complex", "view_as_real",
)  # fmt: skip
for _name in _VIEWS:
    public(_copying(getattr(Tensor, _name), f"{_name}_copy"), method_too=False)
public(_copying(_viewed, "view_copy"), method_too=False)
public(_copying(alias, "alias_copy"), method_too=False)
public(_copying(slice_view, "slice_copy"), method_too=False)
public(_copying(_narrow, "narrow_copy"))


@public
def slice_inverse(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The memory of ``input`` by the shape, strides and offset of ``src``, one of its slices."""
    return input.as_strided(src.size(), src.stride(), src.storage_offset())
