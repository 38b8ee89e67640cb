"""The modified Bessel functions of orders 0 and 1, and these scaled by an exponential.

Coefficients, here and in the files of the other special functions: interpolation at Chebyshev's points with 45 digits,
the series cut where its rest is below 2e-17 of the smallest value, written as powers of a variable between -1 and 1.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels.words.basic import sqrt
from jitgrad.kernels.words.exponential import exp
from jitgrad.kernels.words.logarithm import log
from jitgrad.kernels.words.vocabulary import T, by_scipy, horner, word

__all__ = [
    "i0", "modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1",
    "special_i0e", "special_i1", "special_i1e",
]  # fmt: skip


@word(by_scipy("i0e"), ulp={"float64": 6})
class special_i0e:
    """exp(-abs(x)) times the modified Bessel function of the first kind and order 0."""

    def float64(x):
        a = np.abs(x)
        t = a * 0.25 - 1.0
        near = horner(
            t, -1.1852342482684723e-09, 4.470516727511741e-09, -7.723094556846333e-09, 2.6265363151970112e-08,
            -1.1384114641747256e-07, 3.675842926555429e-07, -1.0883393970072518e-06, 3.2293390826404927e-06,
            -9.251680584432654e-06, 2.520232727107692e-05, -6.550861389620851e-05, 0.00016240542162878106,
            -0.00038290209550065975, 0.0008563152748272306, -0.001811886793937724, 0.003617126448897043,
            -0.0067923998730731695, 0.011960077907026221, -0.01968265469059234, 0.030177912022978357,
            -0.04298594945479612, 0.05677703201991695, -0.06954119561719381, 0.07927522590716347,
            -0.08496338091616305, 0.08734341617552313, -0.08904344136075962, 0.09451562853995103,
            -0.11300432688620549, 0.2070019212239867,
        )  # fmt: skip
        t = 16.0 / a - 1.0
        far = horner(
            t, -6.067631570603006e-11, -2.0260604287413626e-11, 4.577087631643623e-10, 1.5279202694981569e-10,
            -1.618980683624682e-09, -5.715843864202709e-10, 3.6379546359011143e-09, 1.5200816953924232e-09,
            -5.95356943826489e-09, -3.505966530879332e-09, 7.430464650325426e-09, 7.552583062123384e-09,
            -5.404771567579958e-09, -1.340891754008974e-08, -6.747657956107524e-09, 7.554691881248808e-09,
            2.1548377974791598e-08, 3.932584334552952e-08, 8.872219737904054e-08, 2.9735985885673923e-07,
            1.4838475658279249e-06, 1.1143033790932038e-05, 0.0001362160743919305, 0.0033605519836678614,
            0.4021765094450081,
        )  # fmt: skip
        return near if a <= 8.0 else far / sqrt(a)


@word(by_scipy("i1e"), ulp={"float64": 6})
class special_i1e:
    """exp(-abs(x)) times the modified Bessel function of the first kind and order 1."""

    def float64(x):
        a = np.abs(x)
        t = a * 0.25 - 1.0
        near = a * (horner(
            t, -9.506861180736366e-11, 3.7284532079392345e-10, -7.277033556073836e-10, 2.603206542331157e-09,
            -1.1224475126135595e-08, 3.802984785138283e-08, -1.1993980285486188e-07, 3.759367306404118e-07,
            -1.1381566323785447e-06, 3.293899139003749e-06, -9.131775730568571e-06, 2.4233753149624307e-05,
            -6.142655719704761e-05, 0.0001484212433475852, -0.00034117472445271377, 0.0007445123445061157,
            -0.0015388749696724586, 0.0030057624197775295, -0.00553456775924123, 0.009583962150731578,
            -0.015571309256763564, 0.023686016957729535, -0.03367135551992323, 0.04467457262125467,
            -0.055280039227051464, 0.06376740371340721, -0.06848260620582547, 0.0680575999095116,
            -0.06112433802966629, 0.044687709875608835,
        ))  # fmt: skip
        t = 16.0 / a - 1.0
        far = horner(
            t, 6.305965197150057e-11, 1.8515118828852956e-11, -4.758818838703853e-10, -1.4011625179770627e-10,
            1.6848984479705146e-09, 5.295625441161261e-10, -3.794670896208339e-09, -1.4387250533041013e-09,
            6.242741219786445e-09, 3.4262341490077958e-09, -7.888351507862078e-09, -7.64239413436356e-09,
            5.974437608040264e-09, 1.4034238782067183e-08, 6.734464815301592e-09, -8.427766093735185e-09,
            -2.337392820814264e-08, -4.312917729178349e-08, -1.0001288294864884e-07, -3.483855761044295e-07,
            -1.8349101326980946e-06, -1.5038547200567216e-05, -0.00021923576383388928, -0.009749577193235737,
            0.38939845902587233,
        )  # fmt: skip
        return np.copysign(near if a <= 8.0 else far / sqrt(a), x)


@word(by_scipy("i0"), ulp={"float64": 9})
class i0:
    """The modified Bessel function of the first kind and order 0."""

    def float64(x):
        # exp(a) overflows where the result does not yet, its root does not.
        root = exp(0.5 * np.abs(x))
        return root * special_i0e(x) * root if np.abs(x) < 720.0 else np.abs(x) * T(np.inf)


@word(by_scipy("i1"), ulp={"float64": 9})
class special_i1:
    """The modified Bessel function of the first kind and order 1."""

    def float64(x):
        root = exp(0.5 * np.abs(x))
        return root * special_i1e(x) * root if np.abs(x) < 720.0 else x * T(np.inf)


@word(internal=True)
class _log_of_half:
    """log(x / 2), also where x / 2 has fewer digits than x or vanishes."""

    def float64(x):
        tiny = x < 1e-300
        return log(x * 2.0**51 if tiny else 0.5 * x) - (36.04365338911715 if tiny else 0.0)


@word(internal=True)
class _k0_near:
    """The modified Bessel function of the second kind and order 0, for 0 < x <= 2."""

    def float64(x):
        t = 0.5 * (x * x) - 1.0
        first = horner(
            t, 1.5591722255510926e-14, 2.5398791970311194e-12, 3.27324784353647e-10, 3.236227352376538e-08,
            2.3575789878938216e-06, 0.0001198206858163441, 0.0039285651056368085, 0.07358986836105334,
            0.6358617281560686, 1.5660829297563506,
        )  # fmt: skip
        rest = horner(
            t, 1.8282990225962873e-16, 3.518631515854722e-14, 5.452107588016936e-12, 6.623013272794453e-10,
            6.093361934166155e-08, 4.054506619949891e-06, 0.00018280555827901256, 0.005053392643196092,
            0.07177701034240512, 0.3404973210133806, -0.30362077291575545,
        )  # fmt: skip
        return rest - _log_of_half(x) * first


@word(internal=True)
class _k1_near:
    """The modified Bessel function of the second kind and order 1, for 0 < x <= 2."""

    def float64(x):
        t = 0.5 * (x * x) - 1.0
        first = horner(
            t, 1.4032637886429537e-13, 2.031922759238477e-11, 2.291273488938041e-09, 1.9417364085156806e-07,
            1.1787894939469932e-05, 0.00047928274326549763, 0.011785695316910426, 0.14717973672210669,
            0.6358617281560686,
        )  # fmt: skip
        rest = horner(
            t, -3.5962181014457795e-15, -6.214271617329577e-13, -8.53273511404978e-11, -9.032127501740678e-09,
            -7.081133770184678e-07, -3.891869064371633e-05, -0.0013831688466153064, -0.02785423521977184,
            -0.24383852886774365, -0.3322409552403131, 0.8850882877295894,
        )  # fmt: skip
        return rest / x + _log_of_half(x) * (x * first)


@word(internal=True)
class _k0_far:
    """The same times exp(x), for x >= 2."""

    def float64(x):
        t = 4.0 / x - 1.0
        return (horner(
            t, -6.910453875670571e-11, 1.0926983537268735e-10, 2.213758097591008e-10, -3.119936129682105e-10,
            -5.541051446065683e-10, 8.133913205464114e-10, 1.7887095838476482e-10, 4.757544705776374e-11,
            -1.9309444875845705e-09, 3.808399859919043e-09, -7.286380907337665e-09, 1.7047535884249698e-08,
            -4.133923052104385e-08, 1.02954317593912e-07, -2.6890662472901614e-07, 7.427801232190096e-07,
            -2.191177788015528e-06, 7.002245645755651e-06, -2.4735204561466906e-05, 9.95605474202942e-05,
            -0.0004797690567662314, 0.0030328918102753206, -0.03107146182488952, 1.2185953385133905,
        )) / sqrt(x)  # fmt: skip


@word(internal=True)
class _k1_far:
    """The same times exp(x), for x >= 2."""

    def float64(x):
        t = 4.0 / x - 1.0
        return (horner(
            t, 7.52479548635394e-11, -1.1931668393112158e-10, -2.399376595899464e-10, 3.3867804167808003e-10,
            6.042482293782838e-10, -8.908596710923906e-10, -1.7982138496175016e-10, -8.336227195991456e-11,
            2.1757782025837176e-09, -4.331939985658629e-09, 8.40938756536177e-09, -1.9817577141591116e-08,
            4.8461952200091865e-08, -1.2203186351938403e-07, 3.2298119177151824e-07, -9.067087633371393e-07,
            2.730041433569803e-06, -8.961207387750025e-06, 3.284386555825453e-05, -0.00013959021956272223,
            0.0007357241549081501, -0.005566729880074588, 0.10334973775386523, 1.363151890371342,
        )) / sqrt(x)  # fmt: skip


@word(internal=True)
class _at_zero:
    """y, a function of x; infinite where x is 0 and NaN below it."""

    def float64(x, y):
        y = T(np.inf) if x == 0.0 else y
        return T(np.nan) if x < 0.0 else y


@word(by_scipy("k0"), ulp={"float64": 12})
class modified_bessel_k0:
    """The modified Bessel function of the second kind and order 0; infinite at 0, NaN below."""

    def float64(x):
        far = _k0_far(x) * exp(-x)
        return _at_zero(x, _k0_near(x) if x <= 2.0 else far)


@word(by_scipy("k1"), ulp={"float64": 12})
class modified_bessel_k1:
    """The modified Bessel function of the second kind and order 1; infinite at 0, NaN below."""

    def float64(x):
        far = _k1_far(x) * exp(-x)
        return _at_zero(x, _k1_near(x) if x <= 2.0 else far)


@word(by_scipy("k0e"), ulp={"float64": 12})
class scaled_modified_bessel_k0:
    """exp(x) times the modified Bessel function of the second kind and order 0."""

    def float64(x):
        near = _k0_near(x) * exp(x)
        return _at_zero(x, near if x <= 2.0 else _k0_far(x))


@word(by_scipy("k1e"), ulp={"float64": 12})
class scaled_modified_bessel_k1:
    """exp(x) times the modified Bessel function of the second kind and order 1."""

    def float64(x):
        near = _k1_near(x) * exp(x)
        return _at_zero(x, near if x <= 2.0 else _k1_far(x))
