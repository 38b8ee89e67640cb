"""Every elementwise op against PyTorch: values, dtypes, gradients, special points, names, errors."""

import itertools
import operator
import warnings

import numpy as np
import pytest
import torch

import jitgrad
from jitgrad.ops.pointwise import activation

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128")
SPECIAL = [-np.inf, -88.5, -6, -3, -1.5, -1, -0.5, -0.3, -0.0, 0.0, 0.25, 0.5, 1, 2.5, 3, 6, 21, 89, np.inf, np.nan]
FEW = [-np.inf, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, np.inf, np.nan]


class Library:
    """One of the two libraries: ``t`` its functions, ``f`` its nn.functional."""

    def __init__(self, t, f):
        self.t, self.f = t, f

    def tensor(self, values, dtype, requires_grad=False):
        made = self.t.tensor(np.asarray(values).tolist(), dtype=getattr(self.t, dtype))
        return made.requires_grad_() if requires_grad else made


OURS, THEIRS = Library(jitgrad, activation), Library(torch, torch.nn.functional)


def function(name):
    return lambda lib, *args: getattr(lib.t, name)(*args)


def functional(name, *numbers):
    return lambda lib, x: getattr(lib.f, name)(x, *numbers)


UNARY = {
    name: function(name)
    for name in (
        "abs", "neg", "sign", "sgn", "positive", "reciprocal", "sqrt", "rsqrt", "square", "exp", "exp2", "expm1",
        "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "sigmoid", "erf", "erfc", "erfinv", "lgamma", "digamma", "floor", "ceil", "trunc",
        "round", "frac",
        "sinc",
        "logical_not", "bitwise_not", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "deg2rad",
        "rad2deg", "logit", "angle", "real", "imag", "conj", "relu", "selu", "celu", "nan_to_num",
    )
}  # fmt: skip
UNARY |= {
    name: functional(name)
    for name in (
        "leaky_relu", "elu", "gelu", "silu", "mish", "softplus", "softsign", "hardtanh", "relu6", "hardsigmoid",
        "hardswish", "logsigmoid", "tanhshrink", "softshrink", "hardshrink",
    )
}  # fmt: skip
UNARY |= {
    "threshold": functional("threshold", 0.5, 20),
    **{f"polygamma {n}": lambda lib, x, n=n: lib.t.polygamma(n, x) for n in (1, 2, 3)},
    "elu alpha": functional("elu", 0.7),
    "celu alpha": functional("celu", 2),
    "leaky_relu slope": functional("leaky_relu", 0.2),
    "softplus beta": functional("softplus", 2, 5),
    "gelu tanh": lambda lib, x: lib.f.gelu(x, approximate="tanh"),
    "hardtanh bounds": functional("hardtanh", -0.5, 2),
    "logit eps": lambda lib, x: lib.t.logit(x, 0.25),
    "round decimals": lambda lib, x: lib.t.round(x, decimals=1),
    "nan_to_num numbers": lambda lib, x: lib.t.nan_to_num(x, 1.0, 2.0, 3.0),
    "clamp": lambda lib, x: lib.t.clamp(x, -1, 2),
    "clamp min": lambda lib, x: lib.t.clamp(x, min=-1),
    "clamp max": lambda lib, x: lib.t.clamp(x, max=1),
    "clamp_min": lambda lib, x: lib.t.clamp_min(x, -1),
    "clamp_max": lambda lib, x: lib.t.clamp_max(x, 1),
    **{f"pow {p}": lambda lib, x, p=p: x**p for p in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5, 0.0, 2.0, -1.0)},
    "2 ** x": lambda lib, x: 2**x,
    "0.5 ** x": lambda lib, x: 0.5**x,
    "0 ** x": lambda lib, x: 0.0**x,
    "2 - x": lambda lib, x: 2 - x,
    "x - 2": lambda lib, x: x - 2,
    "x + 1.5": lambda lib, x: x + 1.5,
    "2 / x": lambda lib, x: 2 / x,
    "x / 2": lambda lib, x: x / 2,
    "3 * x": lambda lib, x: 3 * x,
    "x % 2": lambda lib, x: x % 2,
    "x % -1.5": lambda lib, x: x % -1.5,
    "fmod 2": lambda lib, x: lib.t.fmod(x, 2),
    "x // 2": lambda lib, x: x // 2,
    "div floor": lambda lib, x: lib.t.div(x, 1.5, rounding_mode="floor"),
    "div trunc": lambda lib, x: lib.t.div(x, 1.5, rounding_mode="trunc"),
    "xlogy x 2": lambda lib, x: lib.t.xlogy(x, 2),
    "xlogy 2 x": lambda lib, x: lib.t.xlogy(2, x),
    "copysign x -1": lambda lib, x: lib.t.copysign(x, -1),
    "x & 6": lambda lib, x: x & 6,
    "1 | x": lambda lib, x: 1 | x,
    "x ^ 3": lambda lib, x: x ^ 3,
    "x << 2": lambda lib, x: x << 2,
    "x >> 1": lambda lib, x: x >> 1,
    "~x": lambda lib, x: ~x,
    **{f"x {n} 1": lambda lib, x, n=n: getattr(operator, n)(x, 1) for n in ("eq", "ne", "lt", "le", "gt", "ge")},
}
BINARY = {
    name: function(name)
    for name in (
        "add", "sub", "mul", "div", "pow", "remainder", "fmod", "floor_divide", "atan2", "hypot", "copysign", "xlogy",
        "logaddexp", "logaddexp2", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge",
        "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
        "bitwise_right_shift", "rsub", "clamp_min", "clamp_max", "clamp",
    )
}  # fmt: skip
BINARY |= {
    "add alpha": lambda lib, x, y: lib.t.add(x, y, alpha=3),
    "sub alpha": lambda lib, x, y: lib.t.sub(x, y, alpha=3),
    "rsub alpha": lambda lib, x, y: lib.t.rsub(x, y, alpha=3),
    "clamp high": lambda lib, x, y: lib.t.clamp(x, max=y),
    "clamp both": lambda lib, x, y: lib.t.clamp(x, y, y + 1),
    "div floor": lambda lib, x, y: lib.t.div(x, y, rounding_mode="floor"),
    "div trunc": lambda lib, x, y: lib.t.div(x, y, rounding_mode="trunc"),
    "where": lambda lib, x, y: lib.t.where(x > 0.5, x, y),
    "where number": lambda lib, x, y: lib.t.where(y > 0.5, x, 2),
    "lerp": lambda lib, x, y: lib.t.lerp(x, y, 0.3),
    "lerp weight": lambda lib, x, y: lib.t.lerp(x, y, y),
    "addcmul": lambda lib, x, y: lib.t.addcmul(x, x, y, value=2),
    "addcdiv": lambda lib, x, y: lib.t.addcdiv(x, y, x, value=2),
    "isclose": lambda lib, x, y: lib.t.isclose(x, y, 0.5),
    "polar": function("polar"),
    "complex": function("complex"),
}


def attempt(call, *args):
    """The result, or what was raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*args)
    except Exception as error:
        return error


def array(result):
    return result.numpy(force=True) if isinstance(result, torch.Tensor) else result.detach().numpy()


def assert_same_error(ours, theirs):
    assert isinstance(ours, Exception), f"PyTorch raises {theirs!r}"
    assert type(ours) is type(theirs), (ours, theirs)
    if "invalid combination" not in str(theirs) and "trigamma" not in str(theirs):
        assert str(ours) == str(theirs)


def assert_same(ours, theirs, rtol, what):
    if isinstance(theirs, Exception):
        assert_same_error(ours, theirs)
        return
    assert not isinstance(ours, Exception), ours
    assert str(ours.dtype) == str(theirs.dtype), what
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(array(ours), array(theirs), rtol=rtol, atol=rtol / 10, err_msg=what)


def at_pole(x):
    return np.isinf(x) or (x < 0 and int(x) == x)


# PyTorch's own errors: its float32 gelu is rough and makes NaN of infinity; its derivative of acosh
# below -1, where the value is NaN, is a number; 1 / 6 is a float32 in its hardsigmoid.
ROUGH = {("gelu", "float32"): 3e-3, ("hardsigmoid", "float64"): 1e-7}
ROUGH |= {("polygamma 1", "float64"): 1e-8, ("digamma", "float64"): 1e-8}
EXCLUDED = {
    ("gelu", "float32"): np.isinf,
    **{(n, d): lambda x: x == np.inf for n in ("polygamma 2", "polygamma 3") for d in ("float32", "float64")},
    # At poles PyTorch's trigamma has large numbers, and digamma's derivative with it.
    **{(n, d): at_pole for n in ("polygamma 1", "digamma") for d in ("int64", "float32", "float64")},
    ("logit", "float32"): lambda x: x == 0 and np.signbit(x),
    **{("acosh", d): lambda x: x <= -1 for d in ("float32", "float64")},
}


def allowed(name, dtype, values):
    """``values`` without those where PyTorch is wrong."""
    excluded = EXCLUDED.get((name, dtype))
    return [v for v in values if not excluded(v)] if excluded else values


def tolerance(name, dtype):
    if (name, dtype) in ROUGH:
        return ROUGH[name, dtype]
    return 2e-5 if dtype in ("float32", "complex64", "bool", "uint8", "int32", "int64") else 1e-12


def whole(values):
    return [int(v) for v in values if np.isfinite(v)]


def samples(dtype, values):
    if dtype == "bool":
        return [False, True]
    if dtype == "uint8":
        return [0, 1, 2, 7, 255]
    if "int" in dtype:
        return sorted(set(whole(values)))
    if "complex" in dtype:
        return [0.5 + 0.25j, -1.5 + 2j, 0.3 - 0.7j, -0.2 - 0.1j, 1j, -2, 3, 0]
    return values


def pairs(dtype, other=None):
    rows = list(itertools.product(samples(dtype, FEW), samples(other or dtype, FEW)))
    return [x for x, _ in rows], [y for _, y in rows]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ("bool", "uint8", "int64", "float32", "float64", "complex64"))
def test_unary_values(name, dtype):
    values = allowed(name, dtype, samples(dtype, SPECIAL))
    if name == "0 ** x" and "complex" in dtype:
        values = [2.0, 1.0]
    ours, theirs = (attempt(UNARY[name], lib, lib.tensor(values, dtype)) for lib in (OURS, THEIRS))
    assert_same(ours, theirs, tolerance(name, dtype), f"{name} of {values}")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ("bool", "uint8", "int64", "float32", "float64", "complex64"))
def test_binary_values(name, dtype):
    x, y = pairs(dtype)
    if dtype in ("uint8", "int64") and name in ("remainder", "fmod", "floor_divide", "div floor", "div trunc"):
        x, y = zip(*[(a, b) for a, b in zip(x, y, strict=True) if b != 0], strict=True)
    if name == "pow" and dtype == "int64":
        both = zip(x, y, strict=True)
        x, y = zip(*[(a, b) for a, b in both if ((a, b) != (0, -2) and a != 0) or b >= 0], strict=True)
    if "shift" in name:
        y = [abs(v) for v in y]
    if name in ("pow", "addcdiv", "div") and "complex" in dtype:  # zeros: as the C++ library happens to
        x, y = zip(*[(a, b) for a, b in zip(x, y, strict=True) if a != 0 and b != 0], strict=True)
    results = [attempt(BINARY[name], lib, lib.tensor(x, dtype), lib.tensor(y, dtype)) for lib in (OURS, THEIRS)]
    assert_same(*results, tolerance(name, dtype), f"{name} of {x}, {y}")


def gradients(lib, call, *arrays, dtype):
    """(grad_fn's name, gradients) of ``call``, or what was raised."""
    inputs = [lib.tensor(a, dtype, requires_grad=True) for a in arrays]
    out = call(lib, *inputs)
    if not out.requires_grad:
        return None, []
    weights = np.linspace(0.5, 2, out.numel()).astype(np.float32 if "32" in dtype or "64" in dtype else float)
    if "complex" in str(out.dtype):
        weights = weights * (1 - 0.5j)
    seed = lib.tensor(weights, str(out.dtype).removeprefix("torch."))
    name = type(out.grad_fn).__name__
    grads = attempt(lambda: lib.t.autograd.grad(out, inputs, seed, allow_unused=True))
    return name, grads


def assert_same_gradients(call, *arrays, dtype, rtol):
    ours, theirs = (attempt(lambda lib=lib: gradients(lib, call, *arrays, dtype=dtype)) for lib in (OURS, THEIRS))
    if isinstance(theirs, Exception):
        return  # test_*_values compares errors
    assert not isinstance(ours, Exception), ours
    assert ours[0] == theirs[0]
    if isinstance(theirs[1], Exception):
        assert_same_error(ours[1], theirs[1])
        return
    for mine, other in zip(ours[1], theirs[1], strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            assert_same(mine, other, rtol, f"at {arrays}")


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ("float32", "float64", "complex128"))
def test_unary_gradients(name, dtype):
    values = allowed(name, dtype, samples(dtype, SPECIAL))
    rtol = max(1e-4 if dtype == "float32" else 1e-10, ROUGH.get((name, dtype), 0))
    assert_same_gradients(UNARY[name], values, dtype=dtype, rtol=rtol)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", ("float64", "complex128"))
def test_binary_gradients(name, dtype):
    x, y = pairs(dtype)
    if name == "polar" and dtype == "float64":  # PyTorch's is for positive sizes only
        x, y = zip(*[(a, b) for a, b in zip(x, y, strict=True) if np.isfinite(a) and a > 0], strict=True)
    assert_same_gradients(BINARY[name], x, y, dtype=dtype, rtol=1e-10)


# -- promotion ------------------------------------------------------------------------------------

OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "==": operator.eq, "<": operator.lt, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
}  # fmt: skip
OPERANDS = [*DTYPES, *(f"0-d {d}" for d in DTYPES), True, 2, 2.5, 1 + 2j]


def operand(lib, kind, shape=(0,)):
    """A tensor of ones, empty unless it has no dimensions; numbers as they are."""
    if not isinstance(kind, str):
        return kind
    dtype = getattr(lib.t, kind.removeprefix("0-d "))
    return lib.t.tensor(1, dtype=dtype) if "0-d" in kind else lib.t.ones(*shape, dtype=dtype)


@pytest.mark.parametrize("symbol", OPERATORS)
def test_promotion(symbol):
    """Result dtypes and errors of all pairs; on empty tensors, for which nothing is compiled."""
    apply = OPERATORS[symbol]
    for dtype, other in itertools.product(DTYPES, OPERANDS):
        for kinds in ((dtype, other), (other, dtype)):
            results = [attempt(lambda lib=lib, k=kinds: apply(*(operand(lib, o) for o in k))) for lib in (OURS, THEIRS)]
            assert_same(*results, 1e-5, f"{kinds[0]} {symbol} {kinds[1]}")


@pytest.mark.parametrize("symbol", ("+", "-", "*", "/", "//", "%", "**", "&", "<<"))
def test_promotion_in_place(symbol):
    apply = getattr(operator, "i" + OPERATORS[symbol].__name__.strip("_"))
    for dtype, other in itertools.product(DTYPES, OPERANDS):
        results = [attempt(lambda lib=lib: apply(operand(lib, dtype), operand(lib, other))) for lib in (OURS, THEIRS)]
        assert_same(*results, 1e-5, f"{dtype} {symbol}= {other}")


@pytest.mark.parametrize("kinds", [("int64", "0-d float64"), ("0-d int32", "0-d uint8"), ("float32", "complex128"),
                                   ("bool", 2), ("uint8", 2.5), ("0-d float32", 1 + 2j), ("bool", "bool")],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("symbol", ("+", "*", "/", "=="))
def test_promoted_values(symbol, kinds):
    apply = OPERATORS[symbol]
    results = [attempt(lambda lib=lib: apply(*(operand(lib, o, (3,)) for o in kinds))) for lib in (OURS, THEIRS)]
    assert_same(*results, 1e-5, f"{kinds[0]} {symbol} {kinds[1]}")


# -- errors and special calls ---------------------------------------------------------------------

EXPRESSIONS = """\
f + 'a'
f == 'a'
f < 'a'
f + None
f + [1, 2]
t.add(f, 'a')
t.exp('a')
t.exp(1.0)
t.maximum(f, 1)
t.logical_and(f, 1)
t.atan2(f, 1)
t.add(i, i, alpha=2.5)
i // 0
i % 0
i // t.tensor([0])
i % t.tensor([0])
t.fmod(i, 0)
t.div(i, 0, rounding_mode='trunc')
i / 0
i ** -1
i ** t.tensor([-1])
2 ** t.tensor([-1])
i ** -1.0
i.pow_(0.5)
i.add_(1.5)
i.div_(2)
i.add_(f)
b.add_(1)
u + 300
u + (-1)
u * 1.5
t.clamp(f)
t.clamp(f, 2, 1)
t.clamp(f, t.tensor([2.0]), t.tensor([1.0]))
t.clamp(i, 0.5)
t.clamp(b, 0, 1)
t.where(f, f, f)
t.where(b, f, i)
t.where(b, 1, 2.0)
t.where(b, 1, 2)
t.where(b, f, 1)
t.where(b, f, t.tensor(1.0, dtype=t.float64))
t.where(b, f, 1j)
t.where(u, f, f)
f.where(b, 3)
t.div(f, f, rounding_mode='foo')
f > 1j
t.lerp(f, i, 2)
t.addcdiv(i, i, i)
t.addcmul(f, i, i)
t.isclose(f, i)
t.isclose(f, f + 1e-9)
t.allclose(f, f)
~f
-b
+b
f & 1
1 << i
t.ones(2, 3) + t.ones(4)
t.ones(3).add_(t.ones(2, 3))
t.ones(3).expand(2, 3).add_(1)
t.ones(3, requires_grad=True).add_(1)
f.__rsub__(1)
divmod(f, f)
abs(f)
2 - b
b - 2
f.lt_(2)
f.logical_and_(f)
f.eq_(1.5)
i.bitwise_and_(3)
f.true_divide(2)
t.complex(i, i)
t.imag(f)
t.round(i, decimals=1)
t.round(f, decimals=-1)
b.exp_()
i.exp_()
F.softshrink(f, -1)
F.gelu(f, approximate='a')
F.hardtanh(f, 2, 1)
F.celu(f, 0)
F.relu(f, inplace=True)
F.elu(f, 2, True)
t.relu_(f)
f.relu_()
t.multiply(f, 2)
t.absolute(f)
t.negative(f)
t.greater_equal(f, 1)
t.arctan2(f, f)
t.fix(f)
t.square(b)
t.float_power(i, 2)
hash(f) == id(f)
f.ne(f).sum()
t.add(f, f, out=t.empty(1))
t.sigmoid(f, out=t.empty(1))
t.pow(f, 2, out=t.empty(1))
t.clamp(f, 0, 1, out=t.empty(1))
t.sub(f, 1, alpha=2)
t.rsub(f, 1, alpha=2)
""".splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression):
    results = []
    for lib in (OURS, THEIRS):
        t = lib.t
        names = {"t": t, "F": lib.f, "f": t.tensor([1.5]), "i": t.tensor([4]), "b": t.tensor([True])}
        names["u"] = t.tensor([200], dtype=t.uint8)
        results.append(attempt(lambda names=names: eval(expression, names)))
    ours, theirs = results
    if isinstance(theirs, (torch.Tensor, Exception)):
        assert_same(ours, theirs, 1e-6, expression)
    else:
        assert ours == theirs
