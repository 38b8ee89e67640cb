"""Hurwitz's zeta function."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.vocabulary import by_scipy, word

__all__ = ["special_zeta"]


@word(internal=True)
class _zeta_positive:
    """The sum of (a + k) ** -s over k >= 0, for s > 1 and a > 0: some terms, then Euler's and Maclaurin's tail."""

    def float64(s, a):
        total = 0.0
        while a < s + 9.0:
            term = a**-s
            total += term
            # So does any s > 50 end, for which the tail needs more terms than it has.
            if term <= 1e-17 * total:
                return total
            a += 1.0
        square = 1.0 / (a * a)
        # B_2j / (2 j)! s (s + 1) ... (s + 2 j - 2) a ** (1 - 2 j), with Bernoulli's numbers B
        tail = (s + 21.0) * (s + 22.0) * square * -1.3954464685812524e-19 + 5.5090028283602295e-18
        tail = (s + 19.0) * (s + 20.0) * square * tail - 2.174868698558062e-16
        tail = (s + 17.0) * (s + 18.0) * square * tail + 8.586062056277845e-15
        tail = (s + 15.0) * (s + 16.0) * square * tail - 3.389680296322583e-13
        tail = (s + 13.0) * (s + 14.0) * square * tail + 1.3382536530684679e-11
        tail = (s + 11.0) * (s + 12.0) * square * tail - 5.284190138687493e-10
        tail = (s + 9.0) * (s + 10.0) * square * tail + 2.08767569878681e-08
        tail = (s + 7.0) * (s + 8.0) * square * tail - 8.267195767195768e-07
        tail = (s + 5.0) * (s + 6.0) * square * tail + 3.306878306878307e-05
        tail = (s + 3.0) * (s + 4.0) * square * tail - 0.001388888888888889
        tail = (s + 1.0) * (s + 2.0) * square * tail + 0.08333333333333333
        # a ** (1 - s) by itself, for a ** -s may vanish where it does not.
        return total + a ** (1.0 - s) * (1.0 / (s - 1.0) + (0.5 + s / a * tail) / a)


@word(by_scipy("zeta"), ulp={"float64": 16})
class special_zeta:
    """The sum of (q + k) ** -s over k >= 0: infinite for s = 1 and at whole q <= 0, NaN for s < 1.

    For negative q it is NaN unless s is whole.
    """

    def float64(s, q):
        if s == 1.0:
            return np.inf
        if not s > 1.0:
            return np.nan
        if (q <= 0.0) & (np.floor(q) == q):
            return np.inf
        if q > 0.0:
            return _zeta_positive(s, q)
        if np.floor(s) != s:
            return np.nan
        # The terms on both sides of 0, each side counted from it; of those below there are as many as lead to q.
        rest = q - np.floor(q)
        below = _zeta_positive(s, 1.0 - rest) - _zeta_positive(s, 1.0 - q)
        odd = np.floor(0.5 * s) != 0.5 * s
        return _zeta_positive(s, rest) + (-below if odd else below)
