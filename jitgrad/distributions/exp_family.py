"""Exponential families."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Base of distributions with the density exp(<t(x), theta> - F(theta) + k(x)).

    A subclass states its natural parameters theta, F as ``_log_normalizer`` of them, and the mean of k; its entropy,
    F(theta) - <theta, dF / dtheta> - E[k(x)], and divergences follow by the gradient of F.
    """

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def _normalizer_and_gradients(self) -> tuple[list[Tensor], Tensor, tuple[Tensor, ...]]:
        """The natural parameters as leaves, F of them, and its gradient."""
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*parameters)
        gradients = jitgrad.autograd.grad(normalizer.sum(), parameters, create_graph=True)
        return parameters, normalizer, gradients

    def entropy(self) -> Any:
        """By the gradient of the normaliser."""
        carrier = self._mean_carrier_measure
        parameters, normalizer, gradients = self._normalizer_and_gradients()
        result = normalizer - carrier
        for parameter, gradient in zip(parameters, gradients):
            result = result - (parameter * gradient).reshape((*self._batch_shape, -1)).sum(-1)
        return result
