"""Calls under both libraries, and how their results are compared."""

import operator
import warnings

import numpy as np
import torch

import jitgrad
from jitgrad.ops.pointwise import activation


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
    return result.numpy(force=True)


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
