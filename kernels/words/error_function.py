"""Error functions."""

from __future__ import annotations

import math

import numpy as np

from jitgrad.kernels.words.exponential import _exp_reduced, _exp_tail, _nearest, _scaled, _two_to
from jitgrad.kernels.words.logarithm import log
from jitgrad.kernels.words.power import _high, _wide_exp2
from jitgrad.kernels.words.vocabulary import D, T, vectorized, word

__all__ = ["erf", "erfc", "erfinv"]


@word(internal=True)
class _erf_small:
    """erf(x) for abs(x) <= 0.94 (float32) or 0.75 (float64)."""

    # 2 / sqrt(pi) = 1.128379...: one x is added last, exactly.
    def float32(x):
        z = x * x
        p = 8.002774848137051e-05
        p = p * z - 0.0008050804026424885
        p = p * z + 0.0051924604922533035
        p = p * z - 0.026855740696191788
        p = p * z + 0.11283625662326813
        p = p * z - 0.3761262893676758
        p = p * z + 0.12837916612625122
        return x + x * p

    def float64(x):
        z = x * x
        p = 1.2819588595801477e-08
        p = p * z - 1.6334265176875116e-07
        p = p * z + 1.6479758505535534e-06
        p = p * z - 1.492758275099796e-05
        p = p * z + 0.00012055430995218758
        p = p * z - 0.0008548329851065278
        p = p * z + 0.0052239776732890975
        p = p * z - 0.026866170649696066
        p = p * z + 0.11283791670977039
        p = p * z - 0.3761263890318416
        p = p * z + 0.1283791670955126
        return x + x * p


@word(internal=True)
class _erfc_large:
    """erfc(a) for a >= 0.75: exp(-a * a) / (1 + 2 a) times a polynomial in (a - 3) / (a + 3)."""

    def float64(a):
        # erfc(27.3) is below the smallest denormal number.
        a = 28.0 if a > 28.0 else a
        u = (a - 3.0) / (a + 3.0)
        p = -4.788389996358801e-10
        p = p * u - 1.842984657624448e-08
        p = p * u + 3.092750210147757e-08
        p = p * u + 1.1395379024568191e-07
        p = p * u - 1.3639521716101847e-07
        p = p * u - 6.273974631007003e-07
        p = p * u + 3.5687820892460874e-07
        p = p * u + 3.4776585161931447e-06
        p = p * u - 7.326106648937997e-07
        p = p * u - 2.0102144841912117e-05
        p = p * u + 4.950008680778048e-06
        p = p * u + 0.0001250996586366228
        p = p * u - 0.00010515992298044316
        p = p * u - 0.0007798323110319259
        p = p * u + 0.0018886903753732576
        p = p * u + 0.0025293918192462314
        p = p * u - 0.02377051491979668
        p = p * u + 0.0683080273438225
        p = p * u - 0.11927366341526942
        p = p * u + 0.12964515870276447
        p = p * u - 0.047562294353451245
        p = p * u - 0.1356211061245812
        p = p * u + 1.2530080582697296
        # The square's high part is exact, so it leaves nothing for the exponential to magnify.
        high = _high(a)
        n, r = _exp_reduced(-(high * high))
        r = r - (a - high) * (a + high)
        return _scaled((1.0 + _exp_tail(r)) * (p / (1.0 + 2.0 * a)), n)


@word(vectorized(math.erf), cuda="math.erf", ulp={"float32": 2, "float64": 2})
class erf:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x."""

    def float32(x):
        a = np.abs(x)
        # erf(3.92) rounds to 1.
        a = 4.05 if a > 4.05 else a
        # The logarithm to base 2 of erfc(a)
        p = -3.078088411712088e-05
        p = p * a + 0.0006308230804279447
        p = p * a - 0.006037126760929823
        p = p * a + 0.03629129007458687
        p = p * a - 0.15629518032073975
        p = p * a - 0.9136534929275513
        p = p * a - 1.6295818090438843
        p = p * a + 0.0002595798869151622
        whole, n = _nearest(p)
        # 1 - 2**p, the power as in `exp2`.
        large = 1.0 - _two_to(n) * (1.0 + _exp_tail((p - whole) * 0.6931471805599453))
        return np.copysign(_erf_small(x) if np.abs(x) < 0.94 else large, x)

    def float64(x):
        a = np.abs(x)
        return np.copysign(_erf_small(x) if a < 0.75 else 1.0 - _erfc_large(a), x)


@word(vectorized(math.erfc), cuda="math.erfc", ulp={"float32": 1, "float64": 4})
class erfc:
    """1 - erf(x), without cancellation for large x."""

    def float32(x):
        a = np.float64(np.abs(x))
        # erfc(10.06) rounds to 0 in float32.
        a = D(11.0) if a > D(11.0) else a
        # exp(-a * a) / (a + 2) times a polynomial in (a - 2) / (a + 2)
        share = D(1.0) / (a + D(2.0))
        u = (a - D(2.0)) * share
        p = D(2.8122586005883026e-05)
        p = p * u + D(0.00011494990204193004)
        p = p * u + D(2.6719174026931852e-05)
        p = p * u - D(0.0006477819781756237)
        p = p * u - D(0.0008311413352496394)
        p = p * u + D(0.0030867849005971905)
        p = p * u + D(0.0064776019900083205)
        p = p * u - D(0.021510191565491155)
        p = p * u - D(0.03644207920615549)
        p = p * u + D(0.27947206886004883)
        p = p * u - D(0.6871606882649609)
        p = p * u + D(1.0215827054585038)
        y = _wide_exp2(a * a * D(-1.4426950408889634)) * p * share
        return np.float32(D(2.0) - y if x < 0.0 else y)

    def float64(x):
        a = np.abs(x)
        large = _erfc_large(a)
        large = 2.0 - large if x < 0.0 else large
        return 1.0 - _erf_small(x) if a < 0.75 else large


@word(ulp={"float32": 2.5, "float64": 4})
class erfinv:
    """The inverse of erf; infinite at 1 and -1, NaN beyond.

    It is x times a function of w = -log(1 - x * x), smooth in w and, for large w, in its root.
    """

    def float32(x):
        w = -log((1.0 - x) * (1.0 + x))
        # w < 6.25 is |x| < 0.999036...
        v = w - 3.125
        p = 6.368608882595494e-10
        p = p * v - 4.638529515753876e-09
        p = p * v - 2.4200783716937944e-08
        p = p * v + 4.263065349437014e-07
        p = p * v - 1.3919552419375953e-06
        p = p * v - 1.3891456263805957e-05
        p = p * v + 0.00018679966872982016
        p = p * v - 0.0007406877029795493
        p = p * v - 0.006033730059784033
        p = p * v + 0.24015817420411995
        p = p * v + 1.6536545713107977
        # Up to w = 16, the largest that a float32 x below 1 has.
        v = np.sqrt(w) - 3.35
        q = -3.99866911643044e-06
        q = q * v - 0.00025153842343043984
        q = q * v + 0.0007699361936947926
        q = q * v - 0.0012263777014369607
        q = q * v + 0.0017610987897490249
        q = q * v - 0.0028980093135936628
        q = q * v + 0.0043814482361218396
        q = q * v + 1.0062293890750922
        q = q * v + 3.184461661912461
        y = x * (p if w < 6.25 else q)
        return x * T(np.inf) if np.abs(x) == 1.0 else y

    def float64(x):
        w = -log((1.0 - x) * (1.0 + x))
        root = np.sqrt(w)
        y = _erfinv_middle(w - 3.125) if w < 6.25 else _erfinv_tail(root)
        return x * T(np.inf) if np.abs(x) == 1.0 else x * y


@word(internal=True)
class _erfinv_middle:
    """erfinv(x) / x in terms of w - 3.125."""

    def float64(v):
        p = 3.240704459379902e-21
        p = p * v - 1.113483769832702e-21
        p = p * v - 3.4996044354754177e-19
        p = p * v + 1.150022252066253e-18
        p = p * v + 1.557432024623325e-17
        p = p * v - 1.3016928016796445e-16
        p = p * v - 4.0282154327661744e-17
        p = p * v + 6.596407712420834e-15
        p = p * v - 4.001237735091896e-14
        p = p * v - 8.118399443074353e-14
        p = p * v + 2.6304834740560442e-12
        p = p * v - 1.2976885526532075e-11
        p = p * v - 5.414287198084716e-11
        p = p * v + 1.0512181539804126e-09
        p = p * v - 4.11266082002324e-09
        p = p * v - 2.9070382262927266e-08
        p = p * v + 4.234788173782339e-07
        p = p * v - 1.3654691850603575e-06
        p = p * v - 1.3882523394405316e-05
        p = p * v + 0.00018673420802464837
        p = p * v - 0.000740702534154477
        p = p * v - 0.00603367087142785
        p = p * v + 0.2401581824255883
        p = p * v + 1.6536545626831027
        return p


@word(internal=True)
class _erfinv_tail:
    """erfinv(x) / x in terms of sqrt(w), for 2.5 to 6.1."""

    def float64(root):
        v = root - 3.25
        p = -1.6186960389400844e-08
        p = p * v + 6.345761944173363e-10
        p = p * v + 1.3394104155399881e-07
        p = p * v - 2.711873164352218e-07
        p = p * v - 3.0264551535589956e-08
        p = p * v + 1.4985466653387883e-06
        p = p * v - 3.984078125688826e-06
        p = p * v + 2.9258238474109145e-06
        p = p * v + 1.2464433464582422e-05
        p = p * v - 4.7319015508354236e-05
        p = p * v + 6.82872487123234e-05
        p = p * v + 2.403126313168445e-05
        p = p * v - 0.00035503783081333804
        p = p * v + 0.0009532893630736099
        p = p * v - 0.0016882755342532236
        p = p * v + 0.002491442097018547
        p = p * v - 0.003751208508262878
        p = p * v + 0.005370914553570902
        p = p * v + 1.0052589676941657
        p = p * v + 3.0838856104922208
        v = root - 5.05
        q = 3.2171183171258164e-11
        q = q * v + 1.1306655001929147e-12
        q = q * v - 4.02116733666992e-10
        q = q * v + 1.2054594222935764e-09
        q = q * v - 2.601632938455123e-09
        q = q * v + 5.631554317606564e-09
        q = q * v - 1.1237622823230438e-08
        q = q * v + 2.193448277423705e-08
        q = q * v - 5.4914405376153374e-08
        q = q * v + 2.015763445364203e-07
        q = q * v - 9.070918301986286e-07
        q = q * v + 4.1938628393284745e-06
        q = q * v - 1.837453512210579e-05
        q = q * v + 7.124031445593254e-05
        q = q * v - 0.00020031200676020548
        q = q * v - 0.00016985809145390724
        q = q * v + 1.010285017597774
        q = q * v + 4.90042105144364
        return p if root < 4.0 else q
