"""The derivatives of digamma, by way of Hurwitz's zeta function."""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.reflection import polygamma2_reflected
from jitgrad.kernels.words.vocabulary import D, T, word

__all__ = ["polygamma"]


@word(internal=True)
class _inverse_power:
    """a ** -k for a whole k >= 0 and a > 0, in float64; products are quicker than powers, and as accurate up to 4."""

    def real(a, k):
        # The product of smaller numbers might be denormal, with fewer digits than its inverse.
        if (k > D(4.0)) | (a < D(1e-75)):
            return np.power(a, -k)
        square = a * a if k > D(1.0) else a
        return D(1.0) / (square * (square if k > D(3.0) else (a if k > D(2.0) else D(1.0)))) if k > D(0.0) else D(1.0)


@word(internal=True)
class _factorial:
    """n! in float64; the product, exact up to 22!, is an order of magnitude quicker than the C library's gamma."""

    def real(n):
        if n > D(22.0):
            return math.gamma(n + D(1.0))
        product = D(1.0)
        while n > D(1.0):
            product *= n
            n -= D(1.0)
        return product


@word(internal=True)
class _zeta_tail:
    """(n - 1)! times sum(n * (a + k) ** -(n + 1) for k >= 0), for a >= n + 8, by Euler and Maclaurin, in float64.

    It is (n - 1)! a ** -n (1 + n / (2 a) + the sum of B_2j / (2 j)! n (n + 1) ... (n + 2 j - 1) a ** -2 j), with
    Bernoulli's numbers B; for these a the terms beyond the twelfth are less than 2 ** -56.
    """

    def real(n, a):
        square = D(1.0) / (a * a)
        term = n * (n + D(1.0)) * square
        tail = term * D(0.08333333333333333)
        term = term * (n + D(2.0)) * (n + D(3.0)) * square
        tail -= term * D(0.001388888888888889)
        term = term * (n + D(4.0)) * (n + D(5.0)) * square
        tail += term * D(3.306878306878307e-05)
        term = term * (n + D(6.0)) * (n + D(7.0)) * square
        tail -= term * D(8.267195767195768e-07)
        term = term * (n + D(8.0)) * (n + D(9.0)) * square
        tail += term * D(2.08767569878681e-08)
        term = term * (n + D(10.0)) * (n + D(11.0)) * square
        tail -= term * D(5.284190138687493e-10)
        term = term * (n + D(12.0)) * (n + D(13.0)) * square
        tail += term * D(1.3382536530684679e-11)
        term = term * (n + D(14.0)) * (n + D(15.0)) * square
        tail -= term * D(3.389680296322583e-13)
        term = term * (n + D(16.0)) * (n + D(17.0)) * square
        tail += term * D(8.586062056277845e-15)
        term = term * (n + D(18.0)) * (n + D(19.0)) * square
        tail -= term * D(2.174868698558062e-16)
        term = term * (n + D(20.0)) * (n + D(21.0)) * square
        tail += term * D(5.5090028283602295e-18)
        term = term * (n + D(22.0)) * (n + D(23.0)) * square
        tail -= term * D(1.3954464685812524e-19)
        # The power in two factors, the last of which alone may lead to a denormal number.
        half = np.floor(n * D(0.5))
        rest = _inverse_power(a, n - half)
        return _factorial(n - D(1.0)) * (D(1.0) + (n / (a + a) + tail)) * rest * _inverse_power(a, half)


@word(internal=True)
class _scaled_zeta:
    """n! times the sum of (a + k) ** -(n + 1) over k >= 0, for a whole n >= 1 and a > 0, in float64."""

    def real(n, a):
        total, low = D(0.0), D(0.0)
        while a < n + D(8.0):
            term = _inverse_power(a, n + D(1.0))
            grown = total + term
            # What rounding takes off the sum is gathered apart: terms fall, so the difference is exact.
            low += term - (grown - total)
            total = grown
            a += D(1.0)
        if total == np.inf:
            return total
        factorial = _factorial(n)
        return factorial * total + (factorial * low + _zeta_tail(n, a))


def _polygamma(n, x):
    from scipy.special import polygamma

    return polygamma(np.asarray(n, np.int64), x)


@word(internal=True)
class _polygamma_sums:
    """polygamma(n, x) as sums over the poles; between poles below 0 those of an even n may cancel."""

    def real(n, x):
        order, a = np.float64(n), np.float64(x)
        sign = D(-1.0) if np.floor(order * D(0.5)) * D(2.0) == order else D(1.0)
        if (x <= 0.0) & (np.floor(x) == x):
            return T(sign * np.inf)
        if x == T(np.inf):
            return T(0.0)
        if not x < 0.0:
            return T(sign * _scaled_zeta(order, a))
        # The terms (a + k) ** -(n + 1) on both sides of the pole, each side counted from it; of those below 0 there
        # are as many as lead to `a` itself. The distance to the nearest integer is exact.
        near = a - np.rint(a)
        above = near if near > D(0.0) else D(1.0) + near
        below = D(1.0) - near if near > D(0.0) else -near
        mirrored = _scaled_zeta(order, below) - _scaled_zeta(order, D(1.0) - a)
        return T(sign * _scaled_zeta(order, above) + mirrored)


@word(_polygamma)
class polygamma:
    """The n-th derivative of digamma, for a whole n >= 1; infinite at 0 and the negative integers."""

    def real(n, x):
        return _polygamma_sums(n, x)

    def float64(n, x):
        y = _polygamma_sums(n, x)
        if (n == 2.0) & (x < 0.0) & (np.abs(y) < 16.0):  # sums of which each is at least 16
            y = polygamma2_reflected(-x)
        return y
