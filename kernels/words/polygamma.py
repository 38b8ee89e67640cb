"""The derivatives of digamma, by way of Hurwitz's zeta function."""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.vocabulary import D, T, word

__all__ = ["polygamma"]


@word(internal=True)
class _zeta:
    """The sum of (a + k) ** -s over k >= 0, for a whole s > 1, by Euler and Maclaurin, in float64.

    Terms are added up to an argument of at least 9, beyond which the asymptotic series of Bernoulli
    numbers has the accuracy of a float64 after eight terms.
    """

    def real(s, a):
        total = D(0.0)
        while a < D(9.0):
            total += np.power(a, -s)
            a += D(1.0)
        power = np.power(a, -s)
        square = D(1.0) / (a * a)
        term = s * power / a
        tail = term / D(12.0)
        term = term * (s + D(1.0)) * (s + D(2.0)) * square
        tail -= term / D(720.0)
        term = term * (s + D(3.0)) * (s + D(4.0)) * square
        tail += term / D(30240.0)
        term = term * (s + D(5.0)) * (s + D(6.0)) * square
        tail -= term / D(1209600.0)
        term = term * (s + D(7.0)) * (s + D(8.0)) * square
        tail += term / D(47900160.0)
        term = term * (s + D(9.0)) * (s + D(10.0)) * square
        tail -= term * D(5.284190138687493e-10)
        term = term * (s + D(11.0)) * (s + D(12.0)) * square
        tail += term * D(1.3382536530684679e-11)
        term = term * (s + D(13.0)) * (s + D(14.0)) * square
        tail -= term * D(3.389680296322583e-13)
        return total + power * (a / (s - D(1.0)) + D(0.5)) + tail


def _polygamma(n, x):
    from scipy.special import polygamma

    return polygamma(np.asarray(n, np.int64), x)


@word(_polygamma)
class polygamma:
    """The n-th derivative of digamma, for a whole n >= 1; infinite at 0 and the negative integers.

    Below -10**6, where every float32 and nearly every float64 is whole, it is taken for infinite.
    """

    def real(n, x):
        s, a = np.float64(n) + D(1.0), np.float64(x)
        sign = D(1.0) if np.floor(s * D(0.5)) * D(2.0) == s else D(-1.0)
        pole = (x <= 0.0) & ((np.floor(x) == x) | (x < -1000000.0))
        value = sign * math.gamma(s) * _zeta(s, D(1.0) if pole else a)
        value = D(0.0) if x == T(np.inf) else value
        return T(sign * np.inf) if pole else T(value)
