"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.autograd.function import Function, once_differentiable
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import expands, validated
from jitgrad.distributions.exp_family import ExponentialFamily
from jitgrad.ops.random.gamma import _dirichlet_grad, _sample_dirichlet

__all__ = ["Dirichlet"]


def _Dirichlet_backward(x: Tensor, concentration: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient for the concentrations of a sample x, at fixed quantiles of the beta distributions of its elements.

    If an element grows, the others shrink in proportion.
    """
    total = concentration.sum(-1, True).expand_as(concentration)
    grad = _dirichlet_grad(x, concentration, total)
    return grad * (grad_output - (x * grad_output).sum(-1, True))


class _Dirichlet(Function):
    """A sample of the concentrations, which can be differentiated once."""

    @staticmethod
    def forward(ctx, concentration):
        x = _sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        x, concentration = ctx.saved_tensors
        return _Dirichlet_backward(x, concentration, grad_output)


class Dirichlet(ExponentialFamily):
    """Points of the simplex along the last dim: a density proportional to the product of x^(concentration - 1)."""

    arg_constraints: Any = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Any = constraints.simplex
    has_rsample = True
    expand = expands("concentration")

    def __init__(self, concentration: Any, validate_args: Any = None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    @validated
    def log_prob(self, value):
        powers = jitgrad.xlogy(self.concentration - 1.0, value).sum(-1)
        return powers - self._log_normalizer(self.concentration)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self):
        """The density's maximum; where all concentrations are below 1, the corner of the largest."""
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        corner = jitgrad.nn.functional.one_hot(mode.argmax(dim=-1), excess.shape[-1]).to(mode)
        return jitgrad.where((self.concentration < 1).all(dim=-1, keepdim=True), corner, mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        k, total = self.concentration.size(-1), self.concentration.sum(-1)
        of_elements = ((self.concentration - 1.0) * jitgrad.digamma(self.concentration)).sum(-1)
        return self._log_normalizer(self.concentration) - (k - total) * jitgrad.digamma(total) - of_elements

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - jitgrad.lgamma(x.sum(-1))
