"""gradcheck of functions of sparse tensors, as functions of dense ones.

With masked semantics the values that are stored are the inputs. Otherwise all elements are: a dense tensor takes the
place of a sparse one, whose function gets a sparse tensor of the same places, and of any other that is not zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.sparse import Pattern, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.structured import Structured
from jitgrad.ops.sparse.convert import dense, to_compressed, to_coo, to_dense
from jitgrad.ops.sparse.parts import coalesced, with_values
from jitgrad.ops.sparse.places import as_coo

__all__ = ["on_dense"]


class SparseOf(Structured, listed=False):
    """A dense tensor as a sparse one with the places of a pattern, and of what else is not zero."""

    name, linear, half, sparse = "_sparse_of", ("x",), True, True

    def forward(x, pattern):
        places = with_values(x.new_ones((pattern.nnz, *pattern.shape[pattern.sparse_dim :])), as_coo(pattern))
        more = to_coo((x.detach() != 0).to(x.dtype), pattern.sparse_dim)
        made = x.detach().sparse_mask(coalesced(places + more))
        return made if pattern.kind == "sparse_coo" else to_compressed(made, pattern.kind)

    def grad_x(g):
        return dense(g)


def _dense_output(x: Any, masked: bool) -> Any:
    return to_dense(x, masked_grad=masked)


def on_dense(func: Callable[..., Any], inputs: tuple[Any, ...], masked: bool) -> tuple[Callable[..., Any], Any]:
    """(``func`` of dense tensors in the place of sparse ones that require grad, with dense outputs; these tensors)."""
    patterns: dict[int, Pattern] = {}
    given = list(inputs)
    for k, x in enumerate(inputs):
        if isinstance(x, SparseTensor) and x._requires_grad:
            patterns[k] = x._pattern
            by_values = masked or x._pattern.block or x._pattern.indices[0].ndim > 2
            given[k] = (x._stored.detach().clone() if by_values else dense(x.detach())).requires_grad_()

    def restored(k: int, x: Any) -> Any:
        if k not in patterns or not isinstance(x, Tensor):
            return x
        pattern = patterns[k]
        if masked or pattern.block or pattern.indices[0].ndim > 2:
            return with_values(x, pattern)
        return SparseOf.apply(x, pattern)

    def function(*args: Any) -> Any:
        outputs = func(*[restored(k, x) for k, x in enumerate(args)])
        if isinstance(outputs, (tuple, list)):
            return tuple([_dense_output(o, masked) for o in outputs])
        return _dense_output(outputs, masked)

    return function, tuple(given)
