"""Views that show the dims in another order: permute, transpose, movedim, ``x.T`` and its kin.

Their gradient is the inverse order of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.layout import Layout, cache, intern, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one, over_dims
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import ints_argument, is_int, size_argument
from jitgrad.dispatch.structured import View
from jitgrad.dispatch.views import viewing
from jitgrad.ops.shape.lazy_view import conj
from jitgrad.ops.shape.view import Alias

__all__ = ["Permute", "T", "Transpose", "movedim"]


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
