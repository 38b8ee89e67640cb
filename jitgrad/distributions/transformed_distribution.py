"""Distributions of transformed samples."""

from __future__ import annotations

from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, validated
from jitgrad.distributions.independent import Independent
from jitgrad.distributions.transforms import ComposeTransform, Transform
from jitgrad.distributions.utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """What a transform, or a list of them, makes of the samples of ``base_distribution``.

    The base is expanded, and its batch dims taken into the event, as the transforms' shapes and domain demand.
    ValueError where it has too few dims.
    """

    arg_constraints: Any = {}
    has_rsample: Any = attribute("base_dist.has_rsample")

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: Any = None):
        if isinstance(transforms, Transform):
            transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms: list[Transform] = transforms
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        base_event_dim = len(base_distribution.event_shape)
        transform = ComposeTransform(self.transforms)
        taken, given = transform.domain.event_dim, transform.codomain.event_dim
        if len(base_shape) < taken:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {taken}, but got {base_shape}."
            )
        shape = transform.forward_shape(base_shape)
        needed = transform.inverse_shape(shape)
        if base_shape != needed:
            base_distribution = base_distribution.expand(needed[: len(needed) - base_event_dim])
        if taken > base_event_dim:
            base_distribution = Independent(base_distribution, taken - base_event_dim)
        self.base_dist = base_distribution
        cut = len(shape) - max(given, base_event_dim + given - taken)
        if cut < 0:
            raise AssertionError(f"forward_shape length {len(shape)} must be >= event_dim {len(shape) - cut}")
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with a larger batch shape, by expanding its base."""
        new = self._get_checked_instance(TransformedDistribution, _instance)
        batch_shape = Size(batch_shape)
        shape = ComposeTransform(self.transforms).inverse_shape(batch_shape + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        new.transforms = self.transforms
        super(TransformedDistribution, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    def sample(self, sample_shape=Size()):  # noqa: B008
        with no_grad():
            return ComposeTransform(self.transforms)(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=Size()):  # noqa: B008
        return ComposeTransform(self.transforms)(self.base_dist.rsample(sample_shape))

    @validated
    def log_prob(self, value):
        """That of the base at the inverse, less the logarithms of the Jacobians' determinants."""
        event_dim, log_prob = len(self.event_shape), 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            taken = transform.domain.event_dim
            event_dim += taken - transform.codomain.event_dim
            log_prob = log_prob - _sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - taken)
            y = x
        base = self.base_dist.log_prob(y)
        return log_prob + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """``value``, or 1 - value where the transform is decreasing."""
        sign: Any = ComposeTransform(self.transforms).sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value):
        return ComposeTransform(self.transforms)(self.base_dist.icdf(self._monotonize_cdf(value)))
