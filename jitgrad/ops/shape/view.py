"""Views that show all elements in another shape or order: view, reshape, permute, transpose and the like.

Views share memory and version counter with their base. Their gradient is the inverse rearrangement of theirs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import invalid_combination, must_be, must_be_tensor
from jitgrad.core.layout import Layout, cache, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, aligned, one_by_one, over_dims, sized
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import fast_method, method, public
from jitgrad.dispatch.sizes import as_ints, infer_size, is_int, size_argument
from jitgrad.dispatch.strides import restrided, view_strides
from jitgrad.dispatch.structured import Structured, View, view_of, viewing
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.dtype_view import ViewAsDtype
from jitgrad.ops.shape.lazy_view import conj

__all__ = ["Alias", "Permute", "Reshaped", "Reshaping", "Transpose", "relaid", "reshape", "reshaped"]


def relaid(x: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int = 0, kind: str = "") -> Tensor:
    """A view of ``x`` by shape and strides, in elements."""
    layout = x._layout
    new = intern(layout.numpy_dtype, tuple(shape), tuple(strides), layout.device)
    return view_of(x, restrided(x._data, shape, strides, offset), new, kind)


# -- shape ------------------------------------------------------------------------------------------


_SHAPES: dict[Any, Any] = cache()


def _strides_as(x: Tensor, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...] | None, Layout]:
    """The shape without -1, strides of the view or None where only a copy has that shape, row-major layout."""
    key = (x._layout, shape)
    found = _SHAPES.get(key)
    if found is None:
        full = infer_size(shape, x._layout.numel)
        layout = intern(x._layout.numpy_dtype, full, None, x._layout.device)
        found = _SHAPES[key] = (full, view_strides(x._layout, full), layout)
    return found


class Reshaping(View, abstract=True):
    """Base of views that show the same elements, in the same order, in another shape."""

    def grad_x(g, x_layout):
        return reshaped(g, x_layout.shape)


class Reshaped(Reshaping):
    """The same elements in another shape."""

    batch = sized("shape")
    name, grad_name = "view_shape", "ViewBackward0"
    samples = cases(lambda: (draw(2, 3, 4), (6, 4)), lambda: (draw(2, 3, 4).transpose(0, 1), (3, 2, 2, 2)))

    def forward(x, shape):
        full, strides, layout = _strides_as(x, shape)
        if strides is None:
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans "
                "across two contiguous subspaces). Use .reshape(...) instead."
            )
        if x._layout.contiguous:  # NumPy's reshape takes a fifth of a view by strides: 0.4 us
            return view_of(x, x._data.reshape(full), layout)
        return relaid(x, full, strides)


class ReshapeAlias(Reshaping):
    """The same elements in another shape, where they do not lie row by row."""

    batch = sized("shape")
    samples = cases(lambda: (draw(2, 3, 4).transpose(0, 1), (3, 2, 2, 2)))

    def forward(x, shape):
        return Reshaped.forward(x, shape)


class UnsafeView(Structured):
    """The elements of ``x``, a contiguous tensor that nothing else refers to, in another shape.

    Shares the memory of ``x``, but no view: nobody can see that, so it has no base and versions of its own.
    """

    linear = ("x",)
    batch = sized("shape")
    owned = False
    reference = np.reshape
    samples = cases(lambda: (draw(2, 3), (6,)))

    def forward(x, shape):
        return wrap(x._data.reshape(shape), intern(x._layout.numpy_dtype, shape, None, x._layout.device))

    def grad_x(g, x_layout):
        return reshaped(g, x_layout.shape)


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """``reshape`` for rules: the shape is a tuple of ints."""
    full, strides, _ = _strides_as(x, shape)
    if strides is not None:  # two ops, as PyTorch's nodes have two names
        return (Reshaped if x._layout.contiguous else ReshapeAlias).apply(x, full)
    return UnsafeView.apply(contiguous(x), full)


@fast_method
def reshape(input: Tensor, *each: Any, shape: Any = None) -> Tensor:
    """The same elements in another shape: a view where strides allow it, else a copy.

    One size may be -1. RuntimeError where the numbers of elements differ.
    """
    return reshaped(input, size_argument("reshape", each, "shape", shape))


def view(self: Tensor, *each: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same memory in another shape, or read as another dtype.

    RuntimeError where the strides would need a copy; see ``reshape``.
    """
    if dtype is not None:
        return ViewAsDtype.apply(self, dtype)
    if not each and size is None:
        raise invalid_combination("view", (), "(torch.dtype dtype)", "(tuple of ints size)")
    if each and (isinstance(each[0], dtypes.dtype) or each[0] is float):
        return ViewAsDtype.apply(self, each[0])
    return Reshaped.apply(self, size_argument("view", each, "size", size))


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """The same memory in the shape of ``other``."""
    if not isinstance(other, Tensor):
        raise must_be_tensor("view_as", "other", 1, other)
    return Reshaped.apply(self, other._layout.shape)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of ``other``."""
    if not isinstance(other, Tensor):
        raise must_be_tensor("reshape_as", "other", 1, other)
    return reshaped(self, other._layout.shape)


for _function in (view, view_as, reshape_as):
    method(_function, fast=True)


@fast_method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Join the dims from ``start_dim`` to ``end_dim`` into one."""
    shape = input._layout.shape
    start, end = normalize_dim(start_dim, len(shape)), normalize_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return input
    return reshaped(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@public
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Split one dim into several whose sizes multiply to its own; one may be -1."""
    shape = input._layout.shape
    dim = normalize_dim(dim, len(shape))
    if not isinstance(sizes, (tuple, list)):
        raise must_be("unflatten", "sizes", 2, "tuple of ints", sizes)
    sizes = as_ints("unflatten", sizes, "sizes", 2)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
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


_reversed = attrgetter("T")


def _same(array: Any) -> Any:
    return array


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
        return viewing(methodcaller("transpose", dims), _permuted(x_layout, dims))

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
            return viewing(_same, x_layout)
        order = list(range(n))
        order[a], order[b] = b, a
        return viewing(_reversed if n == 2 and a != b else methodcaller("swapaxes", a, b), _permuted(x_layout, order))

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
        return viewing(_reversed, _permuted(x_layout, range(x_layout.ndim)[::-1]))

    def grad_x(g):
        return T.apply(g)


class Alias(View):
    """The tensor itself, as a view of it."""

    batch = aligned
    samples = cases(lambda: (draw(2, 3),))

    def plan(x_layout):
        return viewing(_same, x_layout)

    def grad_x(g):
        return g


@fast_method
def permute(input: Tensor, *each: Any, dims: Any = None) -> Tensor:
    """The dims in another order: ``x.permute(2, 0, 1)`` puts the last dim first."""
    wanted = size_argument("permute", each, "dims", dims)
    n = input._layout.ndim
    if len(wanted) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {len(wanted)}"
        )
    order = tuple([normalize_dim(d, n) for d in wanted])
    if len(set(order)) != n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return Permute.apply(input, order)


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dims to other positions; the others keep their order."""
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
        return Alias.apply(input)
    placed = dict(zip(ends[1], ends[0], strict=True))  # dim of the result -> dim of the input, where given
    rest = iter([d for d in range(n) if d not in ends[0]])
    return Permute.apply(input, tuple([placed[d] if d in placed else next(rest) for d in range(n)]))


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
    if self._layout.ndim != 2:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
            UserWarning, stacklevel=2,
        )  # fmt: skip
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
