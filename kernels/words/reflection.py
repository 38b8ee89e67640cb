"""lgamma, digamma and its second derivative for x < 0, beside their zeros between the poles, in twice the digits.

The reflection formulas are differences there of numbers that are not small, of which float64 leaves nothing. Here each
number is the unevaluated sum of two, (h, l). What is at 1 + a, a = -x, comes from Stirling's series in 1 / b for
b = 1 + a + n >= 16, and from the recurrence that leads back from b.
"""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.vocabulary import word

__all__ = ["digamma_reflected", "lgamma_reflected", "polygamma2_reflected"]


@word(internal=True)
class exact_product:
    """(p, e) with x * y = p + e exactly: Veltkamp's splitting and Dekker's product."""

    def float64(x, y):
        p = x * y
        # Times 2**27 + 1 and back: the upper 26 bits, so that the products of halves below are exact.
        t = x * 134217729.0
        x_high = t - (t - x)
        x_low = x - x_high
        t = y * 134217729.0
        y_high = t - (t - y)
        y_low = y - y_high
        return p, x_low * y_low - (((p - x_high * y_high) - x_low * y_high) - x_high * y_low)


@word(internal=True)
class _wide_sum:
    """The sum of two numbers of twice the digits."""

    def float64(a, al, b, bl):
        s = a + b
        t = s - a
        e = ((a - (s - t)) + (b - t)) + (al + bl)
        h = s + e
        return h, e - (h - s)


@word(internal=True)
class _wide_product:
    """Their product."""

    def float64(a, al, b, bl):
        p, e = exact_product(a, b)
        e += a * bl + al * b
        h = p + e
        return h, e - (h - p)


@word(internal=True, rare=True)
class _wide_quotient:
    """Their quotient."""

    def float64(a, al, b, bl):
        q = a / b
        p, e = exact_product(q, b)
        r = (((a - p) - e) + (al - q * bl)) / b
        h = q + r
        return h, r - (h - q)


@word(internal=True, rare=True)
class _wide_log:
    """The logarithm of a positive number: of its exponent, and 2 artanh((m - 1) / (m + 1)) of its significand m."""

    def float64(a, al):
        m, e = math.frexp(a)
        if m < 0.7071067811865476:
            m, e = m + m, e - 1
        above, above_l = _wide_sum(m, al * (m / a), -1.0, 0.0)
        below, below_l = _wide_sum(m, al * (m / a), 1.0, 0.0)
        s, sl = _wide_quotient(above, above_l, below, below_l)
        z, zl = _wide_product(s, sl, s, sl)
        p, pl = 0.0, 0.0
        for k in range(41, 21, -2):  # small terms, of which one number's digits are enough
            p = p * z + 2.0 / np.float64(k)
        for k in range(21, -1, -2):
            p, pl = _wide_product(p, pl, z, zl)
            c, cl = _wide_quotient(2.0, 0.0, np.float64(k), 0.0)
            p, pl = _wide_sum(p, pl, c, cl)
        p, pl = _wide_product(p, pl, s, sl)
        c, cl = _wide_product(np.float64(e), 0.0, 0.6931471805599453, 2.3190468138462996e-17)
        return _wide_sum(p, pl, c, cl)


@word(internal=True, rare=True)
class _wide_sine_cosine:
    """(s, sl, c, cl), the sine and the cosine of pi r, for abs(r) <= 1 / 2, by Taylor's series."""

    def float64(r):
        t, tl = _wide_product(3.141592653589793, 1.2246467991473532e-16, r, 0.0)
        z, zl = _wide_product(t, tl, -t, -tl)
        s, sl, c, cl = 1.0, 0.0, 1.0, 0.0
        for k in range(34, 22, -2):  # small terms
            s = 1.0 + s * z / np.float64(k * (k + 1))
            c = 1.0 + c * z / np.float64(k * (k - 1))
        for k in range(22, 0, -2):
            s, sl = _wide_product(s, sl, z, zl)
            s, sl = _wide_quotient(s, sl, np.float64(k * (k + 1)), 0.0)
            s, sl = _wide_sum(s, sl, 1.0, 0.0)
            c, cl = _wide_product(c, cl, z, zl)
            c, cl = _wide_quotient(c, cl, np.float64(k * (k - 1)), 0.0)
            c, cl = _wide_sum(c, cl, 1.0, 0.0)
        s, sl = _wide_product(s, sl, t, tl)
        return s, sl, c, cl


@word(internal=True, rare=True)
class _stirling_tail:
    """The sum over n >= 1 of B_2n / (2 n) w(n) z**n, for z <= 1 / 256, with Bernoulli's numbers B.

    w(n) is 1 / (2 n - 1) for order -1 (lgamma), 1 for order 0 (digamma) and 2 n (2 n + 1) for order 2.
    """

    def float64(z, zl, order):
        above = (
            1.0, -1.0, 1.0, -1.0, 1.0, -691.0, 1.0, -3617.0, 43867.0, -174611.0, 77683.0, -236364091.0, 657931.0,
            -3392780147.0, 1723168255201.0, -7709321041217.0, 151628697551.0,
        )  # fmt: skip
        below = (
            12.0, 120.0, 252.0, 240.0, 132.0, 32760.0, 12.0, 8160.0, 14364.0, 6600.0, 276.0, 65520.0, 12.0, 3480.0,
            85932.0, 16320.0, 12.0,
        )  # fmt: skip
        p, pl = 0.0, 0.0
        for k in range(16, -1, -1):
            n = np.float64(k + 1)
            times = n * (n + n + 1.0) * 2.0 if order > 0.0 else 1.0
            over = n + n - 1.0 if order < 0.0 else 1.0
            if k > 5:  # small terms
                p = (p + above[k] * times / (below[k] * over)) * z
            else:
                c, cl = _wide_quotient(above[k] * times, 0.0, below[k] * over, 0.0)
                p, pl = _wide_sum(p, pl, c, cl)
                p, pl = _wide_product(p, pl, z, zl)
        return p, pl


@word(internal=True)
class _by_zero:
    """One of four numbers, by which zero of lgamma is next to x: -2.457, -2.748, -3.144 or -3.955."""

    def float64(x, a, b, c, d):
        return a if x > -2.6 else (b if x > -3.0 else (c if x > -3.5 else d))


@word(internal=True)
class _lgamma_by_zero:
    """(near, y): y is lgamma(x) where x is near one of the four zeros, by a polynomial in the distance t from it.

    Near means within a tenth or a fourteenth of the distance between zero and pole. The zeros are given to twice the
    digits.
    """

    def float64(x):
        zero = _by_zero(x, -2.4570247382208006, -2.7476826467274127, -3.14358088834998, -3.955294284858598)
        low = _by_zero(x, -3.707561081551327e-17, 9.055340329338315e-17, -2.181817985233171e-16, -1.999428391746348e-17)
        t = (x - zero) - low
        p = _by_zero(x, 1159.0316951427687, 1284285.7294003647, 1099935472.837411, 1324860896717001.8)
        p = p * t + _by_zero(x, 436.7225943263232, -353386.6060704413, 172257939.44032088, -64602412070024.68)
        p = p * t + _by_zero(x, 296.36892154357315, 95593.89334769564, 26853820.980984345, 3135753938388.805)
        p = p * t + _by_zero(x, 100.62085231170606, -26798.17834649482, 4284113.978005328, -155762663281.6318)
        p = p * t + _by_zero(x, 82.22923010111957, 7610.405782853942, 692049.6953450772, 7834399237.178409)
        p = p * t + _by_zero(x, 24.03885267345704, -2193.114894420487, 113559.67862416933, -400277048.89895725)
        p = p * t + _by_zero(x, 24.824942085977664, 646.9059985481224, 19023.061982060855, 20877114.723984033)
        p = p * t + _by_zero(x, 5.800414552084592, -194.76615498701517, 3277.1937851404423, -1119991.5015442467)
        p = p * t + _by_zero(x, 8.72178258382178, 62.627282713577316, 588.8907422380221, 62588.081918768265)
        p = p * t + _by_zero(x, 1.4112911430805803, -20.09513491685988, 112.2689862971792, -3730.6047156807185)
        p = p * t + _by_zero(x, 4.858320951633996, 9.575189475709665, 25.831338372387957, 251.7146825868894)
        p = p * t + _by_zero(x, 1.5156034480216571, -1.9143501856115988, 7.781884658131351, -20.725060845803707)
        near = np.abs(t) < _by_zero(x, 0.0456, 0.0252, 0.0102, 0.0031)
        return near, t * p


@word(internal=True, rare=True)
class lgamma_reflected:
    """lgamma(-a) for a > 0: log(pi q / |sin(pi a)|) - lgamma(b), with q the product from 1 + a to b - 1."""

    def float64(a):
        s, sl, _c, _cl = _wide_sine_cosine(np.abs(a - np.rint(a)))
        q, ql = _wide_quotient(3.141592653589793, 1.2246467991473532e-16, s, sl)
        b, bl = _wide_sum(1.0, 0.0, a, 0.0)
        while b < 16.0:
            q, ql = _wide_product(q, ql, b, bl)
            b, bl = _wide_sum(b, bl, 1.0, 0.0)
        q, ql = _wide_log(q, ql)
        y, yl = _wide_log(b, bl)
        y, yl = _wide_sum(y, yl, -1.0, 0.0)
        half, half_l = _wide_sum(b, bl, -0.5, 0.0)
        y, yl = _wide_product(y, yl, half, half_l)
        # (log(2 pi) - 1) / 2
        y, yl = _wide_sum(y, yl, 0.4189385332046727, 1.6728209650585413e-17)
        i, il = _wide_quotient(1.0, 0.0, b, bl)
        z, zl = _wide_product(i, il, i, il)
        p, pl = _stirling_tail(z, zl, -1.0)
        p, pl = _wide_product(p, pl, b, bl)
        y, yl = _wide_sum(y, yl, p, pl)
        y, yl = _wide_sum(q, ql, -y, -yl)
        return y


@word(internal=True, rare=True)
class digamma_reflected:
    """digamma(-a) for a > 0: pi cot(pi a) + digamma(b), less the sum of inverses from 1 + a to b - 1."""

    def float64(a):
        s, sl, c, cl = _wide_sine_cosine(a - np.rint(a))
        y, yl = _wide_quotient(c, cl, s, sl)
        y, yl = _wide_product(y, yl, 3.141592653589793, 1.2246467991473532e-16)
        b, bl = _wide_sum(1.0, 0.0, a, 0.0)
        while b < 16.0:
            i, il = _wide_quotient(-1.0, 0.0, b, bl)
            y, yl = _wide_sum(y, yl, i, il)
            b, bl = _wide_sum(b, bl, 1.0, 0.0)
        p, pl = _wide_log(b, bl)
        y, yl = _wide_sum(y, yl, p, pl)
        i, il = _wide_quotient(-1.0, 0.0, b, bl)
        y, yl = _wide_sum(y, yl, 0.5 * i, 0.5 * il)
        z, zl = _wide_product(i, il, i, il)
        p, pl = _stirling_tail(z, zl, 0.0)
        y, yl = _wide_sum(y, yl, -p, -pl)
        return y


@word(internal=True, rare=True)
class polygamma2_reflected:
    """polygamma(2, -a) for a > 0: 2 pi**3 cos(pi a) / sin(pi a)**3 + polygamma(2, b), less cubes of inverses."""

    def float64(a):
        s, sl, c, cl = _wide_sine_cosine(a - np.rint(a))
        i, il = _wide_quotient(3.141592653589793, 1.2246467991473532e-16, s, sl)
        y, yl = _wide_product(i, il, i, il)
        i, il = _wide_product(y, yl, 3.141592653589793, 1.2246467991473532e-16)
        i, il = _wide_product(i, il, c, cl)
        y, yl = _wide_quotient(i, il, s, sl)
        b, bl = _wide_sum(1.0, 0.0, a, 0.0)
        while b < 16.0:
            i, il = _wide_quotient(-1.0, 0.0, b, bl)
            z, zl = _wide_product(i, il, i, il)
            z, zl = _wide_product(z, zl, i, il)
            y, yl = _wide_sum(y, yl, z, zl)
            b, bl = _wide_sum(b, bl, 1.0, 0.0)
        i, il = _wide_quotient(1.0, 0.0, b, bl)
        z, zl = _wide_product(i, il, i, il)
        p, pl = _stirling_tail(z, zl, 2.0)
        p, pl = _wide_sum(p, pl, 1.0, 0.0)
        p, pl = _wide_sum(p, pl, i, il)
        p, pl = _wide_product(p, pl, 0.5 * z, 0.5 * zl)
        y, yl = _wide_sum(y, yl, -p, -pl)
        return y + y
