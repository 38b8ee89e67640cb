"""Reductions and normalisations of the elements that a mask names: ``jitgrad.masked``.

Each is the function without a mask, of a tensor that has, where the mask is False, what leaves the result as it is: 0
for sums, -inf for a maximum. Masks are dense and broadcast to the input; without one all elements count. PyTorch's
``masked_tensor`` is not here: a tensor that carries a mask would be another kind of tensor for every op.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import as_int
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.registry import public
from jitgrad.ops.creation.constants import as_dtype
from jitgrad.ops.reduction.vector_norm import VectorNorm
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.expand import broadcast_to

__all__: list[str] = []


# -- what masks do ----------------------------------------------------------------------------------------


def _identity(op: str, dtype: dtypes.dtype, order: float = 2) -> Any:
    """What changes no result of ``op``, as a number of the category of ``dtype``."""
    if op in ("sum", "prod"):
        return (False, 0, 0.0, 0j)[dtype.category] if op == "sum" else (True, 1, 1.0, 1 + 0j)[dtype.category]
    if op == "norm":
        return float("inf") if order == float("-inf") else (False, 0, 0.0, 0j)[dtype.category]
    sign = 1 if op == "amin" else -1
    if dtype.category == 2:
        return float("nan") if op == "median" else sign * float("inf")
    if dtype.category == 1:
        limits = np.iinfo(dtype.numpy)
        return int(limits.max if op == "amin" else limits.min)
    if dtype.category == 3 and op == "logsumexp":
        return complex(float("-inf"), 0)
    raise NotImplementedError(f"identity of {op} on {dtype} input")


def _mask_for(input: Tensor, mask: Tensor) -> Tensor:
    """The mask, bools, in the shape of ``input``."""
    if mask._layout.shape != input._layout.shape:
        if mask._layout.ndim > input._layout.ndim:
            raise IndexError(
                "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
            )
        mask = broadcast_to(mask, input._layout.shape)
    return cast(mask, dtypes.by_name("bool"))


def _filled(op: str, input: Tensor, mask: Tensor | None, order: float = 2) -> Tensor:
    """``input`` with the identity of ``op`` where ``mask`` is False."""
    if mask is None:
        return input
    return table.where(_mask_for(input, mask), input, _identity(op, input._layout.dtype, order))


def _dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """The dims counted from the front, in order; None and () are all of them."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    ndim, found = max(ndim, 1), []
    for d in map(as_int, dim if isinstance(dim, (tuple, list)) else (dim,)):
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -ndim <= d < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})"
            )
        found.append(d)
    return tuple(sorted(d % ndim for d in found))


def _dtype(op: str, dtype: Any, input: Tensor, counting: bool = False) -> dtypes.dtype:
    """The dtype of the result: that of the input, of sums of small integers int64."""
    given = input._layout.dtype
    small = counting and given.category < 2
    return as_dtype(f"masked_{op}", dtype) or (dtypes.by_name("int64") if small else given)


# -- reductions -------------------------------------------------------------------------------------------


def _publish(function: Callable[..., Tensor], name: str, doc: str) -> None:
    function.__name__ = function.__qualname__ = f"masked_{name}"
    function.__doc__ = doc
    public(function, module="masked")


def _reduction(name: str, identity: str, reduce: Callable[..., Tensor], doc: str) -> Callable[..., Tensor]:
    """Publish the reduction ``reduce(x, dims, keepdim, dtype)`` of dims."""

    def masked(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
               mask: Tensor | None = None) -> Tensor:  # fmt: skip
        wanted = _dtype(name, dtype, input, name in ("sum", "prod"))
        return reduce(_filled(identity, input, mask), _dims(dim, input._layout.ndim), bool(keepdim), wanted)

    _publish(masked, name, f"{doc} over ``dim``, one or several, by default all, of the elements that ``mask`` names.")
    return masked


def _product(x: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: dtypes.dtype) -> Tensor:
    x = cast(x, dtype)
    for d in reversed(dims):
        x = x.prod(d, keepdim)
    return x


masked_sum = _reduction("sum", "sum", lambda x, dims, keep, dtype: x.sum(dims, keep, dtype=dtype), "Sum")
_reduction("prod", "prod", _product, "Product")
_reduction("amax", "amax", lambda x, dims, keep, dtype: cast(x.amax(dims, keep), dtype), "Maximum")
_reduction("amin", "amin", lambda x, dims, keep, dtype: cast(x.amin(dims, keep), dtype), "Minimum")
_reduction(
    "logsumexp", "logsumexp", lambda x, dims, keep, dtype: cast(x.logsumexp(dims, keep), dtype),
    "Logarithm of the sum of exponentials",
)  # fmt: skip


def _place(name: str, identity: str) -> None:
    """Publish the index of an extreme element."""

    def masked(input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None,
               mask: Tensor | None = None) -> Tensor:  # fmt: skip
        filled = _filled(identity, input, mask)
        # In the dtype of the input, as PyTorch has it.
        return cast(getattr(filled, name)(dim, bool(keepdim)), _dtype(name, dtype, input))

    what = "largest" if name == "argmax" else "smallest"
    _publish(masked, name, f"Index along ``dim``, by default in all, of the {what} element that ``mask`` names.")


_place("argmax", "amax")
_place("argmin", "amin")


def _along_dim(name: str, identity: str, run: Callable[..., Tensor], doc: str) -> None:
    """Publish ``run(x, dim, dtype)``, whose result has the shape of ``x``."""

    def masked(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
        wanted = _dtype(name, dtype, input)
        return run(_filled(identity, input, mask), _dims(dim, input._layout.ndim)[0], wanted)

    _publish(masked, name, f"{doc} along ``dim`` of the elements that ``mask`` names.")


_along_dim("cumsum", "sum", lambda x, dim, dtype: x.cumsum(dim, dtype=dtype), "Running sums")
_along_dim("cumprod", "prod", lambda x, dim, dtype: x.cumprod(dim, dtype=dtype), "Running products")
_along_dim("softmax", "amax", lambda x, dim, dtype: x.softmax(dim, dtype=dtype), "Softmax")
_along_dim("log_softmax", "amax", lambda x, dim, dtype: x.log_softmax(dim, dtype=dtype), "Logarithm of softmax")
_along_dim("softmin", "amin", lambda x, dim, dtype: (-x).softmax(dim, dtype=dtype), "Softmax of -x")


# -- means and norms --------------------------------------------------------------------------------------


def _count(input: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Any:
    """How many elements count, int64; without a mask a number."""
    dims = _dims(dim, input._layout.ndim)
    if mask is not None:
        return mask.sum(dims, keepdim)
    count = 1
    for d in dims:
        count *= input._layout.shape[d] if input._layout.ndim else 1
    return count


@functools.partial(public, module="masked")
def masked_mean(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
                mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Mean over ``dim``, one or several, by default all, of the elements that ``mask`` names; NaN of none."""
    wanted = _dtype("mean", dtype, input)
    if wanted.category < 2:
        source = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {wanted}"
        )
    inside = None if mask is None else _mask_for(input, mask)
    total = masked_sum(input, dim, keepdim=keepdim, dtype=wanted, mask=inside)
    return total / _count(input, dim, bool(keepdim), inside)


@functools.partial(public, module="masked")
def masked_median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
                  mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Lower of the middle elements along ``dim`` among those that ``mask`` names; NaN of none.

    ValueError if there are none for a dtype that has no NaN.
    """
    wanted, d = _dtype("median", dtype, input), _dims(dim, input._layout.ndim)[0]
    if input._layout.dtype.is_floating_point:
        return _filled("median", input, mask).nanmedian(d, keepdim).values
    found = _filled("median", cast(input, dtypes.by_name("float32")), mask).nanmedian(d, keepdim).values
    if found.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return cast(found, wanted)


@functools.partial(public, module="masked")
def masked_norm(input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
                mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """Vector norm of order ``ord`` over ``dim`` of the elements that ``mask`` names."""
    order = 2.0 if ord is None else ord
    filled = _filled("norm", input, mask, order)
    dims = _dims(dim, input._layout.ndim)
    return VectorNorm.apply(filled, order, dims, bool(keepdim), _dtype("norm", dtype, input))


def _spread(input: Tensor, dim: Any, unbiased: bool | None, correction: Any, keepdim: bool, dtype: Any,
            mask: Tensor | None) -> Tensor:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1.0 if unbiased is None else float(unbiased)
    wanted = _dtype("var", dtype, input)
    wide = wanted if wanted.category > 1 else dtypes.by_name("float32")
    wanted = wide if dtype is None else wanted
    inside = None if mask is None else _mask_for(input, mask)
    count = _count(input, dim, True, inside)
    mean = masked_sum(input, dim, keepdim=True, dtype=wanted, mask=inside) / count
    x = input - mean
    total = masked_sum(x * x.conj(), dim, keepdim=keepdim, dtype=wide, mask=inside)
    if inside is None:
        return cast(total / max(count - correction, 0.0), wanted)
    if not keepdim:
        count = count.reshape(total._layout.shape)
    if correction:
        count = (cast(count, wide.to_real()) - correction).clamp(min=0)
    return cast(total / count, wanted)


def _publish_spread(name: str, root: bool, doc: str) -> None:
    def masked(input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: float | None = None,
               keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:  # fmt: skip
        found = _spread(input, dim, unbiased, correction, bool(keepdim), dtype, mask)
        return found.sqrt() if root else found

    _publish(masked, name, f"{doc} over ``dim`` of the elements that ``mask`` names; ``correction`` is 1 by default.")


_publish_spread("var", False, "Variance")
_publish_spread("std", True, "Standard deviation")


@functools.partial(public, module="masked")
def masked_normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
                     mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """``input`` over its norm of order ``ord`` along ``dim``, ``eps`` at least; 0 where ``mask`` is False."""
    size = masked_norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    # By ``maximum``, whose gradient is shared where both are equal.
    least = size.new_full((), eps)
    return _filled("sum", input, mask) / table.maximum(size, least)


@functools.partial(public, module="masked")
def masked_logaddexp(input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
                     other_mask: Tensor | None = None) -> Tensor:  # fmt: skip
    """log(exp(x) + exp(y)), where an element that its mask does not name adds nothing."""
    x, y = _filled("logaddexp", input, input_mask), _filled("logaddexp", other, other_mask)
    return cast(table.logaddexp(x, y), _dtype("logaddexp", dtype, input))
