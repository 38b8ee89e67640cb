"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.categorical import Categorical
from jitgrad.distributions.distribution import Distribution, attribute, expands, validated

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """The distributions along the last batch dim of ``component_distribution``, chosen by a ``Categorical``.

    ValueError if their shapes don't fit.
    """

    arg_constraints: Any = {}
    has_rsample = False
    expand = expands(
        "_component_distribution", "_mixture_distribution", same=("_num_component", "_event_ndims")
    )  # fmt: skip
    mixture_distribution = attribute("_mixture_distribution", "What chooses the component.")
    component_distribution = attribute("_component_distribution", "The components, along the last batch dim.")

    def __init__(self, mixture_distribution: Any, component_distribution: Any, validate_args: Any = None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of torch.distributions.Distribution"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        mixed, of = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(i != 1 and j != 1 and i != j for i, j in zip(reversed(mixed), reversed(of))):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                f"`component_distribution.batch_shape`({of})"
            )
        self._num_component = mixture_distribution.logits.shape[-1]
        found = component_distribution.batch_shape[-1]
        if self._num_component != found:
            raise ValueError(
                f"`mixture_distribution component` ({self._num_component}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({found})"
            )
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(of, event_shape, validate_args=validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _mixed(self, values: Any) -> Any:
        """The mean of the components' values by their probabilities."""
        return (self._pad_mixture_dimensions(self.mixture_distribution.probs) * values).sum(-1 - self._event_ndims)

    @property
    def mean(self):
        return self._mixed(self.component_distribution.mean)

    @property
    def variance(self):
        """The mean of the variances and the variance of the means."""
        offsets = self.component_distribution.mean - self._pad(self.mean)
        return self._mixed(self.component_distribution.variance) + self._mixed(offsets.pow(2.0))

    def cdf(self, x):
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    @validated
    def log_prob(self, x):
        log_probs = self.component_distribution.log_prob(self._pad(x))
        return jitgrad.logsumexp(log_probs + jitgrad.log_softmax(self.mixture_distribution.logits, -1), dim=-1)

    def sample(self, sample_shape=Size()):  # noqa: B008
        with no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            shape = chosen.shape
            chosen = chosen.reshape((*shape, *[1] * (self._event_ndims + 1)))
            chosen = chosen.repeat((*[1] * len(shape), 1, *self.event_shape))
            return jitgrad.gather(samples, dim, chosen).squeeze(dim)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        """The choice's parameter with dims for the batch, before its last, and for the event."""
        dims = len(self.mixture_distribution.batch_shape)
        missing = 0 if dims == 1 else len(self.batch_shape) - dims
        return x.reshape((*x.shape[:-1], *[1] * missing, *x.shape[-1:], *[1] * self._event_ndims))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
