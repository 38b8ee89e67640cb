"""The inverses of the circular functions, and the polar form's two."""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.vocabulary import T, word

__all__ = ["acos", "asin", "atan", "atan2", "hypot"]


@word(internal=True)
class _asin_tail:
    """(asin(s) - s) / s for z = s * s up to 1 / 4."""

    def float32(z):
        p = 0.04216641187667847
        p = p * z + 0.02418077364563942
        p = p * z + 0.045469772070646286
        p = p * z + 0.07495306432247162
        p = p * z + 0.16666752099990845
        return p * z

    def float64(z):
        p = 0.03193453031758787
        p = p * z - 0.016256113014229676
        p = p * z + 0.019548157045718665
        p = p * z + 0.006520865392877684
        p = p * z + 0.012170816474473779
        p = p * z + 0.013884997459983896
        p = p * z + 0.017359728148410702
        p = p * z + 0.022371756552229432
        p = p * z + 0.03038195919695901
        p = p * z + 0.044642856826944306
        p = p * z + 0.07500000000338586
        p = p * z + 0.16666666666665403
        return p * z


@word(internal=True)
class _quarter_turn_low:
    """pi / 2 less its float."""

    def float32():  # type: ignore[misc]
        return T(-4.371138828673793e-08)

    def float64():  # type: ignore[misc]
        return 6.123233995736766e-17


@word(np.arcsin, cuda="math.asin", ulp={"float32": 2, "float64": 2})
class asin:
    """The inverse sine; NaN outside -1 to 1."""

    def real(x):
        size = np.abs(x)
        big = size > 0.5
        # asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2))
        z = 0.5 - 0.5 * size if big else x * x
        s = np.sqrt(z) if big else size
        tail = s * _asin_tail(z)
        over = 1.5707963267948966 - (2.0 * s + (2.0 * tail - _quarter_turn_low()))
        return np.copysign(over if big else s + tail, x)

    def complex(x):
        return np.arcsin(x)


@word(np.arccos, cuda="math.acos", ulp={"float32": 2, "float64": 2})
class acos:
    """The inverse cosine; NaN outside -1 to 1."""

    def real(x):
        size = np.abs(x)
        big = size > 0.5
        # acos(x) = 2 asin(sqrt((1 - x) / 2)) for x > 1/2, and pi less that for x < -1/2.
        z = 0.5 - 0.5 * size if big else x * x
        s = np.sqrt(z) if big else x
        tail = s * _asin_tail(z)
        middle = 1.5707963267948966 - (s + (tail - _quarter_turn_low()))
        right = 2.0 * (s + tail)
        left = 3.141592653589793 - (right - 2.0 * _quarter_turn_low())
        return (left if x < 0.0 else right) if big else middle

    def complex(x):
        return np.arccos(x)


@word(internal=True)
class _atan_fraction:
    """atan(small / large) for 0 <= small <= large."""

    def float32(small, large):
        s = small / large
        # One polynomial serves 0 to 1 in float32.
        z = s * s
        p = 0.002919422695413232
        p = p * z - 0.016363192349672318
        p = p * z + 0.04320473223924637
        p = p * z - 0.07551660388708115
        p = p * z + 0.10665769129991531
        p = p * z - 0.14211001992225647
        p = p * z + 0.19993767142295837
        p = p * z - 0.33333152532577515
        return s + s * z * p

    def float64(small, large):
        # Beyond tan(pi / 8) less pi / 4: the tangent of a difference.
        half = 0.5 if large > 1.0 else 1.0  # the sum must not overflow
        small, large = small * half, large * half
        beyond = small > large * 0.4142135623730950
        s = (small - large if beyond else small) / (small + large if beyond else large)
        z = s * s
        p = -0.017867965486757093
        p = p * z + 0.03802889219359885
        p = p * z - 0.05037907301669351
        p = p * z + 0.05847580573283653
        p = p * z - 0.06663061802166459
        p = p * z + 0.0769205651338902
        p = p * z - 0.09090897550460597
        p = p * z + 0.11111110776282658
        p = p * z - 0.14285714280053763
        p = p * z + 0.1999999999995218
        p = p * z - 0.3333333333333319
        tail = s * z * p + (3.061616997868383e-17 if beyond else 0.0)
        return (0.7853981633974483 if beyond else 0.0) + (s + tail)


@word(np.arctan, cuda="math.atan", ulp={"float32": 2, "float64": 2})
class atan:
    """The inverse tangent."""

    def real(x):
        size = np.abs(x)
        big = size > 1.0
        y = _atan_fraction(1.0 if big else size, size if big else 1.0)
        over = 1.5707963267948966 - (y - _quarter_turn_low())
        return np.copysign(over if big else y, x)

    def complex(x):
        return np.arctan(x)


@word(np.arctan2, cuda="math.atan2", ulp={"float32": 2, "float64": 2})
class atan2:
    """The angle of the point (x, y), from -pi to pi; signs of zeros count."""

    def real(y, x):
        up, right = np.abs(y), np.abs(x)
        steep = up > right
        small, large = (right, up) if steep else (up, right)
        # 0 / 0 and inf / inf, which IEEE 754 gives an angle nevertheless: that of (0, 1) and (1, 1).
        corner = (small == large) & ((small == 0.0) | (small == T(np.inf)))
        unit = 0.0 if small == 0.0 else 1.0
        angle = _atan_fraction(unit if corner else small, 1.0 if corner else large)
        angle = 1.5707963267948966 - (angle - _quarter_turn_low()) if steep else angle
        left = np.copysign(1.0, x) < 0.0
        turned = 3.141592653589793 - (angle - 2.0 * _quarter_turn_low())
        angle = turned if left else angle
        return x + y if (x != x) | (y != y) else np.copysign(angle, y)


@word(np.hypot, cuda="math.hypot", ulp={"float32": 1, "float64": 2})
class hypot:
    """The square root of a*a + b*b, without overflow on the way; infinite if either is."""

    def float32(a, b):
        wide, high = np.float64(a), np.float64(b)
        y = np.float32(np.sqrt(wide * wide + high * high))
        endless = (np.abs(a) == T(np.inf)) | (np.abs(b) == T(np.inf))
        return T(np.inf) if endless else y

    def float64(a, b):
        a, b = np.abs(a), np.abs(b)
        large = a if a > b else b
        # 2**-512 and 2**700: the squares then neither overflow nor vanish.
        scale = 1.0 if large < 1e150 else 7.458340731200207e-155
        scale = 5.260135901548374e210 if large < 1e-140 else scale
        a, b = a * scale, b * scale
        y = np.sqrt(a * a + b * b) / scale
        endless = (a == T(np.inf)) | (b == T(np.inf))
        return T(np.inf) if endless else y
