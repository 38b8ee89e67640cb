"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.chi2 import Chi2
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.distributions.multivariate_normal import OfCovariance, _half_log_det

__all__ = ["Wishart"]

_log_2 = math.log(2)


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of ``mvlgamma``. AssertionError where x is too small."""
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    return jitgrad.digamma(x.unsqueeze(-1) - jitgrad.arange(p, dtype=x.dtype, device=x.device) / 2).sum(-1)


class Wishart(OfCovariance, ExponentialFamily):
    """Sums of ``df`` matrices x x^T for normal x with mean 0; of their covariance, its inverse or its factor.

    ``df`` may be any number above n - 1, else ValueError; below n it warns: samples may be singular.
    """

    support: Any = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    expand = expands(
        "df", "covariance_matrix", "precision_matrix", "scale_tril", "_dist_chi2", same=("_unbroadcasted_scale_tril",)
    )  # fmt: skip

    @property
    def arg_constraints(self):
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: Any = None,
    ):  # fmt: skip
        matrices = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril,
        }  # fmt: skip
        given = [(name, m) for name, m in matrices.items() if m is not None]
        if len(given) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, param),) = given
        if param.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, (int, float)):
            df = jitgrad.tensor(df, dtype=param.dtype, device=param.device)
            batch_shape, self.df = Size(param.shape[:-2]), df
        else:
            batch_shape = jitgrad.broadcast_shapes(param.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = param.shape[-2:]
        n = event_shape[-1]
        if self.df.le(n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self._take(param, name, batch_shape)
        if self.df.lt(n).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor = self._factor(param, name)
        steps = jitgrad.arange(n, dtype=factor.dtype, device=factor.device).expand((*batch_shape, -1))
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps)

    def _for_matrices(self, values: Tensor) -> Tensor:
        return values.expand(self._batch_shape).unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self):
        return self._for_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self):
        """NaN where df <= n + 1."""
        factor = self.df - self._event_shape[-1] - 1
        return self._for_matrices(jitgrad.where(factor <= 0, jitgrad.nan, factor)) * self.covariance_matrix

    @property
    def variance(self):
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._for_matrices(self.df) * (covariance.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any = Size()) -> Tensor:  # noqa: B008
        """L A A^T L^T, of a triangular A with normals below a diagonal whose squares are chi-squared."""
        p = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = diagonal.clamp(min=jitgrad.finfo(diagonal.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        rows, columns = jitgrad.tril_indices(p, p, offset=-1)
        shape = (*sample_shape, *self._batch_shape, p * (p - 1) // 2)
        noise[..., rows, columns] = jitgrad.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _over_samples(self, verdicts: Tensor) -> Tensor:
        """Whether any of the batch is so."""
        return verdicts.amax([-(i + 1) for i in range(len(self._batch_shape))]) if self._batch_shape else verdicts

    def rsample(self, sample_shape=Size(), max_try_correction=None):  # noqa: B008
        """Samples; those that rounding made singular are drawn again, ``max_try_correction`` times (10).

        At first PyTorch draws again what is *not* singular, and warns. So it is here, too: numbers are the same.
        """
        sample_shape = Size(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        again = self._over_samples(self.support.check(sample))
        if not again.any():
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            fresh = self._bartlett_sampling(again[again].shape)
            sample[again] = fresh
            again[again.clone()] = self._over_samples(~self.support.check(fresh))
            if not again.any():
                break
        return sample

    @validated
    def log_prob(self, value):
        nu, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = jitgrad.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        normalizer = nu * (p * _log_2 / 2 + _half_log_det(factor)) + jitgrad.mvlgamma(nu / 2, p=p)
        return (nu - p - 1) / 2 * jitgrad.linalg.slogdet(value).logabsdet - trace / 2 - normalizer

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        scale = (p + 1) * (p * _log_2 / 2 + _half_log_det(self._unbroadcasted_scale_tril))
        digammas = (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
        return scale + jitgrad.mvlgamma(nu / 2, p=p) - digammas + nu * p / 2

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (_log_2 * p - jitgrad.linalg.slogdet(-2 * x).logabsdet) + jitgrad.mvlgamma(half, p=p)
