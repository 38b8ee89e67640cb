"""Products of several matrices, in the order of least work, and powers of one."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial

from jitgrad.core.errors import cpp_type
from jitgrad.core.layout import CAPACITY, Layout
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import warn_once
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public, published
from jitgrad.dispatch.sizes import int_argument
from jitgrad.ops.creation.ranges import eye
from jitgrad.ops.linalg.batched_matrices import check_square
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.matrix_products import Mm
from jitgrad.ops.shape.view import Reshaped

__all__: list[str] = []


@functools.lru_cache(CAPACITY)
def _splits(*sizes: int) -> dict[tuple[int, int], int]:
    """Where to split each run of factors (first, last) for least work; factor k is sizes[k] by sizes[k + 1]."""
    n = len(sizes) - 1
    cost, split = dict.fromkeys([(i, i) for i in range(n)], 0), {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            work = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(work, key=work.__getitem__)
            cost[i, j] = work[split[i, j]]
    return split


def _product(factors: Sequence[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    """The product of the factors from ``i`` to ``j``."""
    if i == j:
        return factors[i]
    k = split[i, j]
    return Mm.apply(_product(factors, split, i, k), _product(factors, split, k + 1, j))


@partial(public, module="linalg")
@takes_out
def linalg_multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices, multiplied in the order of least work.

    The first may be a vector, for a row, the last one for a column. RuntimeError where sizes or dtypes differ.
    """
    factors = list(tensors)
    split, shape = _order(*[x._layout for x in factors])
    factors[0] = factors[0].unsqueeze(0) if factors[0]._layout.ndim == 1 else factors[0]
    factors[-1] = factors[-1].unsqueeze(-1) if factors[-1]._layout.ndim == 1 else factors[-1]
    found = _product(factors, split, 0, len(factors) - 1)
    return Reshaped.apply(found, shape)


@functools.lru_cache(CAPACITY)
def _order(*factors: Layout) -> tuple[dict[tuple[int, int], int], tuple[int, ...]]:
    """Where to split the product of such factors, and its shape; RuntimeError where they are none."""
    if len(factors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(factors)}")
    for name, x in (("first", factors[0]), ("last", factors[-1])):
        if x.ndim not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {name} tensor must be 1D or 2D but got {x.ndim}D")
    for k, x in enumerate(factors[1:-1], 1):
        if x.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {k} must be 2D but got {x.ndim}D")
    _check_pairs(factors)
    first, last = factors[0].shape, factors[-1].shape
    sizes = [1, *first] if len(first) == 1 else first
    sizes = (*sizes, *[x.shape[1] for x in factors[1:-1]], last[1] if len(last) == 2 else 1)
    return _splits(*sizes), (*first[:-1], *last[1:])


def _check_pairs(factors: Sequence[Layout]) -> None:
    for k, (x, y) in enumerate(zip(factors, factors[1:], strict=False)):
        if x.dtype is not y.dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {cpp_type(x.dtype)} and tensor "
                f"{k + 1} {cpp_type(y.dtype)}"
            )
        if x.shape[-1] != y.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(x.shape)} and {list(y.shape)} cannot be "
                "multiplied"
            )


@partial(public, method_too=False)
@takes_out
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, multiplied in the order of least work; ``linalg.multi_dot`` takes its place."""
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    for x in matrices:
        if x._layout.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {x._layout.ndim}, expected 2 instead.")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return matrices[0] if len(matrices) == 1 else linalg_multi_dot(matrices)


# -- powers ----------------------------------------------------------------------------------------------


def _inverse(x: Tensor) -> Tensor:
    function = published("linalg.inv")
    assert function is not None
    result: Tensor = function(x)
    return result


@partial(public, module="linalg")
@takes_out
def linalg_matrix_power(A: Tensor, n: int) -> Tensor:
    """A multiplied with itself ``n`` times; of its inverse -n times if ``n`` is negative; 0 gives the identity.

    RuntimeError for what is not square, LinAlgError where an inverse is wanted and there is none.
    """
    check_square("linalg.matrix_power", A._layout)
    n = int_argument("linalg_matrix_power", "n", 2, n)
    if n == 0:
        return A.new_empty(A._layout.shape).copy_(A).copy_(eye(A.shape[-1], dtype=A.dtype, device=A.device))
    square = A if n > 0 else _inverse(A)
    n = abs(n)
    if n == 1:
        return square.clone() if square is A else square
    if n == 3:
        return matmul(matmul(square, square), square)
    result = None
    while n:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        square = matmul(square, square) if n else square
    assert result is not None
    return result


@public
@takes_out
def matrix_power(input: Tensor, n: int) -> Tensor:
    """``linalg.matrix_power`` by its elder name."""
    return linalg_matrix_power(input, n)
