"""Special functions against SciPy over their ranges, against values of 60 digits where SciPy errs, and at limits."""

import numpy as np
import pytest

import jitgrad as torch

INF, NAN, LEAST = np.inf, np.nan, 5e-324


def function(name):
    return getattr(torch.special, name, None) or getattr(torch, name)


def ours(name, *inputs):
    return function(name)(*(torch.tensor(np.asarray(x)) for x in inputs)).numpy()


# By mpmath. Arguments next to zeros, to the borders of intervals, and to where results overflow or vanish.
VALUES = {
    "bessel_j0": (
        (2.404825557695773, -6.10876525973673e-17), (5.520078110286311, -2.7522649432621832e-17),
        (7.9999, 0.17167427006059147), (8.0001, 0.1716273427913037), (1e5, -0.0017192011162359723),
    ),
    "bessel_j1": (
        (1e-300, 5e-301), (3.8317059702075125, -6.149807356994906e-17), (7.015586669815619, 2.825339409478929e-17),
        (8.5, 0.2731219636740537), (12345.678, -0.007180894964739374),
    ),
    "bessel_y0": (
        (1e-300, -439.8351636227653), (0.3, -0.8072735778045195), (7.9999, 0.22350568212501876),
        (8.0001, 0.2235372942173232), (1e5, 0.001846766158865064),
    ),
    "bessel_y1": (
        (1e-300, -6.366197723675813e299), (0.3, -2.2931051383885293), (7.9999, -0.15808478901001163),
        (8.0001, -0.1580361332006745), (1e5, 0.0017192103500882562),
    ),
    "airy_ai": (
        (-20.5, -0.04462568039701191), (-5.0001, 0.350728280973448), (-4.9999, 0.3507937195367303),
        (-1.0001, 0.5355618966711684), (-0.9999, 0.535559864557927), (1.4999, 0.07175923574752326),
        (1.5001, 0.07173975934493002), (9.0, 2.47116843087249e-09),
    ),
    "i0": ((7.9999, 427.5241302959667), (8.0001, 427.60410492344266), (713.0, 6.705128263670996e307)),
    "i1": ((1e-9, 5e-10), (-7.9999, -399.8353805797589), (8.0001, 399.91089657459787), (713.0, 6.700424559186402e307)),
    "modified_bessel_k0": (
        (LEAST, 744.5560034370396), (1.9999, 0.11390786025689362), (2.0001, 0.11387988708044136),
        (700.0, 4.669776431685377e-306),
    ),
    "modified_bessel_k1": (
        (1e-300, 9.999999999999999e299), (1.9999, 0.13988426583169103), (2.0001, 0.1398475004688114),
        (700.0, 4.6731107967079664e-306),
    ),
    "scaled_modified_bessel_k0": ((0.7, 1.3301236562420558), (5000.0, 0.017724095445432315)),
    "scaled_modified_bessel_k1": ((0.7, 2.1150113128480523), (5000.0, 0.017725867766374102)),
    "erfcx": (
        (-26.5, 1.924553162418569e305), (-0.7, 2.7387021025613167), (0.001, 0.9988726200811514),
        (3.0, 0.17900115118138996), (1e8, 5.641895835477562e-09),
    ),
    "ndtr": (
        (-38.0, 2.88542835e-316), (-37.123, 5.978884495233919e-302), (-5.0, 2.866515718791939e-07),
        (-0.3, 0.3820885778110474), (0.3, 0.6179114221889527), (8.0, 0.9999999999999993),
    ),
    "log_ndtr": (
        (-1000.0, -500007.82669481216), (-38.0, -726.5572160188201), (-0.3, -0.9621028181688507),
        (0.3, -0.4814101615884812), (8.0, -6.220960574271786e-16),
    ),
    "ndtri": (
        (LEAST, -38.467405617144344), (1e-300, -37.0470962993612), (1e-9, -5.9978070150076865),
        (0.1299, -1.1268639673687268), (0.1301, -1.1259185424089588),
    ),
    "zeta": (
        (1.0000001, 0.5, 10000001.95767149), (1.5, 1e6, 0.002000000500000125), (2.0, -3.25, 19.474085068082154),
        (24.7, 201.5, 1.0945685052132144e-56), (50.0, 10.0, 1.0086304954352791e-50),
    ),
    "igamma": (
        (1e-10, 0.5, 0.9999999999440227), (0.3, 1e-200, 1.1142425085473075e-60), (10.5, 3.0, 0.0005738205283435889),
        (100.5, 80.0, 0.015026293811978519), (1e4, 9.5e3, 1.862454651795155e-07),
        (1e6, 994000.0, 9.178900262302024e-10),
    ),
    "igammac": (
        (1e-10, 0.5, 5.597735948054988e-11), (0.3, 30.0, 2.8285793848940106e-15), (10.5, 15.0, 0.09198800722379404),
        (99.5, 140.0, 0.00013414612690347845), (1e4, 1.05e4, 4.2758724550596475e-07),
    ),
}  # fmt: skip
# Relative errors where results are large, absolute ones around their zeros.
TOLERANCE = {
    "bessel_j0": (1e-14, 4e-18), "bessel_j1": (1e-14, 4e-18), "bessel_y0": (2e-15, 4e-16), "bessel_y1": (2e-15, 4e-16),
    "airy_ai": (3e-15, 1e-15), "igamma": (2e-14, 0), "igammac": (2e-14, 0), "zeta": (3e-15, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_of_many_digits(name):
    *inputs, want = np.array(VALUES[name]).T
    rtol, atol = TOLERANCE.get(name, (2e-15, 1e-323))
    np.testing.assert_allclose(ours(name, *inputs), want, rtol, atol)


# (SciPy's name, bounds of the inputs, error relative to 1 + abs(result)). Where SciPy is less exact than that there
# are values above.
RANGES = {
    "i0": ("i0", ((-30, 30),), 2e-15), "i0e": ("i0e", ((-30, 30),), 2e-15), "i1": ("i1", ((-30, 30),), 3e-15),
    "i1e": ("i1e", ((-30, 30),), 2e-15), "modified_bessel_k0": ("k0", ((0, 9),), 2e-15),
    "modified_bessel_k1": ("k1", ((0, 9),), 2e-15), "scaled_modified_bessel_k0": ("k0e", ((0, 9),), 3e-15),
    "scaled_modified_bessel_k1": ("k1e", ((0, 9),), 3e-15), "bessel_j0": ("j0", ((-50, 50),), 2e-15),
    "bessel_j1": ("j1", ((-50, 50),), 2e-15), "bessel_y0": ("y0", ((0, 50),), 4e-15),
    "bessel_y1": ("y1", ((0, 50),), 4e-15), "airy_ai": ("airy", ((-15, 8),), 2e-14),
    "erfcx": ("erfcx", ((-5, 40),), 2e-15), "ndtr": ("ndtr", ((-20, 9),), 1e-15),
    "log_ndtr": ("log_ndtr", ((-50, 9),), 4e-15), "ndtri": ("ndtri", ((0, 1),), 3e-15),
    "zeta": ("zeta", ((1, 30), (0.5, 30)), 2e-14), "igamma": ("gammainc", ((0, 40), (0, 40)), 2e-14),
    "igammac": ("gammaincc", ((0, 40), (0, 40)), 2e-14),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_agrees_with_scipy(name):
    special = pytest.importorskip("scipy.special")
    theirs, bounds, error = RANGES[name]
    rng = np.random.default_rng(3)
    inputs = [rng.uniform(low, high, 4000).astype(np.float32) for low, high in bounds]
    want = getattr(special, theirs)(*(x.astype(np.float64) for x in inputs))
    want = want[0] if theirs == "airy" else want
    got = ours(name, *(x.astype(np.float64) for x in inputs))
    assert (np.abs(got - want) / (1 + np.abs(want))).max() <= error
    # Computed in double precision, so only the result is rounded.
    narrow = ours(name, *inputs)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, want.astype(np.float32), 1.3e-7, 1e-45)


X = (NAN, INF, -INF, 0.0, -0.0, LEAST, 1e300, -1e300, -1.0)
LIMITS = {
    "i0": (NAN, NAN, NAN, 1, 1, 1, INF, INF, 1.2660658777520082),
    "i0e": (NAN, 0, 0, 1, 1, 1, 3.989422804014327e-151, 3.989422804014327e-151, 0.46575960759364043),
    "i1": (NAN, NAN, NAN, 0.0, -0.0, 0, INF, -INF, -0.5651591039924851),
    "i1e": (NAN, 0, -0.0, 0.0, -0.0, 0, 3.989422804014327e-151, -3.989422804014327e-151, -0.2079104153497085),
    "modified_bessel_k0": (NAN, 0, NAN, INF, INF, 744.5560034370396, 0, NAN, NAN),
    "modified_bessel_k1": (NAN, 0, NAN, INF, INF, INF, 0, NAN, NAN),
    "scaled_modified_bessel_k0": (NAN, 0, NAN, INF, INF, 744.5560034370396, 1.2533141373155004e-150, NAN, NAN),
    "bessel_j0": (NAN, NAN, NAN, 1, 1, 1, -7.860673062724093e-151, -7.860673062724093e-151, 0.7651976865579666),
    "bessel_j1": (NAN, NAN, NAN, 0.0, -0.0, 0, -1.3681360450342481e-151, 1.3681360450342481e-151, -0.4400505857449335),
    "bessel_y1": (NAN, NAN, NAN, -INF, -INF, -INF, None, NAN, NAN),
    "airy_ai": (NAN, 0, NAN, 0.3550280538878172, 0.3550280538878172, 0.3550280538878172, 0, NAN, 0.5355608832923521),
    "spherical_bessel_j0": (NAN, 0, 0, 1, 1, 1, None, None, 0.8414709848078965),
    "erfcx": (NAN, 0, INF, 1, 1, 1, 5.641895835477562e-301, INF, 5.00898008076228),
    "ndtr": (NAN, 1, 0, 0.5, 0.5, 0.5, 1, 0, 0.15865525393145707),
    "log_ndtr": (NAN, -0.0, -INF, *[-0.6931471805599453] * 3, -0.0, -INF, -1.8410216450092636),
    "ndtri": (NAN, NAN, NAN, -INF, -INF, -38.467405617144344, NAN, NAN, NAN),
    "entr": (NAN, -INF, -INF, 0, 0, 3.676e-321, None, -INF, -INF),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name):
    want = np.array([NAN if w is None else w for w in LIMITS[name]])
    known = np.array([w is not None for w in LIMITS[name]])
    got = ours(name, X)[known]
    np.testing.assert_allclose(got, want[known], 2e-15, LEAST)
    if name in ("i1", "i1e", "bessel_j1"):
        assert np.signbit(got[4])


def test_limits_of_two_arguments():
    s, q = np.array([(1, 2), (0.5, 2), (2, 0), (2, -3), (2.5, -0.5), (3, -0.5), (INF, 2), (2, INF), (NAN, 1)], float).T
    want = [INF, NAN, INF, INF, NAN, -8 + 8 * 1.0517997902646449, 0, 0, NAN]
    np.testing.assert_allclose(ours("zeta", s, q), want, 1e-14)
    a, x = np.array([(0, 0), (0, 1), (1, 0), (INF, INF), (INF, 1), (1, INF), (-1, 1), (1, -1), (NAN, 1)], float).T
    want = np.array([NAN, 1, 0, NAN, 0, 1, NAN, NAN, NAN])
    np.testing.assert_array_equal(ours("igamma", a, x), want)
    np.testing.assert_array_equal(ours("igammac", a, x), 1 - want)


def chebyshev(kind, x, n):
    """By the angle, or the hyperbolic one."""
    t = np.emath.arccos(x)
    return {
        "t": np.cos(n * t), "u": np.sin((n + 1) * t) / np.sin(t), "v": np.cos((n + 0.5) * t) / np.cos(t / 2),
        "w": np.sin((n + 0.5) * t) / np.sin(t / 2),
    }[kind].real  # fmt: skip


@pytest.mark.parametrize("kind", "tuvw")
def test_chebyshev_polynomials(kind):
    x, n = (g.ravel() for g in np.meshgrid([-1.7, -0.99, -0.3, 0.4, 0.9999, 1.2], [0.0, 1, 2, 5, 6, 7, 9, 20, 33]))
    want = chebyshev(kind, x, n)
    np.testing.assert_allclose(ours(f"chebyshev_polynomial_{kind}", x, n + 0.7), want, 1e-12, 1e-12)
    got = ours(f"shifted_chebyshev_polynomial_{kind}", (x + 1) / 2, n)
    np.testing.assert_allclose(got, chebyshev(kind, (x + 1) / 2 * 2 - 1, n), 1e-11, 1e-11)
    ends = {"t": (1, 1, -1), "u": (6, 5, -6), "v": (1, 9, -11), "w": (11, 1, -1)}[kind]
    got = ours(f"chebyshev_polynomial_{kind}", [1.0, -1, -1, 0.3, NAN], [5.0, 4, 5, -1, 3])
    np.testing.assert_array_equal(got, [*ends, 0, NAN])


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("hermite_polynomial_h", "hermite"), ("hermite_polynomial_he", "hermitenorm"),
     ("laguerre_polynomial_l", "laguerre"), ("legendre_polynomial_p", "legendre")],
)  # fmt: skip
def test_other_polynomials(name, theirs):
    special = pytest.importorskip("scipy.special")
    x, n = (g.ravel() for g in np.meshgrid([-1.7, -1, -0.3, 0, 0.4, 1, 2.5], [0, 1, 2, 5, 8, 13]))
    want = getattr(special, f"eval_{theirs}")(n, x)
    np.testing.assert_allclose(ours(name, x, n + 0.5), want, 1e-12, 1e-13)
    assert ours(name, [0.3, 0.3], [-1.0, 0.0]).tolist() == [0, 1]
    if name.startswith("hermite"):
        assert np.isnan(ours(name, 0.3, 513.0))


def test_divisors():
    for dtype in (np.int8, np.int64):
        a, b = (g.ravel().astype(dtype) for g in np.meshgrid(np.arange(-12, 13), [-128, -9, -1, 0, 1, 6, 35]))
        np.testing.assert_array_equal(ours("gcd", a, b), np.gcd(a, b))
        np.testing.assert_array_equal(ours("lcm", a, b), np.lcm(a, b))


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_parts_of_floats(dtype):
    info = np.finfo(dtype)
    x = np.array([0.0, -0.0, 1, -3, 0.5, info.max, info.tiny, info.smallest_subnormal, -7e-310, 1e-42], dtype)
    mantissa, exponent = torch.frexp(torch.tensor(x))
    want = np.frexp(x)
    np.testing.assert_array_equal(mantissa.numpy(), want[0])
    np.testing.assert_array_equal(np.signbit(mantissa.numpy()), np.signbit(want[0]))
    np.testing.assert_array_equal(exponent.numpy(), want[1])
    mantissa, exponent = torch.frexp(torch.tensor(np.array([INF, -INF, NAN], dtype)))
    np.testing.assert_array_equal(mantissa.numpy(), [INF, -INF, NAN])
    assert exponent.tolist() == [0, 0, 0] and exponent.dtype is torch.int32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["i0", "i1", "i1e"])
def test_halves_that_are_computed_in_double_precision(name, dtype):
    """Of elements that lie apart no vectors are made: LLVM then called a function that there is not."""
    function, x = getattr(torch.special, name), torch.linspace(-9, 9, 24, dtype=dtype).reshape(4, 6)
    found = [function(view).flatten() for view in (x.t(), x[:, ::2], x[::2].t())]
    whole = function(x)
    for part, expected in zip(found, (whole.t(), whole[:, ::2], whole[::2].t()), strict=True):
        assert torch.equal(part, expected.flatten())
    torch.testing.assert_close(whole.double(), function(x.double()), rtol=4e-3, atol=0)
