"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, expands, validated
from jitgrad.distributions.utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal", "OfCovariance"]


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors."""
    return jitgrad.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x for lower triangular matrices L and vectors x, whose batch is that of L or larger.

    The vectors that share a matrix are columns of one system.
    """
    n, shape = bx.size(-1), bx.shape[:-1]
    batch = (*[1] * (len(shape) - bL.dim() + 2), *bL.shape[:-2])
    order = sorted(range(len(shape)), key=lambda d: batch[d] == 1)  # first the dims of the matrices
    matrices, columns = ([d for d in order if (batch[d] == 1) is shared] for shared in (False, True))
    rows, beside = [shape[d] for d in matrices], [shape[d] for d in columns]
    x = bx.permute([*matrices, len(shape), *columns]).reshape([*rows, n, math.prod(beside)])
    solved = jitgrad.linalg.solve_triangular(bL.reshape([*rows, n, n]), x, upper=False)
    result = solved.pow(2).sum(-2).reshape([*rows, *beside])
    return result.permute(sorted(range(len(order)), key=order.__getitem__))


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of the inverse, without inverting: by that of the matrix with its axes reversed."""
    factor = jitgrad.linalg.cholesky(jitgrad.flip(P, (-2, -1)))
    inverse = jitgrad.flip(factor, (-2, -1)).mT
    identity = jitgrad.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return jitgrad.linalg.solve_triangular(inverse, identity, upper=False)


def _half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of L L^T."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class OfCovariance(Distribution):
    """Of a positive definite matrix given by itself, by its inverse, or by its lower Cholesky factor.

    A subclass sets ``_unbroadcasted_scale_tril``, the factor without the batch's further dims.
    """

    _unbroadcasted_scale_tril: Tensor

    def _take(self, param: Any, name: str, batch_shape: Any) -> None:
        setattr(self, name, param.expand((*batch_shape, -1, -1)))

    @staticmethod
    def _factor(param: Any, name: str) -> Any:
        if name == "scale_tril":
            return param
        return jitgrad.linalg.cholesky(param) if name == "covariance_matrix" else _precision_to_scale_tril(param)

    def _over_batch(self, matrix: Tensor) -> Tensor:
        n = matrix.shape[-1]
        return matrix.expand((*self._batch_shape, n, n))

    @lazy_property
    def scale_tril(self):
        """The lower Cholesky factor."""
        return self._over_batch(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        """The matrix."""
        return self._over_batch(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self):
        """The inverse."""
        return self._over_batch(jitgrad.cholesky_inverse(self._unbroadcasted_scale_tril))


class MultivariateNormal(OfCovariance):
    """Of mean ``loc``, a vector, and one of ``covariance_matrix``, ``precision_matrix`` and ``scale_tril``."""

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector
    has_rsample = True
    mean = mode = attribute("loc")
    expand = expands(
        "loc", "covariance_matrix", "precision_matrix", "scale_tril", same=("_unbroadcasted_scale_tril",)
    )  # fmt: skip

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: Any = None,
    ):  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril,
        }  # fmt: skip
        given = [(name, m) for name, m in matrices.items() if m is not None]
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, param),) = given
        if param.dim() < 2:
            label = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{label} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = jitgrad.broadcast_shapes(param.shape[:-2], loc.shape[:-1])
        self._take(param, name, batch_shape)
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(param, name)

    @property
    def variance(self):
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._extended_shape())

    def rsample(self, sample_shape=Size()):  # noqa: B008
        eps = _standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    @validated
    def log_prob(self, value):
        square = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + square) - _half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self):
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + _half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)
