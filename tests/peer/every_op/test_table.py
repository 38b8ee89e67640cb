"""Every elementwise op beside PyTorch: values of every dtype, gradients."""

import itertools

import numpy as np
import pytest

from .comparison import BINARY, OURS, THEIRS, UNARY, assert_same, assert_same_error, attempt

SPECIAL = [-np.inf, -88.5, -6, -3, -1.5, -1, -0.5, -0.3, -0.0, 0.0, 0.25, 0.5, 1, 2.5, 3, 6, 21, 89, np.inf, np.nan]
FEW = [-np.inf, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, np.inf, np.nan]


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
