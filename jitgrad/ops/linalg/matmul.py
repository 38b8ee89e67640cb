"""Products of tensors of any rank, composed as PyTorch composes them: matmul, linear, outer, inner."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from jitgrad.core.errors import must_be, must_be_tensor, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import CAPACITY, Layout, as_int, broadcast_shapes, intern, normalize_dim
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_rules import rewritten
from jitgrad.dispatch.op_calls import observed
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import into_out, takes_out
from jitgrad.dispatch.overriding import is_overriding
from jitgrad.dispatch.registry import fast_method, public, set_method
from jitgrad.dispatch.sizes import as_ints, is_int
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.linalg.added_products import Addmm
from jitgrad.ops.linalg.matrix_products import Bmm, Dot, Mm, Mv, stacked_product
from jitgrad.ops.shape.expand import Expand
from jitgrad.ops.shape.permute import Permute
from jitgrad.ops.shape.view import Reshaped, UnsafeView, reshaped

__all__ = ["linear", "matmul"]


@fast_method
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product of tensors of any rank.

    (k) with (k): a number. (n, k) with (k): a vector. Otherwise the last two dims are multiplied,
    a vector standing for a row on the left or a column on the right, and the dims before them
    broadcast. RuntimeError where sizes or dtypes do not fit.
    """
    if out is not None:
        return into_out("matmul", matmul(input, other), out)
    for position, tensor in enumerate((input, other), 1):
        if not isinstance(tensor, Tensor):
            raise must_be_tensor("matmul", ("input", "other")[position - 1], position, tensor)
    a, b = input._layout.ndim, other._layout.ndim
    if a == 2 and b == 2:
        return Mm.apply(input, other)
    if a == 1 and b == 1:
        return Dot.apply(input, other)
    if a == 2 and b == 1:
        return Mv.apply(input, other)
    if a == 0 or b == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    recorded = grad_state.enabled and (input._requires_grad or other._requires_grad)
    if not (recorded or grad_state.levels or observed()):
        found = stacked_product(input, other)
        if found is not None:
            return found
    # A row is multiplied as a matrix of one row: the gradient of the matrix is then a product, as PyTorch records it.
    if a == 1 and b == 2:
        return Row.apply(Mm.apply(input.unsqueeze(0), other))
    if a == b == 3 and input.shape[0] != other.shape[0]:
        input, other = _without_batch_of_one(input), _without_batch_of_one(other)
    return _as_one_product(input, other) if _is_one_product(input, other) else _stacked_product(input, other)


class Row(Structured):
    """The vector in a matrix of one row that nobody else holds: no view in the recorder's sense."""

    linear = ("x",)
    batch = rewritten(lambda call, x: x.select(1, 0))
    grad_name, owned, owned_if_taken = "SqueezeBackward4", False, True
    samples = cases(lambda: (draw(1, 3),), lambda: (draw(3, 1).t(),))

    def forward(x):
        return wrap(x._data[0], intern(x._layout.numpy_dtype, x._layout.shape[1:], None, x._layout.device))

    def grad_x(g):
        return g.unsqueeze(0)


def _without_batch_of_one(x: Tensor) -> Tensor:
    """As a matrix it takes part in one large product, and its gradient comes out of one."""
    return x.squeeze(0) if x._layout.shape[0] == 1 and x._requires_grad else x


def _is_one_product(x: Tensor, y: Tensor) -> bool:
    """Whether a stack (*, n, k) times a matrix is to be multiplied as one matrix (* n, k), as PyTorch decides it.

    BLAS is faster at one large product than at many. That the dims before the rows join them may cost a copy, which is
    worth it where the matrix requires grad: its gradient would otherwise be computed for each of the stack, and summed.
    """
    left = x._layout.ndim >= y._layout.ndim
    large, small = (x, y) if left else (y, x)
    if small._layout.ndim > 2:
        return False
    if small._requires_grad:
        return True
    if x._layout.ndim == 2:
        return False
    return large._layout.numel == 0 or _rows_join(large._layout, left)


def _rows_join(layout: Layout, left: bool) -> bool:
    """Whether the dims but the last (the last but one, when read transposed) can be viewed as one."""
    shape, strides = list(layout.shape), list(layout.strides)
    if not left:
        shape[-2:], strides[-2:] = shape[:-3:-1], strides[:-3:-1]
    return all(strides[d] == strides[d + 1] * shape[d + 1] for d in range(len(shape) - 2))


def _as_one_product(x: Tensor, y: Tensor) -> Tensor:
    """The product of a stack and a matrix or vector, the stack's dims joined to its rows."""
    left = x._layout.ndim >= y._layout.ndim
    # X Y is the transpose of (Y transposed)(X transposed): so the stack can always stand on the left.
    large = x if left else y.transpose(-2, -1)
    small = y if left else (x.t() if x._layout.ndim == 2 else x)
    lead, k = tuple(large._layout.shape[:-1]), large._layout.shape[-1]
    rows = reshaped(large, (math.prod(lead), k))
    if small._layout.ndim == 1:
        # The product is a new tensor that nobody else holds: no view of it needs to be tracked.
        return UnsafeView.apply(Mv.apply(rows, small), lead)
    out = UnsafeView.apply(Mm.apply(rows, small), (*lead, small.shape[1]))
    return out if left else out.transpose(-2, -1).contiguous()


@functools.lru_cache(CAPACITY)
def _stack_shapes(x: Layout, y: Layout) -> tuple[tuple[int, ...], ...]:
    """The shapes to which two factors are expanded, the same as one stack each, and the shape of the result."""
    row, column = x.ndim == 1, y.ndim == 1
    lead = tuple(broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    stack = math.prod(lead)
    left, right = (1, x.shape[0]) if row else x.shape[-2:], (y.shape[0], 1) if column else y.shape[-2:]
    result = (*lead, *([] if row else left[:1]), *([] if column else right[1:]))
    return (*lead, *left), (stack, *left), (*lead, *right), (stack, *right), result


def _stacked_product(x: Tensor, y: Tensor) -> Tensor:
    """The product of two stacks whose leading dims broadcast: all of them become one dim, for one bmm."""
    each_left, left, each_right, right, shape = _stack_shapes(x._layout, y._layout)
    x, y = x.unsqueeze(0) if x._layout.ndim == 1 else x, y.unsqueeze(1) if y._layout.ndim == 1 else y
    x, y = reshaped(Expand.apply(x, each_left), left), reshaped(Expand.apply(y, each_right), right)
    return UnsafeView.apply(Bmm.apply(x, y), shape)


def _operator(self: Tensor, other: Any) -> Any:
    # NotImplemented lets Python ask the other operand's __rmatmul__, and else raise its own TypeError.
    return matmul(self, other) if isinstance(other, Tensor) or is_overriding(other) else NotImplemented


set_method("__matmul__", _operator)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias, over the last dim: (*, k), (m, k) and (m) to (*, m).

    RuntimeError where sizes or dtypes do not fit.
    """
    if out is not None:  # not by ``takes_out``, whose layer would cost each call
        return into_out("linear", linear(input, weight, bias), out)
    if weight._layout.ndim != 2 or not input._layout.ndim:
        return _vector_linear(input, weight, bias)
    if bias is not None and input._layout.dtype is not weight._layout.dtype is bias._layout.dtype:
        names = (scalar_type(input._layout.dtype), scalar_type(weight._layout.dtype))
        raise RuntimeError("mat1 and mat2 must have the same dtype, but got {} and {}".format(*names))
    if input._layout.ndim == 2:
        return Mm.apply(input, weight.t()) if bias is None else Addmm.apply(bias, input, weight.t())
    if bias is None:
        return matmul(input, weight.t())
    if not (input._layout.contiguous and bias._layout.contiguous):
        # The same value; a node of its own for the sum, as in PyTorch.
        return matmul(input, weight.t()) + bias
    lead, k = tuple(input._layout.shape[:-1]), input._layout.shape[-1]
    rows = reshaped(input, (math.prod(lead), k))
    return Reshaped.apply(Addmm.apply(bias, rows, weight.t()), (*lead, weight._layout.shape[0]))


def _vector_linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if not input._layout.ndim or not weight._layout.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {input._layout.ndim}D and "
            f"{weight._layout.ndim}D"
        )
    if weight._layout.ndim != 1:
        raise RuntimeError(f"linear(): weight must have 1 or 2 dimensions, but has {weight._layout.ndim}")
    if bias is not None:
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    return matmul(input, weight.t())


public(linear, method_too=False)


@public
@partial(takes_out, iterated=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors' elements, (n) and (m) to (n, m)."""
    for name, x in (("self", input), ("vec2", vec2)):
        if x._layout.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {x._layout.ndim}-D")
    return input.view(-1, 1) * vec2


public(outer, "ger")


@public
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dims, (*, k) and (+, k) to (*, +); a number multiplies."""
    if other._layout.ndim == 0 or input._layout.ndim == 0:
        return table.mul(input, other, out=out)
    if input._layout.shape[-1] != other._layout.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    result = _contracted(input, other, (-1,), (-1,))
    return result if out is None else into_out("tensordot", result, out)


@public
@takes_out
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Dot product with the first vector conjugated."""
    return Dot.apply(input.conj(), other)


@functools.lru_cache(CAPACITY)
def _neighbours(a: Layout, b: Layout, n: int) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of two matrices whose product sums over the last ``n`` dims of ``a`` and the first of ``b``.

    And that of the result; None where sizes differ or there are no elements.
    """
    left, first, second, right = a.shape[:-n], a.shape[-n:], b.shape[:n], b.shape[n:]
    if n > min(a.ndim, b.ndim) or first != second or not a.numel or not b.numel:
        return None
    size = math.prod(first)
    return (a.numel // size, size), (size, b.numel // size), left + right


@takes_out
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Any] = 2) -> Tensor:
    """Sum of products over pairs of dims: the last ``dims`` of ``a`` with the first of ``b``, or two lists.

    A dim of size 1 goes with one of any size, over which is summed. RuntimeError where other paired sizes differ.
    """
    if isinstance(dims, (tuple, list)) and len(dims) == 2:
        first, second = ([d] if is_int(d) else d for d in dims)
        for name, position, each in (("dims_self", 3, first), ("dims_other", 4, second)):
            if not isinstance(each, (tuple, list)):
                raise must_be("tensordot", name, position, "tuple of ints", each)
        first, second = as_ints("tensordot", first, "dims_self", 3), as_ints("tensordot", second, "dims_other", 4)
    elif is_int(dims):
        n = as_int(dims)
        if n > 0 and (shapes := _neighbours(a._layout, b._layout, n)) is not None:
            return Mm.apply(reshaped(a, shapes[0]), reshaped(b, shapes[1])).view(shapes[2])
        if n < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={n}")
        if n > min(a._layout.ndim, b._layout.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={n}")
        first, second = list(range(-n, 0)), list(range(n))
    else:
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    return _contracted(a, b, tuple(first), tuple(second))


def _contracted(a: Tensor, b: Tensor, first: tuple[int, ...], second: tuple[int, ...]) -> Tensor:
    """``tensordot`` over pairs of dims."""
    how = _contraction(a._layout.shape, b._layout.shape, first, second)
    for dim in how.summed_first:
        a = a.sum(dim, True, dtype=a.dtype)
    for dim in how.summed_second:
        b = b.sum(dim, True, dtype=b.dtype)
    left, right = Permute.apply(a, how.first), Permute.apply(b, how.second)
    return Reshaped.apply(Mm.apply(reshaped(left, how.left), reshaped(right, how.right)), how.shape)


class _Contraction(NamedTuple):
    """How two tensors become the matrices ``left`` and ``right`` (their shapes), whose product is the result.

    summed_first, summed_second: dims that are summed over first, as the other tensor has a size of 1 there. first,
    second: the order of the dims as which each is read. shape: the result's.
    """

    summed_first: tuple[int, ...]
    summed_second: tuple[int, ...]
    first: tuple[int, ...]
    left: tuple[int, ...]
    second: tuple[int, ...]
    right: tuple[int, ...]
    shape: tuple[int, ...]


@functools.lru_cache(CAPACITY)
def _contraction(
    a: tuple[int, ...], b: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]
) -> _Contraction:  # fmt: skip
    """For tensors of these shapes and pairs of dims. RuntimeError where paired sizes differ and neither is 1."""
    paired = [normalize_dim(d, len(a)) for d in first], [normalize_dim(d, len(b)) for d in second]
    summed: tuple[list[int], list[int]] = [], []
    for i, j, given, other in zip(*paired, first, second, strict=True):
        if b[j] == 1:
            summed[0].append(i)
        elif a[i] == 1:
            summed[1].append(j)
        elif a[i] != b[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a[i]} in dim {given} and second has "
                f"size {b[j]} in dim {other}"
            )
    left = [d for d in range(len(a)) if d not in paired[0]]
    right = [d for d in range(len(b)) if d not in paired[1]]
    rows, columns = [a[d] for d in left], [b[d] for d in right]
    size = math.prod([1 if d in summed[0] else a[d] for d in paired[0]])
    return _Contraction(
        tuple(summed[0]), tuple(summed[1]), (*left, *paired[0]), (math.prod(rows), size),
        (*paired[1], *right), (size, math.prod(columns)), (*rows, *columns),
    )  # fmt: skip


public(tensordot, method_too=False)
