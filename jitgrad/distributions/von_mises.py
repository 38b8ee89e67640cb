"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import Distribution, attribute, validated
from jitgrad.distributions.utils import broadcast_all, lazy_property

__all__ = ["VonMises"]

# Abramowitz and Stegun's polynomials 9.8.1 to 9.8.4, for the modified Bessel functions of order 0 and 1: in
# (x / 3.75)^2 for x < 3.75, in 3.75 / x beyond.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_LARGE = (
    (0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1, -0.1647633e-1,
     0.392377e-2),
    (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1, -0.2895312e-1, 0.1787654e-1,
     -0.420059e-2),
)  # fmt: skip


def _eval_poly(y: Any, coef: Any) -> Any:
    """The sum of coef[i] y^i, by Horner's rule."""
    result = coef[-1]
    for c in reversed(coef[:-1]):
        result = c + y * result
    return result


def _log_modified_bessel_fn(x: Tensor, order: int = 0) -> Tensor:
    """log of the modified Bessel function I of order 0 or 1, x > 0."""
    if order not in (0, 1):
        raise AssertionError(f"order must be 0 or 1, got {order}")
    small = _eval_poly((x / 3.75) ** 2, _SMALL[order])
    small = (x.abs() * small if order else small).log()
    large = x - 0.5 * x.log() + _eval_poly(3.75 / x, _LARGE[order]).log()
    return jitgrad.where(x < 3.75, small, large)


def _rejection_sample(loc: Tensor, concentration: Tensor, proposal_r: Tensor, x: Tensor) -> Tensor:
    """Best and Fisher's method: angles of a wrapped Cauchy distribution, drawn again until all are accepted."""
    done = jitgrad.zeros(x.shape, dtype=jitgrad.bool, device=loc.device)
    while not done.all():
        u1, u2, u3 = jitgrad.rand((3, *x.shape), dtype=loc.dtype, device=loc.device).unbind()
        z = jitgrad.cos(math.pi * u1)
        f = (1 + proposal_r * z) / (proposal_r + z)
        c = concentration * (proposal_r - f)
        accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
        x = jitgrad.where(accept, (u3 - 0.5).sign() * f.acos(), x)
        done = done | accept
    return (x + math.pi + loc) % (2 * math.pi) - math.pi


class VonMises(Distribution):
    """Angles in [-pi, pi) with a density proportional to exp(concentration cos(x - loc)).

    Samples are drawn in float64. ``variance`` is the circular one.
    """

    arg_constraints: Any = {"loc": constraints.real, "concentration": constraints.positive}
    support: Any = constraints.real
    has_rsample = False
    mean = mode = attribute("loc")

    def __init__(self, loc: Any, concentration: Any, validate_args: Any = None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(), validate_args)

    @validated
    def log_prob(self, value):
        log_normalizer = math.log(2 * math.pi) + _log_modified_bessel_fn(self.concentration, order=0)
        return self.concentration * jitgrad.cos(value - self.loc) - log_normalizer

    @lazy_property
    def _loc(self):
        return self.loc.to(jitgrad.double)

    @lazy_property
    def _concentration(self):
        return self.concentration.to(jitgrad.double)

    @lazy_property
    def _proposal_r(self):
        """The parameter of the proposals; for tiny concentrations, where it would lose its digits, its series."""
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return jitgrad.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    @no_grad()
    def sample(self, sample_shape=Size()):  # noqa: B008
        x = jitgrad.empty(self._extended_shape(sample_shape), dtype=self._loc.dtype, device=self.loc.device)
        return _rejection_sample(self._loc, self._concentration, self._proposal_r, x).to(self.loc.dtype)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """A new one of expanded parameters."""
        given = {"validate_args": vars(self).get("_validate_args")}
        return type(self)(self.loc.expand(batch_shape), self.concentration.expand(batch_shape), **given)

    @lazy_property
    def variance(self):
        log_bessel1, log_bessel0 = (_log_modified_bessel_fn(self.concentration, order=n) for n in (1, 0))
        return 1 - (log_bessel1 - log_bessel0).exp()
