"""Lewandowski, Kurowicka and Joe's distribution of correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.beta import Beta
from jitgrad.distributions.distribution import Distribution, expands, validated
from jitgrad.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Factors L of ``dim`` x ``dim`` correlation matrices, whose density is det(L L^T)^(concentration - 1).

    ValueError for a dim below 2.
    """

    arg_constraints: Any = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky
    expand = expands("concentration", "_beta", same=("dim",))

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: Any = None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # What part of a row lies off the diagonal follows a beta distribution; the first row has none.
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = jitgrad.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        offset = jitgrad.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def sample(self, sample_shape=Size()):  # noqa: B008
        """By the onion method: rows are uniform in their direction, of a length of their own."""
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        normals = jitgrad.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
        directions = normals / normals.norm(dim=-1, keepdim=True)
        directions[..., 0, :].fill_(0.0)
        w = jitgrad.sqrt(y) * directions
        left = (1 - (w**2).sum(dim=-1)).clamp(min=jitgrad.finfo(w.dtype).tiny)
        return w + jitgrad.diag_embed(left.sqrt())

    @validated
    def log_prob(self, value):
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = jitgrad.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        normalizer = 0.5 * n * math.log(math.pi) + jitgrad.mvlgamma(alpha - 0.5, n) - jitgrad.lgamma(alpha) * n
        return (order * diagonal.log()).sum(dim=-1) - normalizer
