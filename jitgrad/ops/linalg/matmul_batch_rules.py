"""vmap's rules for products: the samples' dims are checked, since a product of batches would broadcast."""

from __future__ import annotations

from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_rules import BatchedCall, Rule, align

__all__ = ["over_added_product", "over_product"]

_NDIMS = {"mm": (2, 2), "mv": (2, 1), "bmm": (3, 3), "dot": (1, 1)}


def over_product(op: str) -> Rule:
    """The rule of a product of two tensors, named as PyTorch's errors name it."""

    def rule(call: BatchedCall) -> Any:
        first, second = call.args
        return _product(call, op, first, second)

    return rule


def _product(call: BatchedCall, op: str, first: str, second: str) -> Tensor:
    _check_dims(op, (call.ndim(first), call.ndim(second)))
    x, y = call[first], call[second]
    if op == "dot":
        _check_sizes(call, first, second)
        if x.dtype is not y.dtype:
            found = " and ".join(scalar_type(t.dtype) for t in (x, y))
            raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {found}")
        return (x * y).sum(-1)
    if op != "mv":
        return x.matmul(y)
    if second not in call.batched:
        return x.matmul(y)
    if first not in call.batched:
        _check_sizes(call, first, second)
        return y.matmul(x.t())
    return x.matmul(y.unsqueeze(-1)).squeeze(-1)


def _check_dims(op: str, found: tuple[int, int]) -> None:
    wanted = _NDIMS[op]
    if found == wanted:
        return
    if op == "dot":
        raise RuntimeError("Got wrong shapes for dot")
    raise RuntimeError(
        f"Shape mismatch: Got incorrect dims for {op}(a, b). a has dim {found[0]}and b has dim {found[1]}but expected "
        f"them to have dim {wanted[0]} and dim {wanted[1]}"
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


def over_added_product(op: str) -> Rule:
    """The rule of beta * x + alpha * product, the product batched or not."""

    def rule(call: BatchedCall) -> Tensor:
        x, left, right, beta, alpha = call.args.values()
        _, first, second = list(call.args)[:3]
        if stacked := first in call.batched or second in call.batched:
            found = _product(call, op, first, second)
        else:
            found = getattr(left, op)(right)
        added, found = align([(x, "x" in call.batched), (found, stacked)])
        found = found if alpha == 1 else found * alpha
        if beta == 0 and stacked:
            return found
        return (added if beta == 1 else added * beta) + found

    return rule
