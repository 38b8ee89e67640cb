"""Distances and angles between vectors, and the losses that compare them: composed of norms and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import broadcast_shapes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.out_argument import into_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument, int_argument
from jitgrad.ops.creation.type_info import result_type
from jitgrad.ops.nn.loss import reduced, reduction_name
from jitgrad.ops.nn.margin_losses import REDUCTIONS, at_top, functional, named
from jitgrad.ops.reduction.vector_norm import VectorNorm, norm
from jitgrad.ops.shape.copy import cast

__all__ = ["cosine_similarity", "pairwise_distance"]


def normalize(input: Tensor, p: Any = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """input / max(norm, eps), with the norms of order ``p`` along ``dim``."""
    divisor = norm(input, p, dim, keepdim=True)
    result = input / divisor.clamp_min(eps)
    return result if out is None else into_out("div", result, out)


functional(normalize)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along ``dim`` of two tensors that broadcast; norms are at least ``eps``.

    RuntimeError where the common dtype is not floating.
    """
    dim = int_argument("cosine_similarity", "dim", 3, dim)
    eps = float_argument("cosine_similarity", "eps", 4, eps)
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps:g}")
    common = result_type(x1, x2)
    if not common.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {scalar_type(common)}")
    # Whole numbers become floating ones; of two floating dtypes each tensor keeps its own, as in PyTorch.
    x, y = (cast(t, common) if t._layout.dtype.category < 2 else t for t in (x1, x2))
    if x._layout.shape != y._layout.shape:
        x, y = x.expand(shape := broadcast_shapes(x._layout.shape, y._layout.shape)), y.expand(shape)
    # Each vector is divided by its norm before the product, which keeps the result between -1 and 1.
    return (_unit(x, dim, eps) * _unit(y, dim, eps)).sum(dim)


def _unit(x: Tensor, dim: int, eps: float) -> Tensor:
    """Vectors along ``dim`` over their norms, through which gradients flow also where ``eps`` takes their place."""
    size = VectorNorm.apply(x, 2, dim, True)
    if not (grad_state.levels or size._requires_grad):  # then nobody else has it
        return x / table.clamp_low_number(size, eps)
    size = size.clone()
    with no_grad():
        size.clamp_min_(eps)
    return x / size


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:  # fmt: skip
    """The norm of order ``p`` of x1 - x2 + eps along the last dim."""
    p, eps = float_argument("pairwise_distance", "p", 3, p), float_argument("pairwise_distance", "eps", 4, eps)
    return norm(x1 - x2 + eps, p, max(x1._layout.ndim, x2._layout.ndim) - 1, as_flag(keepdim))


for _function in (cosine_similarity, pairwise_distance):
    functional(at_top(_function))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cos(input1, input2) for target 1, max(0, cos - margin) for -1, of vectors or of the rows of matrices.

    RuntimeError for other numbers of dims.
    """
    return _cosine_embedding(input1, input2, target, margin, reduction_name(reduction, size_average, reduce))


_EPSILON = 9.999999960041972e-13  # PyTorch's: 1e-12 rounded to float32


def _cosine_embedding(x: Tensor, y: Tensor, target: Tensor, margin: float, reduction: str) -> Tensor:
    margin, dim = float_argument("cosine_embedding_loss", "margin", 4, margin), target._layout.ndim
    if dim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if x._layout.ndim != dim + 1 or y._layout.ndim != dim + 1:
        raise RuntimeError(
            f"{dim}D target tensor expects {dim + 1}D input tensors, but found inputs with sizes {list(x.shape)} and "
            f"{list(y.shape)}."
        )
    sizes = ((x * x).sum(dim) + _EPSILON) * ((y * y).sum(dim) + _EPSILON)
    cos = (x * y).sum(dim) / sizes.sqrt()
    far = (cos - margin).clamp_min(0)
    loss = table.where(target == 1, 1 - cos, 0) + table.where(target == -1, far, 0)
    return reduced(loss, reduction)


def _no_positive(margin: float) -> ValueError:
    return ValueError(f"margin must be greater than 0, got {margin}")


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), with d the norm of order ``p`` along the last dim.

    ``swap`` takes d(positive, negative) in the place of d(anchor, negative) where it is smaller. ValueError unless
    the margin is positive.
    """
    reduction = reduction_name(reduction, size_average, reduce)
    if margin <= 0:
        raise _no_positive(margin)
    return _triplet(anchor, positive, negative, margin, p, eps, swap, reduction)


def _triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float, p: float, eps: float, swap: bool, reduction: str
) -> Tensor:  # fmt: skip
    _check_dims(anchor, positive, negative)
    margin = float_argument("triplet_margin_loss", "margin", 4, margin)
    return reduced(_hinge(lambda x, y: pairwise_distance(x, y, p, eps), anchor, positive, negative, margin,
                          as_flag(swap)), reduction)  # fmt: skip


def _check_dims(anchor: Tensor, positive: Tensor, negative: Tensor) -> None:
    a, p, n = anchor.ndim, positive.ndim, negative.ndim
    if not a == p == n:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {a}D, positive {p}D, and negative {n}D inputs"
        )


def _hinge(
    distance: Callable[[Tensor, Tensor], Tensor], anchor: Tensor, positive: Tensor, negative: Tensor, margin: float,
    swap: bool,
) -> Tensor:  # fmt: skip
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = table.minimum(far, distance(positive, negative))
    return (margin + near - far).clamp_min(0)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``triplet_margin_loss`` with any distance, by default ``pairwise_distance``."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise _no_positive(margin)
    _check_dims(anchor, positive, negative)
    return reduced(_hinge(distance_function or pairwise_distance, anchor, positive, negative, margin, swap), reduction)


for _loss in (cosine_embedding_loss, triplet_margin_loss, triplet_margin_with_distance_loss):
    functional(_loss)


# -- the same at the top level -------------------------------------------------------------------------


def _top_cosine(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:  # fmt: skip
    """``nn.functional.cosine_embedding_loss``, with the reduction as a number."""
    return _cosine_embedding(input1, input2, target, margin, named(reduction))


def _top_triplet(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    """``nn.functional.triplet_margin_loss``, with the reduction as a number."""
    return _triplet(anchor, positive, negative, margin, p, eps, swap, named(reduction))


public(_top_cosine, "cosine_embedding_loss", method_too=False)
public(_top_triplet, "triplet_margin_loss", method_too=False)
