"""Derivatives of a random number in the parameters of its distribution, at a fixed quantile.

With the mass below x, P(x; a), and the density p = dP/dx, that is ``-(dP/da) / p``: for x of a gamma distribution of
shape a, and of a beta distribution of shapes a and b. Where x is small, P is a power series; where the shapes are
large, Rice's saddle point expansion; between, rational functions that PyTorch's authors fitted, which are good for
three to four digits. Their coefficients are data, and the same as PyTorch's, so gradients agree.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.exponential import exp
from jitgrad.kernels.words.logarithm import log
from jitgrad.kernels.words.psi import digamma
from jitgrad.kernels.words.vocabulary import horner, word

__all__ = ["dirichlet_grad", "standard_gamma_grad"]

# They approximate; see above.
_UNBOUNDED = {"float64": np.inf}


@word(internal=True)
class _gamma_grad_small:
    """For small x: P = x ** a / gamma(a) * the sum of (-x) ** k / (k! (a + k)), and its derivative in a."""

    def float64(a, x):
        term, mass, slope = 1.0, 1.0 / a, 1.0 / (a * a)
        for k in range(1, 6):
            shifted = a + np.float64(k)
            term *= -x / np.float64(k)
            mass += term / shifted
            slope += term / (shifted * shifted)
        # Factors x ** (a - 1) of both P's derivative and the density have cancelled.
        result = -(((log(x) - digamma(a)) * mass - slope) * x**a) / (x ** (a - 1.0) * exp(-x))
        return 0.0 if np.isnan(result) else result


@word(internal=True)
class _gamma_grad_large:
    """For large a: Rice's expansion, by powers of x - a next to its singularity at x = a."""

    def float64(a, x):
        if (0.9 * a <= x) & (x <= 1.1 * a):
            first = 1.0 + 24.0 * a * (1.0 + 12.0 * a)
            second = 1440.0 * a * a + 6.0 * x * (53.0 - 120.0 * x) - 65.0 * x * x / a + a * (107.0 + 3600.0 * x)
            return first * second / (1244160.0 * (a * a) * (a * a))
        root, gap, ratio = np.sqrt(8.0 * a), a - x, log(x / a)
        tail = (x - a - a * ratio) ** -1.5
        near = root / gap - tail if x < a else root / gap + tail
        slope = ratio * near - np.sqrt(2.0 / a) * (a + x) / (gap * gap)
        stirling = 1.0 + 1.0 / (12.0 * a) * (1.0 + 1.0 / (24.0 * a))
        return -stirling * x * slope / root


@word(ulp=_UNBOUNDED)
class standard_gamma_grad:
    """The derivative of x, drawn from the gamma distribution of shape a, in a."""

    def float64(a, x):
        if x < 0.8:
            return _gamma_grad_small(a, x)
        if a > 8.0:
            return _gamma_grad_large(a, x)
        u, v = log(x / a), log(a)
        p = horner(
            v,
            horner(u, -0.0013441777, -0.0015649758, -0.0030648343), horner(u, -0.0026286047, 0.065735949, 0.025146376),
            horner(u, -0.0065914022, 0.1298071, -0.094634809), horner(u, 0.040121004, 0.53487893, 0.16009398),
        )  # fmt: skip
        q = horner(
            v,
            horner(u, -1.5247877e-07, -0.00058392623, 0.0014179084),
            horner(u, 0.00085092367, -0.0035938915, 0.10406089),
            horner(u, -0.0021309326, 0.020070113, 0.32668115), horner(u, 0.017050642, 0.16639465, 1.0),
        )  # fmt: skip
        return exp(p / q)


@word(internal=True)
class _beta_grad_first:
    """In the first shape, for small x, by powers of x; over 1 - x."""

    def float64(x, a, b):
        common = digamma(a) - digamma(a + b) - log(x)
        term, series = 1.0, (common + 1.0 / a) / a
        for k in range(1, 11):
            n = np.float64(k)
            term *= (n - b) * x / n
            series += term / (a + n) * (common + 1.0 / (a + n))
        result = x * (1.0 - x) ** -b * series
        return 0.0 if np.isnan(result) else result


@word(internal=True)
class _beta_grad_second:
    """In the second shape, for small x, by powers of x; over x."""

    def float64(x, a, b):
        common = digamma(a + b) - digamma(b)
        term, product, slope, series = 1.0, 1.0, 0.0, common / a
        for k in range(1, 9):
            n = np.float64(k)
            term *= -x / n
            # The product (b - 1) ... (b - k), and its derivative.
            slope = slope * (b - n) + product
            product *= b - n
            series += term / (a + n) * (slope + common * product)
        result = -((1.0 - x) ** (1.0 - b)) * series
        return 0.0 if np.isnan(result) else result


@word(internal=True)
class _beta_grad_large:
    """In the first shape, for large shapes: Rice's expansion; over 1 - x."""

    def float64(x, a, b):
        total = a + b
        mean, width = a / total, 0.1 * np.sqrt(a * b / (total + 1.0)) / total
        if (mean - width <= x) & (x <= mean + width):
            # Close to the mean, where the expansion's terms cancel to 0 / 0: its limit.
            y = 1.0 - x
            top = horner(
                a, 8.0 * y * (135.0 * b - 11.0), (453.0 + 1620.0 * b * y - 455.0 * x) * b,
                3.0 * (59.0 + 180.0 * b - 90.0 * x) * b * b, (43.0 + 20.0 * (16.0 + 27.0 * b) * x) * b * b * b,
                47.0 * x * (b * b) * (b * b),
            )  # fmt: skip
            scale = (1.0 + 12.0 * a) * (1.0 + 12.0 * b) / (total * total)
            return scale / y * top / (12960.0 * a * a * a * b * b * (1.0 + 12.0 * total))
        off = a * (x - 1.0) + b * x
        stirling = horner(1.0 / a, 1.0 / 288.0, 1.0 / 12.0, 1.0) * horner(1.0 / b, 1.0 / 288.0, 1.0 / 12.0, 1.0)
        stirling = stirling / horner(1.0 / total, 1.0 / 288.0, 1.0 / 12.0, 1.0)
        first = 2.0 * a * a * (x - 1.0) + a * b * (x - 1.0) - x * b * b
        first = first / (np.sqrt(2.0 * a / b) * total**1.5 * off * off)
        logarithm = log(a / (total * x))
        tail = (b * log(b / (total * (1.0 - x))) + a * logarithm) ** -1.5
        near = np.sqrt(8.0 * a * b / total) / off + (tail if x < mean else -tail)
        return -stirling * x / np.sqrt(2.0 * a * b / total) * (first + 0.5 * logarithm * near)


@word(internal=True)
class _beta_grad_between:
    """In the first shape: a rational function of logarithms times an approximation; over 1 - x."""

    def float64(x, a, total):
        u = log(x)
        r = log(a) - u
        s = log(total) - r
        p = horner(
            u,
            horner(r, horner(s, 5.385558597e-05, -9.495446725e-06, -0.001936558688, 0.005900514878),
                   horner(s, 0.000751041181, -0.002721828457, 0.01400243777, 0.02911413504),
                   horner(s, 0.002319392565, 0.01085618172, 0.008441916499, -0.05980841433)),
            horner(r, horner(s, 6.976601077e-05, 0.001292462449, 0.004170831599, 0.02155310298),
                   horner(s, 0.001550077057, 0.01535556598, 0.06219954479, -0.2951249643),
                   horner(s, 0.01074823814, 0.01799915743, -0.3187676331, 0.221950385)),
            horner(r, horner(s, -0.0001557569013, 0.002429354597, 0.004474107445, -0.03276231906),
                   horner(s, -0.001465281033, 0.05486251648, -0.3557432599, 0.6336835991),
                   horner(s, 0.01201642863, -0.0657888334, -0.01061107488, 1.003668233)),
        )  # fmt: skip
        q = horner(
            u,
            horner(r, horner(s, -1.650964693e-06, 1.097287507e-05, 6.959756487e-05, -0.0003477407336),
                   horner(s, -6.063713228e-05, 0.0008000589141, -0.002869809258, 0.001925008108),
                   horner(s, -5.896963079e-05, 0.002902096474, -0.0236701437, 0.06469649321)),
            horner(r, horner(s, -4.12701925e-05, 0.0003934994223, 0.001096195486, -0.007258481865),
                   horner(s, -0.0007316646956, 0.01272886114, -0.06589186703, 0.1014815858),
                   horner(s, 0.000564515273, 0.01505928619, -0.1757678135, 0.5925320577)),
            horner(r, horner(s, -0.0002307248149, 0.00231480583, 0.004845219414, -0.03301322327),
                   horner(s, -0.002407477521, 0.05454656494, -0.3473456711, 0.6357567472),
                   horner(s, 0.007285809825, -0.04438342661, -0.02924021934, 1.0)),
        )  # fmt: skip
        return p / q * (x * (digamma(total) - digamma(a)) / (total - a))


@word(ulp=_UNBOUNDED)
class dirichlet_grad:
    """The derivative of x, drawn from the beta distribution of shapes a and total - a, in a; over 1 - x."""

    def float64(x, a, total):
        b, spread = total - a, total * x * (1.0 - x)
        if (x <= 0.5) & (spread < 2.5):
            return _beta_grad_first(x, a, b)
        if (x >= 0.5) & (spread < 0.75):
            return -_beta_grad_second(1.0 - x, b, a)
        if (a > 6.0) & (b > 6.0):
            return _beta_grad_large(x, a, b)
        return _beta_grad_between(x, a, total)
