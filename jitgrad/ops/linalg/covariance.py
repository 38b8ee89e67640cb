"""Covariances and correlations of variables, the rows of a matrix of observations."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import int_argument
from jitgrad.ops.linalg.matrix_products import Mm
from jitgrad.ops.pointwise.complex import Complex

__all__: list[str] = []


def _check_weights(name: str, w: Tensor, count: int, kind: str, fits: bool) -> None:
    if w._layout.ndim > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w._layout.ndim} dimensions"
        )
    if not fits:
        raise RuntimeError(
            f"cov(): expected {name} to have {kind} dtype but got {name} with {scalar_type(w.dtype)} dtype"
        )
    if w._layout.numel != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{w._layout.numel} != {count}"
        )
    if count and w.min().item() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


@public
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariances of the rows of a matrix, whose columns are observations, (n, m) to (n, n); of a vector a number.

    fweights: how often each observation was made. aweights: how much it counts. The sums of products of deviations are
    divided by the sum of weights less ``correction``. RuntimeError for weights that do not fit or sum to zero.
    """
    if input._layout.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input._layout.ndim} dimensions"
        )
    if not input._layout.dtype.category:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    correction = int_argument("cov", "correction", 2, correction)
    x = input.view(1, -1) if input._layout.ndim < 2 else input
    count = x._layout.shape[1]
    weights = fweights
    if fweights is not None:
        _check_weights("fweights", fweights, count, "integral", fweights._layout.dtype.category == 1)
    if aweights is not None:
        _check_weights("aweights", aweights, count, "floating point", aweights._layout.dtype.is_floating_point)
        weights = aweights if fweights is None else fweights * aweights
    total: Any = count if weights is None else weights.sum()
    if weights is not None and total.item() == 0:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = (x if weights is None else x * weights).sum(1) / total
    divisor = total - correction
    if weights is not None and aweights is not None and correction:
        divisor = total - correction * (weights * aweights).sum() / total
    if (divisor if weights is None else divisor.item()) <= 0:
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning, stacklevel=user_level(),
        )  # fmt: skip
        divisor = 0
    x = x - mean.unsqueeze(1)
    products = Mm.apply(x, (x if weights is None else x * weights).t().conj())
    return (products / divisor).squeeze()


@public
def corrcoef(input: Tensor) -> Tensor:
    """The correlations of the rows of a matrix, whose columns are observations: covariances over deviations."""
    if input._layout.ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input._layout.ndim} dimensions"
        )
    c = cov(input)
    if not c._layout.ndim:
        return c / c
    variances = c.diag()
    deviations = (variances.real if c.is_complex() else variances).sqrt()
    c = c / deviations.view(-1, 1) / deviations.view(1, -1)
    return Complex.apply(c.real.clip(-1, 1), c.imag.clip(-1, 1)) if c.is_complex() else c.clip(-1, 1)
