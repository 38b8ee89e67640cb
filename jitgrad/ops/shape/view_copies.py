"""The copying forms of views, ``transpose_copy`` of ``transpose``: the same elements in new, row-major memory.

One rule makes all of them, the view followed by a copy of it; gradients pass through both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.dtypes import dtype
from jitgrad.core.errors import invalid_combination, must_be_tensor
from jitgrad.core.layout import as_int, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.parameter_types import mark_explaining
from jitgrad.dispatch.registry import FUNCTIONS, public
from jitgrad.dispatch.sizes import int_argument, ints_argument, is_int
from jitgrad.ops.shape.copy import Contiguous
from jitgrad.ops.shape.slicing import Slice

__all__ = ["slice_view"]


def _copying(view: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The copying form of a view, or of one that returns several, under ``name``."""

    @functools.wraps(view)
    def copying(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            shown = view(input, *args, **kwargs)
        except TypeError as error:  # an argument's, which speaks of the view
            raise TypeError(re.sub(rf"^{name.removesuffix('_copy')}\(\)", f"{name}()", str(error))) from None
        return tuple(map(Contiguous.apply, shown)) if isinstance(shown, (tuple, list)) else Contiguous.apply(shown)

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


def _viewed(input: Tensor, *form: Any, **named: Any) -> Tensor:
    """``view`` of a size or a dtype; of memory that no view shows in this shape, a copy."""
    given = (*form, *named.values())
    if not isinstance(input, Tensor) or len(given) != 1 or not named.keys() <= {"size", "dtype"} or not _fits(*given):
        raise invalid_combination("view_copy", (input, *form), *_VIEWED, **named)
    try:
        return input.view(*given)
    except RuntimeError as error:
        if not str(error).startswith("view size is not compatible"):
            raise
        return input.reshape(*given)


_VIEWED = ("(Tensor input, torch.dtype dtype, *, Tensor out = None)",
           "(Tensor input, tuple of ints size, *, Tensor out = None)")  # fmt: skip


def _fits(form: Any) -> bool:
    """Whether ``form`` is a dtype, or sizes."""
    return isinstance(form, dtype) or form is float or (isinstance(form, (tuple, list)) and all(map(is_int, form)))


def _expanded(input: Tensor, size: Sequence[int], *, implicit: bool = False) -> Tensor:
    """``expand`` with the arguments of functions."""
    return input.expand(ints_argument("expand_copy", "size", 2, size))


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
    "as_strided", "detach", "diagonal", "select", "split", "split_with_sizes", "squeeze", "t",
    "transpose", "unbind", "unfold", "unsqueeze", "view_as_complex", "view_as_real",
)  # fmt: skip
for _name in _VIEWS:
    public(_copying(getattr(Tensor, _name), f"{_name}_copy"), method_too=False)
public(_copying(_viewed, "view_copy"), method_too=False)
public(_copying(_expanded, "expand_copy"), method_too=False)
public(_copying(FUNCTIONS["permute"], "permute_copy"), method_too=False)
public(_copying(alias, "alias_copy"), method_too=False)
public(_copying(slice_view, "slice_copy"), method_too=False)
public(_copying(_narrow, "narrow_copy"))


@public
def slice_inverse(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The memory of ``input`` by the shape, strides and offset of ``src``, one of its slices."""
    return input.as_strided(src.size(), src.stride(), src.storage_offset())
