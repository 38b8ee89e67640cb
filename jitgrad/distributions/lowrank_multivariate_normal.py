"""The normal distribution of vectors whose covariance is of low rank, but for its diagonal."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, expands, validated
from jitgrad.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv, _half_log_det
from jitgrad.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _identity_plus(matrix: Tensor) -> Tensor:
    return matrix + jitgrad.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _over_diagonal(W: Tensor, D: Tensor) -> Tensor:
    """W^T D^-1."""
    return W.mT / D.unsqueeze(-2)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W, which is small."""
    return jitgrad.linalg.cholesky(_identity_plus(_over_diagonal(W, D) @ W))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """log det(W W^T + D), by the lemma on determinants."""
    return 2 * _half_log_det(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """x^T (W W^T + D)^-1 x, by Woodbury's identity."""
    reduced = _batch_mv(_over_diagonal(W, D), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, reduced)


class LowRankMultivariateNormal(Distribution):
    """Of mean ``loc`` and covariance ``cov_factor @ cov_factor^T + diag(cov_diag)``.

    The factor is n x k; densities and samples take no more than n k^2 operations. ValueError for shapes that don't fit.
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True
    mean = mode = attribute("loc")
    expand = expands(
        "loc", "cov_factor", "cov_diag",
        same=("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"),
    )  # fmt: skip

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: Any = None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            mean, self.cov_factor, diagonal = jitgrad.broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = mean[..., 0], diagonal[..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    @property
    def _parts(self) -> tuple[Tensor, Tensor]:
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag

    @property
    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(*self._parts, self._capacitance_tril)

    def _over_batch(self, values: Tensor, dims: int) -> Tensor:
        return values.expand((*self._batch_shape, *self._event_shape * dims))

    @lazy_property
    def variance(self):
        factor, diagonal = self._parts
        return self._over_batch(factor.pow(2).sum(-1) + diagonal, 1)

    @lazy_property
    def scale_tril(self):
        """The covariance's Cholesky factor."""
        factor, diagonal = self._parts
        root = diagonal.sqrt().unsqueeze(-1)
        scaled = factor / root
        return self._over_batch(root * jitgrad.linalg.cholesky(_identity_plus(scaled @ scaled.mT)), 2)

    @lazy_property
    def covariance_matrix(self):
        """The covariance."""
        factor, diagonal = self._parts
        return self._over_batch(factor @ factor.mT + jitgrad.diag_embed(diagonal), 2)

    @lazy_property
    def precision_matrix(self):
        """The covariance's inverse, by Woodbury's identity."""
        reduced = jitgrad.linalg.solve_triangular(self._capacitance_tril, _over_diagonal(*self._parts), upper=False)
        inverse = jitgrad.diag_embed(self._unbroadcasted_cov_diag.reciprocal())
        return self._over_batch(inverse - reduced.mT @ reduced, 2)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        of_factor = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), **options)
        of_diagonal = _standard_normal(shape, **options)
        factor, diagonal = self._parts
        return self.loc + _batch_mv(factor, of_factor) + diagonal.sqrt() * of_diagonal

    @validated
    def log_prob(self, value):
        square = _batch_lowrank_mahalanobis(*self._parts, value - self.loc, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det + square)

    def entropy(self):
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self._log_det)).expand(self._batch_shape)
