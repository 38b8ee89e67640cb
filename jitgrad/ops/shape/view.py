"""Views that show all elements in another shape or order: view, reshape, permute, transpose and the like.

Views share memory and version counter with their base. Their gradient is the inverse rearrangement of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import invalid_combination, must_be, must_be_tensor
from jitgrad.core.layout import Layout, cache, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.batch_rules import BatchedCall, aligned, one_by_one, over_dims, sized
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import fast_method, method, public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import as_ints, infer_size, int_argument, ints_argument, is_int, size_argument
from jitgrad.dispatch.strides import restriding, view_strides
from jitgrad.dispatch.structured import Structured, View
from jitgrad.dispatch.views import viewing
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.dtype_view import ViewAsDtype
from jitgrad.ops.shape.lazy_view import conj

__all__ = ["Alias", "Permute", "Reshaped", "Reshaping", "Transpose", "relaying", "reshape", "reshaped"]


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


# {(layout, shape as it was asked for) or (layout, first dim, last dim) of flatten: (function, shape without -1)}
_RESHAPES: dict[Any, tuple[Any, tuple[int, ...]]] = cache()


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """``reshape`` for rules: the shape is a tuple of ints."""
    apply, full = _RESHAPES.get((x._layout, shape)) or _plan_reshape(x._layout, shape)
    return apply(x, full)


def _plan_reshape(layout: Layout, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """(the op that reshapes, the shape without -1): a view where strides allow it, else a copy."""
    full = infer_size(shape, layout.numel)
    if view_strides(layout, full) is None:
        op: Any = _copied
    else:  # two ops, as PyTorch's nodes have two names
        op = (Reshaped if layout.contiguous else ReshapeAlias).apply
    found = _RESHAPES[layout, shape] = op, full
    return found


def _copied(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return UnsafeView.apply(contiguous(x), shape)


def reshape(self: Tensor, *each: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy.

    One size may be -1. RuntimeError where the numbers of elements differ.
    """
    wanted = size_argument("reshape", each, "shape", shape)
    apply, full = _RESHAPES.get((self._layout, wanted)) or _plan_reshape(self._layout, wanted)
    return apply(self, full)


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
    if dtype is not None:
        return ViewAsDtype.apply(self, dtype)
    if (not each and size is None) or (len(each) > 1 and not is_int(each[0])):
        raise invalid_combination("view", (self, *each))
    if each and (isinstance(each[0], dtypes.dtype) or each[0] is float):
        return ViewAsDtype.apply(self, each[0])
    return Reshaped.apply(self, size_argument("view", each, "size", size))


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
            return found[0](input, found[1])
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


# -- order ------------------------------------------------------------------------------------------


def _permuted(layout: Layout, order: Sequence[int]) -> Layout:
    """The layout of a view with the dims in another order."""
    shape, strides = tuple([layout.shape[d] for d in order]), tuple([layout.strides[d] for d in order])
    return intern(layout.numpy_dtype, shape, strides, layout.device)


def _permute_batched(call: BatchedCall) -> Any:
    return call.run(dims=(0, *(d + 1 for d in call["dims"])))


class Permute(View):
    """The dims in another order."""

    batch = _permute_batched
    name = "permute_dims"
    samples = cases(lambda: (draw(2, 3, 4), (2, 0, 1)))

    def plan(x_layout, dims):
        return viewing(_permuted(x_layout, dims), "x._data.transpose(dims)", dims=dims)

    def grad_x(g, dims):
        return Permute.apply(g, tuple(sorted(range(len(dims)), key=dims.__getitem__)))


def _transpose_batched(call: BatchedCall) -> Tensor:
    """Samples without dims stay as they are; a dim out of range is an IndexError for them too."""
    if call.ndim("x"):
        return over_dims("dim0", "dim1")(call)
    for name in ("dim0", "dim1"):
        normalize_dim(call[name], 0)
    return call["x"]


class Transpose(View, public=True):
    """The tensor with dims ``dim0`` and ``dim1`` exchanged."""

    batch = _transpose_batched
    aliases = ("swapaxes", "swapdims")
    samples = cases(lambda: (draw(2, 3, 4), 0, -1))

    def plan(x_layout, dim0, dim1):
        n = x_layout.ndim
        a, b = normalize_dim(dim0, n), normalize_dim(dim1, n)
        if not n:  # PyTorch lets a tensor without dims be transposed by dims 0 and -1; NumPy does not.
            return viewing(x_layout, "x._data")
        order = list(range(n))
        order[a], order[b] = b, a
        return viewing(_permuted(x_layout, order), "x._data.swapaxes(a, b)", a=a, b=b)

    def grad_x(g, dim0, dim1):
        return Transpose.apply(g, dim0, dim1)


def _t_batched(call: BatchedCall) -> Any:
    if call.ndim("x") > 2:
        return one_by_one(call)  # which raises what ``t`` says of more than two dims
    return Transpose.apply(call["x"], 1, 2) if call.ndim("x") == 2 else Alias.apply(call["x"])


class T(View, public=True):
    """The transpose of a matrix; vectors and scalars stay as they are."""

    batch = _t_batched
    samples = cases(lambda: (draw(2, 3),), lambda: (draw(3),))

    def plan(x_layout):
        if x_layout.ndim > 2:
            raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x_layout.ndim}D")
        return viewing(_permuted(x_layout, range(x_layout.ndim)[::-1]), "x._data.T")

    def grad_x(g):
        return T.apply(g)


class Alias(View):
    """The tensor itself, as a view of it."""

    batch = aligned
    samples = cases(lambda: (draw(2, 3),))

    def plan(x_layout):
        return viewing(x_layout, "x._data")

    def grad_x(g):
        return g


def permute(self: Tensor, *each: Any, dims: Any = None) -> Tensor:
    """The dims in another order: ``x.permute(2, 0, 1)`` puts the last dim first."""
    wanted = size_argument("permute", each, "dims", dims)
    n = self._layout.ndim
    return Permute.apply(self, _ORDERS.get((n, wanted)) or _order(n, wanted))


method(permute, fast=True)


def _permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """The dims in another order: ``permute(x, (2, 0, 1))`` puts the last dim first."""
    n, wanted = input._layout.ndim, ints_argument("permute", "dims", 2, dims)
    return Permute.apply(input, _ORDERS.get((n, wanted)) or _order(n, wanted))


public(_permute, "permute", method_too=False)


_ORDERS: dict[Any, tuple[int, ...]] = cache()


def _order(n: int, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The dims of ``permute`` of a tensor with ``n`` dims, counted from the front."""
    if len(wanted) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {len(wanted)}"
        )
    order = tuple([normalize_dim(d, n) for d in wanted])
    if len(set(order)) != n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    _ORDERS[n, wanted] = order
    return order


@settled(1)
def _movedim(input: Tensor, source: Any, destination: Any) -> Any:
    n = input._layout.ndim
    ends = []
    for label, given in (("source", source), ("destination", destination)):
        dims = [given] if is_int(given) else list(given)
        ends.append([normalize_dim(d, n) for d in dims])
        if len(set(ends[-1])) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{label}` ({dims})")
    if len(ends[0]) != len(ends[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({ends[0]} dims) should contain the same number of "
            f"dims as destination ({ends[1]} dims)"
        )
    if not n:
        return Alias.apply, ()
    placed = dict(zip(ends[1], ends[0], strict=True))  # dim of the result -> dim of the input, where given
    rest = iter([d for d in range(n) if d not in ends[0]])
    return Permute.apply, (tuple([placed[d] if d in placed else next(rest) for d in range(n)]),)


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dims to other positions; the others keep their order."""
    return _movedim(input, source, destination)


public(movedim)
public(movedim, "moveaxis")


def _matrix(x: Tensor, name: str) -> Tensor:
    if x._layout.ndim == 0:
        return x
    if x._layout.ndim == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {x._layout.ndim}-D tensor."
        )
    return Transpose.apply(x, -2, -1)


def _reversed_dims(self: Tensor) -> Tensor:
    if self._layout.ndim == 2:
        return Permute.apply(self, (1, 0))
    else:
        warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return Permute.apply(self, tuple(range(self._layout.ndim))[::-1])


def _hermitian(self: Tensor) -> Tensor:
    n = self._layout.ndim
    if n == 2:
        return conj(Transpose.apply(self, 0, 1))
    if n == 0:
        return conj(Alias.apply(self))
    hint = " For batches of matrices, consider using tensor.mH" if n > 2 else ""
    raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor.{hint}")


@public
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of a matrix or of each of a batch of matrices."""
    return conj(_matrix(input, "mH"))


Tensor.T = property(_reversed_dims, doc="The tensor with its dims reversed.")  # type: ignore[method-assign, assignment]
Tensor.mT = property(lambda self: _matrix(self, "mT"), doc="Each matrix transposed.")  # type: ignore[method-assign, assignment]
Tensor.H = property(_hermitian, doc="The conjugate transpose of a matrix.")  # type: ignore[method-assign, assignment]
Tensor.mH = property(adjoint, doc="Each matrix transposed and conjugated.")  # type: ignore[method-assign, assignment]
