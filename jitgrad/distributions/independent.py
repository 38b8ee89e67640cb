"""Distributions some of whose batch dims belong to an event."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, expands
from jitgrad.distributions.utils import _sum_rightmost

__all__ = ["Independent"]

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """``base_distribution``, for which the last ``reinterpreted_batch_ndims`` batch dims belong to an event.

    ValueError if it has fewer.
    """

    arg_constraints: Any = {}
    base_dist: D
    expand = expands("base_dist", same=("reinterpreted_batch_ndims",))
    mean, mode, variance = (attribute(f"base_dist.{name}") for name in ("mean", "mode", "variance"))
    has_rsample = attribute("base_dist.has_rsample")

    def __init__(self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: Any = None):
        batch_shape, event_shape = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch_shape)}"
            )
        cut = len(batch_shape) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(batch_shape[:cut], batch_shape[cut:] + event_shape, validate_args=validate_args)

    @property
    def has_enumerate_support(self) -> Any:
        """Whether the base has, if no dims are reinterpreted."""
        return self.reinterpreted_batch_ndims <= 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    def sample(self, sample_shape=Size()):  # noqa: B008
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):  # noqa: B008
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
