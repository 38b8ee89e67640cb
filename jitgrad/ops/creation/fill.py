"""Ops that write whole tensors: copy_, fill_, zero_, and triangles and diagonals."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from jitgrad.core.errors import invalid_combination, must_be_tensor
from jitgrad.core.layout import Layout, as_int, broadcast_shapes, intern, normalize_dim
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, address, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, aligned, onto_first, over_dims, rewritten
from jitgrad.dispatch.copying import copy_into, fill_array
from jitgrad.dispatch.inplace_ops import InplaceOp, stored_once
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.operand_checks import NUMBERS, check_memory
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, planned, row_major
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import fill as kernels
from jitgrad.kernels.loops import indexing
from jitgrad.ops.creation.constants import convert_number, filled_like
from jitgrad.ops.creation.from_data import tensor
from jitgrad.ops.shape.copy import Contiguous, cast, cast_gradient, warn_of_lost_imaginary
from jitgrad.ops.shape.expand import summed_to
from jitgrad.ops.shape.slicing import Diagonal, Embedded

__all__ = ["CopyFrom", "Fill", "FillWith", "Overwriting", "Tril", "Triu", "read_diagonal"]


class Overwriting(InplaceOp, abstract=True):
    """Base of ops that overwrite all elements of ``x``: the result does not depend on them, their gradient is zero."""

    def grad_x(g):
        return filled_like(g, 0)


class CopyFrom(Overwriting):
    """Write the values of ``source``, cast and broadcast, into ``x``."""

    jointly_linear = ("x", "source")
    batch = onto_first
    grad_name = "CopyBackwards"
    allows_internal_overlap = True  # of a tensor into itself, which ``write`` tells from others
    reference = lambda x, source: np.broadcast_to(source, x.shape)
    samples = cases(lambda: (draw(2, 3), draw(3, seed=1)), lambda: (draw(2, 3).t(), draw(seed=1)))

    def write(x, source):
        shape = x._layout.shape
        if source._layout.shape != shape:
            shape = tuple(broadcast_shapes(shape, source._layout.shape))
        if shape != x._layout.shape:
            raise RuntimeError(
                f"output with shape {list(x._layout.shape)} doesn't match the broadcast shape {list(shape)}"
            )
        # Views of one memory share its version counter: two counters are two memories. To ask for addresses takes 2 us.
        if source._counter is x._counter and _is_itself(source, x):
            return
        if not x._layout.contiguous:
            check_memory(x._layout)
        copy_into(x._data, x._layout, source)

    def grad_source(g, source_layout):
        return cast_gradient(summed_to(g, source_layout.shape), source_layout.dtype)


def _is_itself(source: Tensor, x: Tensor) -> bool:
    """Whether two tensors are the same elements in the same places."""
    if source is x:
        return True
    shared = source._layout is x._layout and source._counter is counter_of(x)
    return shared and address(source) == address(x)


# Written in C++ by hand, unlike PyTorch's other nodes, it is in another namespace than theirs.
CopyFrom.node_type.name = lambda self: "torch::autograd::CopyBackwards"  # type: ignore[method-assign]


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write the values of ``src``, cast and broadcast, into this tensor.

    RuntimeError where ``src`` does not broadcast to this tensor's shape.
    """
    if not isinstance(src, Tensor):
        if not isinstance(src, (bool, int, float, complex)):
            raise must_be_tensor("copy_", "other", 2, src)
        src = tensor(src)
    if src._layout.dtype.is_complex:
        warn_of_lost_imaginary(src._layout.dtype, self._layout.dtype)
    return CopyFrom.inplace(self, src)


method(copy_, fast=True)


@planned("x")
def _write_zeros(x):
    """Write zeros to ``x``."""
    if not x.contiguous or x.device != "cpu" or x.dtype.is_half:
        return lambda x: fill_array(x._data, x._layout, 0)
    return Launches([(kernels.fill, Read("x", (x.numel,)), x.numpy_dtype.type(0).item())], [], 0)


class Zero(Overwriting, public="method"):
    """Set all elements to zero."""

    batch = aligned
    allows_internal_overlap = True
    reference = np.zeros_like
    samples = cases(lambda: (draw(2, 3),))

    write = _write_zeros


class Fill(Overwriting):
    """Set all elements to a number."""

    batch = aligned
    name, grad_name, allows_internal_overlap = "fill_number", "FillBackward2", True
    reference = np.full_like
    samples = cases(lambda: (draw(2, 3), 1.5))

    def write(x, value):
        fill_array(x._data, x._layout, convert_number(value, x._layout.dtype))


def _fill_batched(call: BatchedCall) -> Any:
    """Each sample is set to the value of its own, where ``value`` is batched."""
    if "value" not in call.batched:
        return call.run()
    value = call["value"]
    return call.overwritten(value.view(call.size, *(1,) * call.ndim("x")) if not call.ndim("value") else value)


class FillWith(Overwriting):
    """Set all elements to the value of a tensor without dimensions."""

    jointly_linear = ("x", "value")
    batch = _fill_batched
    name, grad_name = "fill_tensor", "FillBackward3"
    reference = np.full_like
    samples = cases(lambda: (draw(2, 3), draw(seed=1)))

    def write(x, value):
        if value._layout.ndim:
            raise RuntimeError(
                "fill_ only supports 0-dimension value tensor but got tensor with "
                f"{value._layout.ndim} dimensions."
            )
        copy_into(x._data, x._layout, value)

    def grad_value(g, value_layout):
        return cast(g.sum(), value_layout.dtype)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Set all elements to ``value``: a number, or a tensor without dimensions."""
    if isinstance(value, Tensor):
        # An element of this tensor's own is copied first: it is about to be written over. Views share a counter.
        own = not value._layout.ndim and value._counter is counter_of(self)
        return FillWith.inplace(self, value.clone() if own else value)
    if not isinstance(value, NUMBERS):
        raise invalid_combination("fill_", (self, value))
    return Fill.inplace(self, value)


public(fill_)
def zero_(input: Tensor) -> Tensor:
    """Set all elements to zero."""
    return Zero.inplace(input)


public(zero_, method_too=False)


# -- triangles and diagonals --------------------------------------------------------------------------


def _clear(x: Tensor, diagonal: int, lower: bool, op: str) -> None:
    """Set what matrices have above ``diagonal``, or, not ``lower``, below it, to zero.

    Where several elements have one place in memory, one that is to be zero decides: of repeated columns the last above
    the diagonal, of repeated rows the last below it.
    """
    _check_matrices(x._layout, op)
    stored, diagonal = stored_once(x), as_int(diagonal)
    rows, columns = (n - m for n, m in zip(x._layout.shape[-2:], stored._layout.shape[-2:], strict=True))
    diagonal += -columns if lower else rows
    cleared = (Tril if lower else Triu).forward(wrap(stored._data, stored._layout), diagonal)
    copy_into(stored._data, stored._layout, cleared)


def _triangles(x: Layout, diagonal: Any, lower: bool, op: str) -> Launches:
    """The plan of new row-major matrices with zeros above ``diagonal``, or, not ``lower``, below it."""
    _check_matrices(x, op)
    out, shape = intern(x.numpy_dtype, x.shape, None, x.device), (prod(x.shape[:-2]), *x.shape[-2:])
    launch = kernels.triangle, row_major("x", x, shape), Written(0, shape), as_int(diagonal), lower
    return Launches([launch] if x.numel else [], [out])


def _check_matrices(x: Layout, op: str) -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{op}: input tensor must have at least 2 dimensions")


class Triangle(InplaceOp, abstract=True):
    """Base of ops that set the elements on one side of a diagonal to zero."""

    linear = ("x",)
    batch = aligned
    allows_internal_overlap = True


class Tril(Triangle, public=True):
    """The lower triangle of matrices: zero above ``diagonal`` (0: the main one, 1: the next one up)."""

    reference = np.tril
    samples = cases(lambda: (draw(3, 4),), lambda: (draw(2, 4, 3), -1))

    def write(x, diagonal=0):
        _clear(x, diagonal, True, "tril")

    def plan(x_layout, diagonal=0):
        return _triangles(x_layout, diagonal, True, "tril")

    def grad_x(g, diagonal):
        return Tril.apply(g, diagonal)


class Triu(Triangle, public=True):
    """The upper triangle of matrices: zero below ``diagonal`` (0: the main one, 1: the next one up)."""

    reference = np.triu
    samples = cases(lambda: (draw(3, 4),), lambda: (draw(2, 4, 3), 1))

    def write(x, diagonal=0):
        _clear(x, diagonal, False, "triu")

    def plan(x_layout, diagonal=0):
        return _triangles(x_layout, diagonal, False, "triu")

    def grad_x(g, diagonal):
        return Triu.apply(g, diagonal)


def _diag_embed_reference(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    n = x.shape[-1]
    out = np.zeros((*x.shape[:-1], n + abs(offset), n + abs(offset)), x.dtype)
    out[..., np.arange(n) + max(-offset, 0), np.arange(n) + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


class DiagEmbed(Structured, public=True):
    """Matrices, in dims ``dim1`` and ``dim2`` of the result, with the last dim of ``x`` on a diagonal."""

    linear = ("x",)
    batch = over_dims("dim1", "dim2", extra=1)
    reference = _diag_embed_reference
    samples = cases(lambda: (draw(2, 3),), lambda: (draw(3), -1), lambda: (draw(2, 3), 1, 2, 0))

    def plan(x_layout, offset=0, dim1=-2, dim2=-1):
        shape, offset = x_layout.shape, as_int(offset)
        a, b = (normalize_dim(d, len(shape) + 1) for d in (dim1, dim2))
        if a == b:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        rest, n, size = iter(shape[:-1]), shape[-1], shape[-1] + abs(offset)
        full = tuple([size if d in (a, b) else next(rest) for d in range(len(shape) + 1)])
        layout = intern(x_layout.numpy_dtype, full, None, x_layout.device)
        if (a, b) != (len(shape) - 1, len(shape)) or not x_layout.numel:
            return lambda x: Embedded.forward(x, layout, Diagonal, (offset, a, b))
        outer, first = prod(shape[:-1]), offset if offset > 0 else -offset * size
        blocks = row_major("x", x_layout, (outer, n, 1)), Written(0, (outer, size * size))
        return Launches([(indexing.embed, *blocks, first, size + 1, 1)], [layout])

    def grad_x(g, offset, dim1, dim2):
        return Diagonal.apply(g, offset, dim1, dim2)


class DiagonalCopy(Structured):
    """A diagonal of a matrix, copied."""

    linear = ("x",)
    batch = rewritten(lambda call, x, offset: x.diagonal(offset, 1, 2).clone())
    grad_name = "DiagonalBackward0_copy"
    reference = np.diagonal
    samples = cases(lambda: (draw(3, 4), 1))

    def plan(x_layout, offset):
        read = read_diagonal(x_layout, as_int(offset), 0)
        if read is None:
            return lambda x: Contiguous.forward(Diagonal.forward(x, offset, 0, 1))
        return Launches([read], [intern(x_layout.numpy_dtype, read[2].view)])

    def grad_x(g, x_layout, offset):
        return Embedded.apply(g, x_layout, Diagonal, (offset, 0, 1))


def read_diagonal(x: Layout, offset: int, number: int) -> Any:
    """The launch that reads a diagonal of row-major matrices ``x`` into new array ``number``; None where it can't."""
    rows, columns = x.shape
    down, along = max(-offset, 0), max(offset, 0)
    n = min(rows - down, columns - along)
    if n < 1 or not x.contiguous or x.device != "cpu":
        return None
    steps = np.array([n], np.int64), np.array([columns + 1], np.int64), down * columns + along
    return indexing.read_strided, Read("x", (x.numel,)), Written(number, (n,)), *steps


@public
@takes_out
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal."""
    if input._layout.ndim == 1:
        return DiagEmbed.apply(input, diagonal)
    if input._layout.ndim == 2:
        return DiagonalCopy.apply(input, diagonal)
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input._layout.ndim}D")


@public
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of ``input`` on a diagonal."""
    return DiagEmbed.apply(input.reshape(-1), offset)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Set the main diagonal of a matrix (``wrap``: of every square block of a tall one) to a number."""
    if self._layout.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    rows, columns = self._layout.shape[0], self._layout.shape[-1]
    if self._layout.ndim > 2 and len(set(self._layout.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    # The elements of equal indices, two dims at a time.
    part = self
    while part._layout.ndim > 1:
        part = part.diagonal()
    part.fill_(fill_value)
    if wrap and self._layout.ndim == 2:
        for top in range(columns + 1, rows, columns + 1):  # NumPy's wrap: one row is left out between the blocks
            self[top:].diagonal().fill_(fill_value)
    return self


method(fill_diagonal_)
