"""Views along dims of size one: expand, squeeze, unsqueeze; and sums back to smaller shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.errors import must_be_tensor, type_title
from jitgrad.core.layout import Layout, Size, broadcast_shapes, intern, normalize_dim, normalize_dims
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one, over_dims, rewritten
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import check_tensors
from jitgrad.dispatch.registry import fast_method, method, public
from jitgrad.dispatch.sizes import as_ints, ints_argument, is_int, size_argument
from jitgrad.dispatch.structured import View
from jitgrad.dispatch.views import viewing
from jitgrad.ops.shape.view import Reshaping, relaying, reshaped

__all__ = ["Expand", "Squeeze", "Unsqueeze", "summed_to"]


def _expand_batched(call: BatchedCall) -> Any:
    """The dims that a sample lacks are added after the dim of the batch, which is the first."""
    x, size = call["x"], call["size"]
    missing = len(size) + 1 - x._layout.ndim
    if missing < 0:
        return one_by_one(call)
    shape = x._layout.shape
    x = x.view(shape[0], *(1,) * missing, *shape[1:]) if missing else x
    return call.run(x=x, size=(call.size, *size))


class Expand(View):
    """The elements repeated along dims of size 1, without copying."""

    batch = _expand_batched
    name = "expand_to"
    samples = cases(lambda: (draw(2, 1, 3), (4, 2, 5, 3)), lambda: (draw(), (2,)))

    def plan(x_layout, size):
        return relaying(x_layout, *_expanded(x_layout, size))

    def grad_x(g, x_layout):
        return summed_to(g, x_layout.shape)


def _expanded(layout: Layout, size: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, strides) of a tensor of ``layout`` expanded to ``size``."""
    lead = len(size) - layout.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand({type_title(layout)}{{{list(layout.shape)}}}, size={list(size)}): the number of sizes provided "
            f"({len(size)}) must be greater or equal to the number of dimensions in the tensor ({layout.ndim})"
        )
    shape, strides = [], []
    for d in range(len(size) - 1, -1, -1):  # as PyTorch: of several dims that don't fit the last is named
        n = size[d]
        own = layout.shape[d - lead] if d >= lead else 1
        if n == -1 and d < lead:
            raise RuntimeError(
                f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
            )
        n = own if n == -1 else n
        if n != own and (own != 1 or n < 0):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({own}) at non-singleton "
                f"dimension {d}.  Target sizes: {list(size)}.  Tensor sizes: {list(layout.shape)}"
            )
        shape.append(n)
        # A stride of 0 reads the same element all along a dim.
        strides.append(layout.strides[d - lead] if d >= lead and n == own else 0)
    shape.reverse()
    strides.reverse()
    # A new dim that repeats nothing has the stride that a contiguous one would have: that of all inner dims together.
    for d in range(lead - 1, -1, -1):
        if shape[d] == 1 and layout.ndim:
            strides[d] = shape[d + 1] * strides[d + 1]
    return tuple(shape), tuple(strides)


def expand(self: Tensor, *each: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Repeat along dims of size 1, and along new leading dims, without copying; -1 keeps a size."""
    return Expand.apply(self, size_argument("expand", each, "size", size))


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Repeat to the shape of ``other`` without copying."""
    if not isinstance(other, Tensor):
        raise must_be_tensor("expand_as", "other", 2, other)
    return Expand.apply(self, other._layout.shape)


for _function in (expand, expand_as):
    method(_function, fast=True)


@method
def broadcast_to(self: Tensor, *each: Any, size: Any = None) -> Tensor:
    """Repeat to ``size`` without copying, as broadcasting does."""
    return Expand.apply(self, size_argument("broadcast_to", each, "size", size))


def _broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """Repeat to ``size`` without copying, as broadcasting does."""
    return Expand.apply(input, ints_argument("broadcast_to", "size", 2, size))


public(_broadcast_to, "broadcast_to", method_too=False)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors, expanded to the shape that they broadcast to; those that have it are returned themselves."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    check_tensors(given)
    shape = broadcast_shapes(*(t._layout.shape for t in given))
    return tuple([t if t._layout.shape == shape else Expand.apply(t, shape) for t in given])


def shapes_broadcast(*shapes: Any) -> Size:
    """The shape that tensors of these shapes (ints or sequences) broadcast to."""
    result: list[int] = []
    for k, given in enumerate(shapes):
        if not (isinstance(given, (tuple, list)) or (is_int(given) and not isinstance(given, Tensor))):
            raise RuntimeError(f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {given}")
        shape = as_ints("broadcast_shapes", given, "shapes") if isinstance(given, (tuple, list)) else (given,)
        result = [1] * (len(shape) - len(result)) + result
        for d in range(-1, -len(shape) - 1, -1):
            if shape[d] != 1 and result[d] not in (1, shape[d]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[d]} at {d}! Mismatching argument at index "
                    f"{k} had {shape}; but expected shape should be broadcastable to {result}"
                )
            result[d] = result[d] if shape[d] == 1 else shape[d]
    return Size(result)


public(broadcast_tensors, method_too=False)
public(shapes_broadcast, "broadcast_shapes", method_too=False)


class Unsqueeze(View, public=True):
    """A new dim of size 1 at ``dim``."""

    batch = over_dims("dim", extra=1)
    samples = cases(lambda: (draw(2, 3), 1), lambda: (draw(2, 3).t(), -1))

    def plan(x_layout, dim):
        d, shape, strides = normalize_dim(dim, x_layout.ndim + 1), x_layout.shape, x_layout.strides
        # Any stride would do for one element; this one is PyTorch's.
        step = shape[d] * strides[d] if d < len(shape) else 1
        full, steps = (*shape[:d], 1, *shape[d:]), (*strides[:d], step, *strides[d:])
        layout = intern(x_layout.numpy_dtype, full, steps, x_layout.device)
        return viewing(layout, f"x._data[{':, ' * d}None, ...]")

    def grad_x(g, dim):
        return SqueezeDim.apply(g, dim)


def _squeezing(layout: Layout, dims: Sequence[int]) -> Any:
    """The plan of a view without those of ``dims`` whose size is 1."""
    keep = [d for d, n in enumerate(layout.shape) if n != 1 or d not in dims]
    shape, strides = tuple([layout.shape[d] for d in keep]), tuple([layout.strides[d] for d in keep])
    places = "".join([":, " if d in keep else "0, " for d in range(layout.ndim)])
    return viewing(intern(layout.numpy_dtype, shape, strides, layout.device), f"x._data[{places}...]")


class Squeeze(Reshaping):
    """Drop all dims of size 1."""

    batch = rewritten(lambda call, x: x.squeeze(tuple(range(1, x._layout.ndim))))  # a batch of size 1 keeps its dim
    name = "squeeze_all"
    samples = cases(lambda: (draw(1, 3, 1),))

    def plan(x_layout):
        return _squeezing(x_layout, range(x_layout.ndim))


class SqueezeDim(Reshaping):
    """Drop one dim if its size is 1."""

    batch = over_dims("dim")
    grad_name = "SqueezeBackward1"
    samples = cases(lambda: (draw(1, 3, 1), 0), lambda: (draw(1, 3), 1))

    def plan(x_layout, dim):
        return _squeezing(x_layout, normalize_dims(dim, x_layout.ndim))


class SqueezeDims(Reshaping):
    """Drop those of several dims whose size is 1."""

    batch = over_dims("dim", empty_is_all=False)
    grad_name = "SqueezeBackward2"
    samples = cases(lambda: (draw(1, 3, 1), (0, 1, 2)))

    def plan(x_layout, dim):
        return _squeezing(x_layout, normalize_dims(dim, x_layout.ndim) if len(dim) else ())  # no dims are not all


@fast_method
def squeeze(input: Tensor, dim: Any = None, *more: int, axis: Any = None) -> Tensor:
    """Drop dims of size 1: all, or those of ``dim`` (an int or several, also named ``axis``) and ``more``."""
    dim = dim if axis is None else axis
    if dim is None:
        return Squeeze.apply(input)
    if is_int(dim) and not more:
        return SqueezeDim.apply(input, dim)
    return SqueezeDims.apply(input, size_argument("squeeze", (dim, *more), "dim"))


# -- sums to smaller shapes -------------------------------------------------------------------------


@public
def sum_to_size(input: Tensor, *each: Any, size: Any = None) -> Tensor:
    """Sum over what broadcasting ``size`` to this shape would repeat; the inverse of expand."""
    wanted, shape = size_argument("sum_to_size", each, "size", size), input._layout.shape
    if not wanted:
        return input.sum()  # in int64 for integers, as every sum, also where no dim is left to sum over
    lead = len(shape) - len(wanted)
    if lead < 0 or any(n not in (1, m) for n, m in zip(wanted, shape[lead:], strict=True)):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    return summed_to(input, wanted)


def summed_to(x: Tensor, size: tuple[int, ...]) -> Tensor:
    """``sum_to_size`` for rules: ``size`` is a tuple of ints that broadcasts to the shape of ``x``."""
    shape = x._layout.shape
    lead = len(shape) - len(size)
    dims = [d for d, n in enumerate(shape) if d < lead or (size[d - lead] == 1 and n != 1)]
    total = x.sum(dims, True) if dims else x
    return reshaped(total, size) if lead else total
