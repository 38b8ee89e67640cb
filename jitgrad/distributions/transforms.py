"""Transforms: differentiable maps between events, with the logarithm of their Jacobian's determinant.

Here are those that go element by element; transform_base.py has the base and what is made of others, and
transform_events.py maps of vectors and matrices.
"""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.lazy_import import offer
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.transform_base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    Unparametrised,
    remade,
)  # fmt: skip
from jitgrad.distributions.transform_base import _InverseTransform as _InverseTransform
from jitgrad.distributions.transform_events import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)  # fmt: skip
from jitgrad.distributions.utils import broadcast_all, lazy_property
from jitgrad.distributions.utils import clipped_sigmoid as _clipped_sigmoid

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip

offer(__name__, CatTransform, ComposeTransform, CorrCholeskyTransform, IndependentTransform, LowerCholeskyTransform,
      PositiveDefiniteTransform, ReshapeTransform, SoftmaxTransform, StackTransform, StickBreakingTransform, Transform,
      _InverseTransform)  # fmt: skip
identity_transform: Transform = ComposeTransform([])


class _Increasing(Unparametrised):
    """An increasing map of numbers."""

    domain: Any = constraints.real
    codomain: Any = constraints.positive
    bijective, sign = True, +1


class ExpTransform(_Increasing):
    """y = exp(x)."""

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class SigmoidTransform(_Increasing):
    """y = 1 / (1 + exp(-x)), kept from 0 and 1."""

    codomain: Any = constraints.unit_interval

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        finfo = jitgrad.finfo(y.dtype)
        y = y.clamp(min=finfo.tiny, max=1.0 - finfo.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -_softplus(-x) - _softplus(x)


class SoftplusTransform(_Increasing):
    """y = log(1 + exp(x))."""

    def _call(self, x):
        return _softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -_softplus(-x)


class TanhTransform(_Increasing):
    """y = tanh(x)."""

    codomain: Any = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return jitgrad.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        # log(1 - tanh(x)^2), without cancellation.
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class AbsTransform(Unparametrised):
    """y = abs(x), of which x = y is an inverse."""

    domain: Any = constraints.real
    codomain: Any = constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


def _softplus(x: Tensor) -> Tensor:
    return jitgrad.nn.functional.softplus(x)


class _Broadcasting(Transform):
    """Whose parameters, tensors or numbers, broadcast with what is transformed."""

    _parameters: tuple[str, ...] = ()

    def forward_shape(self, shape: Any) -> Any:
        """Broadcast with the parameters."""
        return jitgrad.broadcast_shapes(shape, *[getattr(getattr(self, n), "shape", ()) for n in self._parameters])

    def inverse_shape(self, shape: Any) -> Any:
        """Broadcast with the parameters."""
        return self.forward_shape(shape)


class PowerTransform(_Broadcasting):
    """y = x ** exponent, for positive x."""

    domain: Any = constraints.positive
    codomain: Any = constraints.positive
    bijective = True
    _parameters = ("exponent",)
    with_cache = remade("exponent")

    def __init__(self, exponent: Any, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def __eq__(self, other: object) -> Any:
        return isinstance(other, PowerTransform) and self.exponent.eq(other.exponent).all().item()

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()


def _same(a: Any, b: Any) -> Any:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    return (a == b).all().item()


class AffineTransform(_Broadcasting):
    """y = loc + scale * x, tensors or numbers, for events of ``event_dim`` dims."""

    bijective = True
    _parameters = ("loc", "scale")
    with_cache = remade("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """As given."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    codomain = domain

    def __eq__(self, other: object) -> Any:
        return isinstance(other, AffineTransform) and _same(self.loc, other.loc) and _same(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        """The scale's."""
        if isinstance(self.scale, (int, float)):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        if isinstance(self.scale, (int, float)):
            result = jitgrad.full_like(x, math.log(abs(self.scale)))
        else:
            result = jitgrad.abs(self.scale).log()
        if not self.event_dim:
            return result.expand(x.shape)
        result = result.view(result.size()[: -self.event_dim] + (-1,)).sum(-1)
        return result.expand(x.shape[: -self.event_dim])


class CumulativeDistributionTransform(Transform):
    """y = the distribution's ``cdf`` of x."""

    bijective, sign = True, +1
    codomain: Any = constraints.unit_interval
    with_cache = remade("distribution")

    def __init__(self, distribution: Any, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)
