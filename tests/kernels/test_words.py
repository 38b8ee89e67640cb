"""The words: accuracy over the whole range of floats, special values, vectorised machine code."""

import functools
import math
import pickle
import platform
import re

import numpy as np
import pytest

from jitgrad.kernels import words
from jitgrad.kernels.codegen.rule_text import words_text
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.words import WORDS
from jitgrad.kernels.words.vocabulary import KINDS

FLOATS = ("float32", "float64")
INF, NAN = math.inf, math.nan
# Accurate references beyond float64: 80-bit or quadruple long doubles, where the platform has them.
LONG_DOUBLE = np.finfo(np.longdouble).nmant > 60
BY_LIBM = {"erf": math.erf, "erfc": math.erfc}
BY_SCIPY = {"digamma": "digamma", "erfinv": "erfinv"}
# Those that every program has; tests/kernels/words has tests of those that few programs import.
UNARY = [n for n, w in WORDS.items() if n in words.__all__ and w.ulp and w.arity == 1]


@pytest.fixture(scope="module", autouse=True)
def fresh_cache(tmp_path_factory):
    """Kernels loaded from disk have no assembly to look at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JITGRAD_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


@functools.cache
def kernel(name, dtype):
    """The loop ``out[i] = name(x0[i], ...)``, compiled on first use."""
    arity = WORDS[name].arity
    inputs = [f"x{i}" for i in range(arity)]
    head = f"T = np.{'bool_' if dtype == 'bool' else dtype}\n{words_text([name], dtype)}"
    loop = f"out[i] = {name}({', '.join(f'{x}[i]' for x in inputs)})"
    signature = ", ".join([*inputs, "out"])
    body = f"def kernel({signature}):\n    for i in range(out.size):\n        {loop}\n"
    return compile_text("kernel", f"{head}\n{body}")


def run(name, *inputs, out=None):
    inputs = [np.ascontiguousarray(x) for x in inputs]
    result = np.empty(inputs[-1].shape, out or inputs[-1].dtype)
    kernel(name, inputs[-1].dtype.name)(*inputs, result)
    return result


@functools.cache
def everywhere(dtype):
    """Floats of every size: random bit patterns, usual ranges, and close to 0, 1 and the limits."""
    rng, n = np.random.default_rng(7), 10_000
    info, unsigned = np.finfo(dtype), np.dtype(f"u{np.dtype(dtype).itemsize}")
    bits = rng.integers(0, np.iinfo(unsigned).max, 3 * n, unsigned, endpoint=True).view(dtype)
    ranges = [rng.uniform(-s, s, n) for s in (1e-3, 1, 3, 10, 30, 100, 1000, 1e5)]
    near_one = 1 + rng.uniform(-1, 1, n) * np.exp2(-rng.uniform(0, 20, n))
    powers = np.exp2(rng.uniform(-40, 40, n)) * rng.choice([-1, 1], n)
    limits = np.array([info.tiny, info.max, info.smallest_subnormal, 0.0, 1, INF])
    parts = [*ranges, near_one, -near_one, powers, limits, -limits, [NAN]]
    return np.concatenate([bits, *(np.asarray(p, dtype) for p in parts)])


def ulps(got, want):
    """Errors in units of the last place of ``want`` rounded to the dtype; inf where NaNs differ."""
    info = np.finfo(got.dtype)
    with np.errstate(over="ignore"):
        rounded = want.astype(got.dtype)
    size = np.maximum(np.abs(want), np.longdouble(info.tiny))
    unit = np.exp2(np.floor(np.log2(size)) - info.nmant)
    error = np.abs(got.astype(want.dtype) - want) / unit
    error = np.where(np.isinf(rounded) | np.isinf(got), np.where(np.isinf(got), 1.0, INF), error)
    missed = np.isnan(got) != np.isnan(rounded)
    return np.where((got == rounded) | np.isnan(rounded), 0, error) + np.where(missed, INF, 0)


def lgamma_by_stirling(x):
    """lgamma of positive long doubles: the series 40 further on, and back by the recurrence."""
    x = x.astype(np.longdouble)
    small, logs = x < 40, np.zeros_like(x)
    for k in range(40):
        logs += np.where(small, np.log(x + k), 0)
    z = np.where(small, x + 40, x)
    series = 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5) - 1 / (1680 * z**7)
    half_log_two_pi = np.log(8 * np.arctan(np.longdouble(1))) / 2
    return (z - 0.5) * (np.log(z) - 1) - 0.5 + half_log_two_pi + series - logs


def reference(name, x):
    """(what to expect of the word at x, in the widest type there is; ulps of doubt about it)."""
    doubt = 0.01 if x.dtype == np.float32 or LONG_DOUBLE else 1
    wide = x.astype(np.longdouble)
    if name in BY_LIBM:
        values = WORDS[name].reference(x.astype(np.float64))
        return values.astype(np.longdouble), 0.01 if x.dtype == np.float32 else 1
    if name == "lgamma":
        return lgamma_by_stirling(x), 0.05 if x.dtype == np.float32 else 2 if LONG_DOUBLE else 20
    if name in BY_SCIPY:
        special = pytest.importorskip("scipy.special")
        values = getattr(special, BY_SCIPY[name])(x.astype(np.float64))
        return values.astype(np.longdouble), 0.01 if x.dtype == np.float32 else 4
    return WORDS[name].reference(wide), doubt


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name, dtype):
    x = everywhere(dtype)
    if name in BY_LIBM or name in BY_SCIPY:
        x = x[::7]  # references that are slow
    if name in ("lgamma", "digamma"):
        x = x[x >= 0]  # below 0 there are zeros between all poles: a test below
    if name == "lgamma":
        x = x[((np.abs(x - 1.5) > 0.6) | (np.abs(x - 1.5) < 0.4)) & (x < 1e30)]
    with np.errstate(all="ignore"):
        want, doubt = reference(name, x)
        error = ulps(run(name, x), want)
    worst = int(np.argmax(error))
    assert error[worst] <= WORDS[name].ulp[dtype] + doubt, (x[worst], want[worst])


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_of_lgamma(dtype):
    t = np.exp2(-np.arange(18.0, 23 if dtype == "float32" else 50))
    t = np.concatenate([t, -t])
    euler, zeta = 0.5772156649015329, (1.6449340668482264, 1.2020569031595942)
    at_one = t * (-euler + t * (zeta[0] / 2 - t * zeta[1] / 3))
    error = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(run("lgamma", (1 + t).astype(dtype)), at_one, rtol=error)
    at_two = at_one + np.log1p(t)
    np.testing.assert_allclose(run("lgamma", (2 + t).astype(dtype)), at_two, rtol=error)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_accuracy_by_reflection(name, dtype):
    special = pytest.importorskip("scipy.special")
    x = -np.random.default_rng(3).uniform(0, 20, 5000).astype(dtype)
    want = {"lgamma": special.gammaln, "digamma": special.digamma}[name](x.astype(np.float64))
    error = np.abs(run(name, x) - want) / np.maximum(1, np.abs(want))
    error = error[np.abs(x - np.rint(x)) > 0.05]  # closer to poles the reference is less exact
    assert error.max() < 40 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_near_words(name, dtype):
    near, intervals = WORDS[name].near
    low, high = intervals[dtype]
    x = everywhere(dtype)
    quarters = np.arange(0, high / 1.6, 7) * (np.pi / 2)
    x = np.concatenate([x[(low <= x) & (x <= high)], quarters.astype(dtype)])
    want = WORDS[name].reference(x.astype(np.longdouble))
    doubt = 0.01 if LONG_DOUBLE or dtype == "float32" else 1
    assert ulps(run(near, x), want).max() <= WORDS[near].ulp[dtype] + doubt


def pairs(dtype):
    """Numbers and divisors of every size, special values, and numbers a unit or less from a multiple of theirs."""
    rng, x = np.random.default_rng(8), everywhere(dtype)
    y = rng.permutation(x)
    unit = rng.uniform(-3, 3, x.size).astype(dtype)
    multiple = (unit * np.floor(np.exp2(rng.uniform(0, 49, x.size)))).astype(dtype)
    beside = np.nextafter(multiple, rng.choice([-np.inf, 0, np.inf], x.size).astype(dtype))
    special = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, NAN], dtype)
    left, right = np.meshgrid(special, special)
    return np.concatenate([x, multiple, beside, left.ravel()]), np.concatenate([y, unit, unit, right.ravel()])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_near_words_of_two_arguments(name, dtype):
    near, tests = WORDS[name].near
    x, y = pairs(dtype)
    holds = run(tests[dtype], x, y, out=np.bool_)
    finite, wide = np.isfinite(x) & np.isfinite(y), np.longdouble
    moderate = np.abs(x.astype(wide)) <= np.abs(y.astype(wide)) * 2.0**50
    np.testing.assert_array_equal(holds[finite], moderate[finite])
    got, want = run(near, x[holds], y[holds]), run(name, x[holds], y[holds])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[got == got], np.signbit(want)[want == want])


@pytest.mark.parametrize("dtype", FLOATS)
def test_circular_functions_near_their_zeros(dtype):
    """The floats closest to multiples of pi / 2 need the most digits of pi."""
    x = np.array([6381956970095103 * 2.0**797, 5.319372648326541e255, 16367173 * 2.0**72, 3.4e38])
    x = x[x < np.finfo(dtype).max]
    x = np.concatenate([x, np.arange(1, 9999) * (np.pi / 2)]).astype(dtype)
    with np.errstate(all="ignore"):
        for name in ("sin", "cos", "tan"):
            doubt = 0.01 if LONG_DOUBLE or dtype == "float32" else 1
            error = ulps(run(name, x), WORDS[name].reference(x.astype(np.longdouble)))
            assert error.max() <= WORDS[name].ulp[dtype] + doubt, name


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name, dtype):
    info = np.finfo(dtype)
    x = np.array([0, 1, 2, INF, info.tiny, info.smallest_subnormal, info.max, 0.5, 3], dtype)
    x = np.concatenate([x, -x, np.array([NAN], dtype)])
    with np.errstate(all="ignore"):
        got, want = run(name, x), np.asarray(WORDS[name](x))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    np.testing.assert_array_equal(got == 0, want == 0)
    signed = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(want)[signed])


EDGES = [0, 1, 2, 0.5, 3, INF, 1e30, 1e-30, 2.0**24, 2.0**53, 1 + 1e-7, NAN]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "rtol"),
    [("pow", 1e-6), ("atan2", 1e-6), ("hypot", 1e-6), ("copysign", 0), ("fmod", 0), ("maximum", 0),
     ("minimum", 0), ("remainder", 0), ("floor_divide", 0), ("nextafter", 0)],
)  # fmt: skip
def test_pairs_of_edges(name, rtol, dtype):
    edges = np.array([*EDGES, *(-e for e in EDGES)], dtype)
    a, b = (g.ravel() for g in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        got, want = run(name, a, b), WORDS[name].reference(a, b)
    if name == "floor_divide":  # where NumPy has NaN for -inf / 1 PyTorch divides
        a, b, got, want = (v[np.isfinite(a) & np.isfinite(b)] for v in (a, b, got, want))
    np.testing.assert_allclose(got, want, rtol=rtol)
    if name not in ("maximum", "minimum", "remainder"):  # a zero's sign is PyTorch's there
        signed = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(want)[signed])


@pytest.mark.parametrize("dtype", FLOATS)
def test_accuracy_of_pairs(dtype):
    rng, n = np.random.default_rng(1), 30_000
    largest = 140 if dtype == "float32" else 1070
    a = np.concatenate([np.exp2(rng.uniform(-100, 100, n)), 1 + rng.uniform(-0.4, 0.4, n)])
    b = rng.uniform(-largest, largest, 2 * n) / np.log2(a)
    u, v = (np.concatenate([rng.uniform(-1, 1, n), np.exp2(rng.uniform(-90, 90, n))]) for _ in "ab")
    doubt = 0.01 if LONG_DOUBLE or dtype == "float32" else 1
    for name, x, y in (("pow", a, b), ("atan2", u, v), ("hypot", u, v)):
        x, y = x.astype(dtype), y.astype(dtype)
        want = WORDS[name].reference(x.astype(np.longdouble), y.astype(np.longdouble))
        assert ulps(run(name, x, y), want).max() <= WORDS[name].ulp[dtype] + doubt, name


DIGAMMA = {0.25: -4.2274535333762655, 1.0: -0.5772156649015329, 1.5: 0.03648997397857652,
           3.75: 1.1825373886117962, 40.5: 3.6889054929332334, -0.75: -2.894120200042932}  # fmt: skip


def test_digamma_and_erfinv_without_scipy():
    x = np.array([*DIGAMMA, 0.0, -0.0, -2.0])
    want = [*DIGAMMA.values(), -INF, INF, NAN]
    np.testing.assert_allclose(run("digamma", x), want, rtol=1e-11)
    x = np.array([1e-300, 0.1, -0.5, 0.9, 0.999999, 1 - 1e-14])
    got = run("erfinv", x)
    np.testing.assert_allclose([math.erf(v) for v in got[:-1]], x[:-1], rtol=1e-14)
    np.testing.assert_allclose(math.erfc(got[-1]), 9.992007221626409e-15, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_integer_division(name, dtype):
    least = np.iinfo(dtype).min
    a, b = (g.ravel() for g in np.meshgrid([*range(-7, 8), least], [*range(-4, 5), least]))
    got = run(name, a.astype(dtype), b.astype(dtype))
    python = {
        "fmod": lambda x, y: abs(x) % abs(y) * (1 if x > 0 else -1),
        "remainder": lambda x, y: x % y,
        "floor_divide": lambda x, y: x // y,
    }[name]
    want = [python(int(x), int(y)) if y else 0 for x, y in zip(a, b, strict=True)]
    wrapped = [least if w == -least else w for w in want]
    assert got.tolist() == wrapped


def test_shifts_out_of_range():
    a = np.array([5, -5, 5, -5, 5, -5], np.int32)
    b = np.array([1, 1, 40, 40, -1, -1], np.int32)
    assert run("bitwise_left_shift", a, b).tolist() == [10, -10, 0, 0, 0, 0]
    assert run("bitwise_right_shift", a, b).tolist() == [2, -3, 0, -1, 0, -1]


def test_choice_and_sign():
    x = np.array([-2.5, -0.0, 0.0, 3.5, NAN, INF])
    assert run("sign", x).tolist() == [-1, 0, 0, 1, 0, 1]
    assert run("round", np.array([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]
    assert run("where", x > 0, x, -x)[:4].tolist() == [2.5, 0, 0, 3.5]
    assert run("isnan", x, out=bool).tolist() == [False] * 4 + [True, False]
    assert run("isfinite", x, out=bool).tolist() == [True] * 4 + [False, False]
    assert run("heaviside", x, np.full(6, 7.0)).tolist() == [0, 7, 7, 1, 0, 1]


COMPLEX = ["exp", "log", "sqrt", "sin", "cos", "tanh", "acosh", "expm1", "log1p", "atanh"]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    x = np.random.default_rng(0).normal(size=(2, 50)).view(np.complex128).ravel()
    np.testing.assert_allclose(run(name, x), WORDS[name].reference(x), rtol=1e-12)


def test_complex_numbers_that_are_real_stay_so():
    x = np.array([200, -200, 1e-20, complex(-2, -0.0)], np.complex64)
    assert run("exp", x)[:2].tolist() == [complex(INF, 0), 0]
    assert run("tanh", x).tolist()[:2] == [1, -1]
    assert run("sinh", x).tolist()[:2] == [complex(INF, 0), complex(-INF, 0)]
    assert run("log1p", x)[2] == x[2] and run("expm1", x)[2] == x[2]
    np.testing.assert_allclose(run("acosh", x)[3], 1.316957896924817 - 3.141592653589793j, 1e-6)
    assert run("pow", x * 0, x).tolist()[0] == 0 and run("pow", x, x * 0).tolist()[0] == 1


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86-64 assembly")
@pytest.mark.parametrize("dtype", FLOATS)
def test_loops_are_vectorised(dtype):
    packed = re.compile(rf"\bv?[a-z]+\d*p{'s' if dtype == 'float32' else 'd'}\b.*%[xyz]mm")
    scalar = []
    for name in UNARY + ["pow", "atan2", "maximum", "hypot"]:
        run(name, *[np.ones(4, dtype)] * WORDS[name].arity)
        (assembly,) = kernel(name, dtype).dispatcher.inspect_asm().values()
        body = assembly.split("cpython")[0]  # what follows unpacks Python's arguments
        arithmetic = [n for n in packed.findall(body) if not n.startswith(("vmov", "mov", "vxor"))]
        if not arithmetic:
            scalar.append(name)
    assert scalar == []


def test_every_word_has_texts():
    for name, word in WORDS.items():
        assert word.doc, name
        for dtype in filter(word.supports, KINDS):
            for text, uses in ((word.source, word.uses), (word.cuda_source, word.cuda_uses)):
                names = {}
                exec(compile(text(dtype), name, "exec"), names)
                assert callable(names[name]) and all(u in WORDS for u in uses(dtype))


def test_double_constants_have_no_float_literal():
    text = WORDS["_wide_exp2"].source("float32")
    assert "." not in re.sub(r"np\.\w+|\.view", "", text)
    bits = int(re.search(r"np\.int64\((\d+)\)\.view", text)[1])
    assert np.int64(bits).view(np.float64) == 6755399441055744.0


def test_a_missing_body_is_named():
    with pytest.raises(TypeError, match=r"exp: there is no body for 'int64', only for float32"):
        WORDS["exp"].source("int64")


def test_calls_go_to_the_argument_that_knows_words():
    class Value:
        def _word(self, name, args):
            return name, args

    value = Value()
    assert words.exp(value) == ("exp", (value,))
    assert words.where(True, 1.0, value) == ("where", (True, 1.0, value))
    assert words.exp(0.0) == 1 and words.log(np.float32(0)) == -INF
    assert words.erf(np.float32(0.5)).dtype == np.float32


def test_words_can_be_pickled():
    assert pickle.loads(pickle.dumps(words.exp)) is words.exp


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "digamma", "erfinv", "acos"])
def test_interpreted_bodies(name):
    """The same text, run by Python on NumPy scalars: what NUMBA_DISABLE_JIT does."""
    x = np.linspace(-0.9, 0.9, 7)
    tolerance = 4 * np.finfo(np.float64).eps
    np.testing.assert_allclose(WORDS[name].interpreted(x), run(name, x), rtol=tolerance)


@pytest.mark.parametrize(("name", "known"), [
    ("exp", True), ("normal_mass", True), ("normal_density", True), ("sqrt", False), ("where", False),
    ("bitwise_and", False),
])  # fmt: skip
def test_which_words_are_polynomials(name, known):
    assert WORDS[name].approximates is known
