"""vmap's rules for products: the samples' dims are checked, since a product of batches would broadcast."""

from __future__ import annotations

from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import BatchedCall, align

__all__ = ["over_added_product", "over_dot", "over_product"]


def over_product(call: BatchedCall) -> Tensor:
    """The rule of a MatrixProduct."""
    first, second = call.args
    return _product(call, call.op, first, second)


def over_added_product(call: BatchedCall) -> Tensor:
    """The rule of an AddedProduct: the product, batched if a factor is, scaled, plus what is added."""
    x, left, right, beta, alpha = call.args.values()
    _, first, second, *_ = call.args
    product = call.op.product
    if stacked := first in call.batched or second in call.batched:
        found = _product(call, product, first, second)
    else:
        found = product.apply(left, right)
    added, found = align([(x, "x" in call.batched), (found, stacked)])
    found = found if alpha == 1 else found * alpha
    if beta == 0 and stacked:
        return found
    return (added if beta == 1 else added * beta) + found


def over_dot(call: BatchedCall) -> Tensor:
    """Vectors of samples are multiplied element by element and summed."""
    x, y = call["x"], call["tensor"]
    if (call.ndim("x"), call.ndim("tensor")) != call.op.ndims:
        raise RuntimeError("Got wrong shapes for dot")
    _check_sizes(call, "x", "tensor")
    if x.dtype is not y.dtype:
        found = " and ".join(scalar_type(t.dtype) for t in (x, y))
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {found}")
    return (x * y).sum(-1, dtype=x.dtype)  # bytes stay bytes, as in products


def _product(call: BatchedCall, op: Any, first: str, second: str) -> Tensor:
    """The arguments ``first`` and ``second`` of a call multiplied as ``op`` does; one of them is batched."""
    _check_dims(op, (call.ndim(first), call.ndim(second)))
    x, y = call[first], call[second]
    if op.ndims != (2, 1) or second not in call.batched:
        return x.matmul(y)
    if first not in call.batched:
        _check_sizes(call, first, second)
        return y.matmul(x.t())
    return x.matmul(y.unsqueeze(-1)).squeeze(-1)


def _check_dims(op: Any, found: tuple[int, int]) -> None:
    wanted = op.ndims
    if found != wanted:
        raise RuntimeError(
            f"Shape mismatch: Got incorrect dims for {op.name}(a, b). a has dim {found[0]}and b has dim {found[1]}but "
            f"expected them to have dim {wanted[0]} and dim {wanted[1]}"
        )


def _check_sizes(call: BatchedCall, first: str, second: str) -> None:
    """Vectors against vectors, or against the rows of a matrix."""
    *rows, k = call.shape(first)
    (m,) = call.shape(second)
    if k == m:
        return
    if first not in call.batched:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({(*rows, 1)[0]}x{k} and {m}x{call.size})")
    if second not in call.batched:
        raise RuntimeError(f"size mismatch, got input ({call.size}), mat ({call.size}x{k}), vec ({m})")
    raise RuntimeError(
        f"Expected size for first two dimensions of batch2 tensor to be: [{call.size}, {k}] "
        f"but got: [{call.size}, {m}]."
    )
