"""Views that show all elements in another shape: view, reshape, flatten and the like.

Views share memory and version counter with their base. Their gradient is the inverse rearrangement of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import invalid_combination, must_be, must_be_tensor
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, cache, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import aligned, sized
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import fast_method, method, public
from jitgrad.dispatch.sizes import as_ints, infer_size, int_argument, ints_argument, is_int, size_argument
from jitgrad.dispatch.strides import restriding, view_strides
from jitgrad.dispatch.structured import Structured, View
from jitgrad.dispatch.views import viewing
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.dtype_view import ViewAsDtype

__all__ = ["Alias", "ReshapeAlias", "Reshaped", "Reshaping", "UnsafeView", "relaying", "reshape", "reshaped"]


def relaying(layout: Layout, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Callable[..., Tensor]:
    """The plan of a view by shape and strides, in elements, of tensors of a layout."""
    view = intern(layout.numpy_dtype, tuple(shape), tuple(strides), layout.device)
    return viewing(view, "take(x._data)", take=restriding(layout, view, offset))


# -- shape ------------------------------------------------------------------------------------------


class Reshaping(View, abstract=True):
    """Base of views that show the same elements, in the same order, in another shape."""

    def grad_x(g, x_layout):
        return reshaped(g, x_layout.shape)


class Reshaped(Reshaping):
    """The same elements in another shape."""

    batch = sized("shape")
    name, grad_name = "view_shape", "ViewBackward0"
    samples = cases(lambda: (draw(2, 3, 4), (6, 4)), lambda: (draw(2, 3, 4).transpose(0, 1), (3, 2, 2, 2)))

    def plan(x_layout, shape):
        full = infer_size(shape, x_layout.numel)
        strides = view_strides(x_layout, full)
        if strides is None:
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans "
                "across two contiguous subspaces). Use .reshape(...) instead."
            )
        if x_layout.contiguous:  # NumPy's reshape takes half as long as a view by strides
            made = intern(x_layout.numpy_dtype, full, strides, x_layout.device)
            return viewing(made, "x._data.reshape(shape)", shape=made.array_shape)
        return relaying(x_layout, full, strides)


class ReshapeAlias(Reshaping):
    """The same elements in another shape, where they do not lie row by row."""

    batch = sized("shape")
    samples = cases(lambda: (draw(2, 3, 4).transpose(0, 1), (3, 2, 2, 2)))
    plan = Reshaped.plan


class UnsafeView(Structured):
    """The elements of ``x``, a tensor that nothing else refers to, in another shape.

    Shares the memory of ``x``, but no view: nobody can see that, so it has no base and versions of its own.
    """

    linear = ("x",)
    batch = sized("shape")
    owned, owned_if_taken = False, True
    reference = np.reshape
    samples = cases(lambda: (draw(2, 3), (6,)))

    def plan(x_layout, shape):
        if x_layout.contiguous:
            layout = intern(x_layout.numpy_dtype, shape, None, x_layout.device)
            return lambda x: wrap(x._data.reshape(layout.array_shape), layout)
        strides = view_strides(x_layout, shape)
        if strides is None:
            return lambda x, *_: UnsafeView.forward(contiguous(x), shape)
        shown = intern(x_layout.numpy_dtype, shape, strides, x_layout.device)
        take = restriding(x_layout, shown)
        return lambda x, *_: wrap(take(x._data), shown)

    def grad_x(g, x_layout):
        return reshaped(g, x_layout.shape)


class _Planned(NamedTuple):
    """How tensors of one layout get another shape: ``shown(x)`` where nothing is recorded, else ``apply(x, shape)``.

    The two are one op; the first knows its plan already.
    """

    apply: Callable[[Tensor, tuple[int, ...]], Tensor]
    shape: tuple[int, ...]  # without -1
    shown: Callable[[Tensor], Tensor]


# By layout and shape as it was asked for, or the first and the last dim of flatten.
_RESHAPES: dict[Any, _Planned] = cache()
_VIEWS: dict[Any, _Planned] = cache()  # by layout and arguments of ``view``
_INTS = frozenset({int})


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """``reshape`` for rules: the shape is a tuple of ints."""
    apply, full, shown = _RESHAPES.get((x._layout, shape)) or _plan_reshape(x._layout, shape)
    return apply(x, full) if x._requires_grad and grad_state.enabled else shown(x)


def _plan_reshape(layout: Layout, shape: tuple[int, ...]) -> _Planned:
    """A view where strides allow it, else a copy."""
    full = infer_size(shape, layout.numel)
    if view_strides(layout, full) is None:
        made = _Planned(_copied, full, lambda x: _copied(x, full))
    else:  # two ops, as PyTorch's nodes have two names
        made = _plan_view(Reshaped if layout.contiguous else ReshapeAlias, layout, full)
    _RESHAPES[layout, shape] = made
    return made


def _plan_view(op: type[Reshaping], layout: Layout, shape: tuple[int, ...]) -> _Planned:
    """The plan of ``op``, a view. Layouts of tensors that a transform wraps are not interned: these go to the op."""
    if layout is not intern(layout.numpy_dtype, layout.shape, layout.strides, layout.device):
        return _Planned(op.apply, shape, lambda x: op.apply(x, shape))
    return _Planned(op.apply, shape, op.plan(layout, shape))


def _copied(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return UnsafeView.apply(contiguous(x), shape)


def reshape(self: Tensor, *each: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy.

    One size may be -1. RuntimeError where the numbers of elements differ.
    """
    wanted = size_argument("reshape", each, "shape", shape)
    apply, full, shown = _RESHAPES.get((self._layout, wanted)) or _plan_reshape(self._layout, wanted)
    return apply(self, full) if self._requires_grad and grad_state.enabled else shown(self)


method(reshape, fast=True)


def _reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy."""
    if not isinstance(input, Tensor):
        raise must_be("reshape", "input", 1, "Tensor", input)  # before a wrong shape is told
    return reshaped(input, ints_argument("reshape", "shape", 2, shape))


public(_reshape, "reshape", method_too=False)


def view(self: Tensor, *each: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same memory in another shape, or read as another dtype.

    RuntimeError where the strides would need a copy; see ``reshape``.
    """
    if each and each[0].__class__ is int is each[-1].__class__ and size is None and dtype is None:
        try:
            found = _VIEWS.get((self._layout, each))
        except TypeError:  # a list among them
            found = None
        if found is not None:
            apply, full, shown = found
            return apply(self, full) if self._requires_grad and grad_state.enabled else shown(self)
    if dtype is not None:
        return ViewAsDtype.apply(self, dtype)
    if (not each and size is None) or (len(each) > 1 and not is_int(each[0])):
        raise invalid_combination("view", (self, *each))
    if each and (isinstance(each[0], dtypes.dtype) or each[0] is float):
        return ViewAsDtype.apply(self, each[0])
    wanted = size_argument("view", each, "size", size)
    result = Reshaped.apply(self, wanted)
    if _INTS.issuperset(map(type, each)):  # no bool, which is equal to an int
        _VIEWS[self._layout, each] = _plan_view(Reshaped, self._layout, result._layout.shape)
    return result


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The same memory in the shape of ``other``."""
    if not isinstance(other, Tensor):
        raise must_be_tensor("view_as", "other", 2, other)
    return Reshaped.apply(self, other._layout.shape)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of ``other``."""
    if not isinstance(other, Tensor):
        raise must_be_tensor("reshape_as", "other", 2, other)
    return reshaped(self, other._layout.shape)


for _function in (view, view_as, reshape_as):
    method(_function, fast=True)


@fast_method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Join the dims from ``start_dim`` to ``end_dim`` into one."""
    if start_dim.__class__ is end_dim.__class__ is int:
        found = _RESHAPES.get((input._layout, start_dim, end_dim))
        if found is not None:
            apply, full, shown = found
            return apply(input, full) if input._requires_grad and grad_state.enabled else shown(input)
    shape = input._layout.shape
    start = normalize_dim(int_argument("flatten", "start_dim", 2, start_dim), len(shape))
    end = normalize_dim(int_argument("flatten", "end_dim", 3, end_dim), len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return input
    full = (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])
    result = reshaped(input, full)
    _RESHAPES[input._layout, start_dim, end_dim] = _RESHAPES[input._layout, full]
    return result


@public
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split one dim into several whose sizes multiply to its own; one may be -1."""
    shape = input._layout.shape
    dim = normalize_dim(dim, len(shape))
    if not isinstance(sizes, (tuple, list)):
        raise must_be("unflatten", "sizes", 3, "tuple of ints", sizes)
    sizes = as_ints("unflatten", sizes, "sizes", 3)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not shape:
        raise RuntimeError(
            f"unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions"
        )
    try:
        inner = infer_size(sizes, shape[dim])
    except RuntimeError as error:
        if "invalid for input" not in str(error):  # an error of another kind, such as two sizes of -1
            raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({shape[dim]}) in "
            "the input tensor"
        ) from None
    return Reshaped.apply(input, (*shape[:dim], *inner, *shape[dim + 1 :]))


@public
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
    return Reshaped.apply(contiguous(input), (-1,))


class Alias(View):
    """The tensor itself, as a view of it."""

    batch = aligned
    samples = cases(lambda: (draw(2, 3),))

    def plan(x_layout):
        return viewing(x_layout, "x._data")

    def grad_x(g):
        return g
