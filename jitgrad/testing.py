"""For tests: comparing tensors, making them, and samples of every declared op."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import dtypes
from .ops.elementwise import ElementwiseOp
from .ops.registry import FUNCTIONS, OPS
from .tensor import Tensor

__all__ = ["assert_close", "make_tensor", "op_samples"]

_TOLERANCES = {
    "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
    check_dtype: bool = True, check_device: bool = True, check_stride: bool = False, allow_subclasses: bool = True,
    msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol |expected|`` everywhere.

    Takes tensors, numbers, and sequences and mappings of them. Default tolerances depend on the
    dtype, as in PyTorch: (1.3e-6, 1e-5) for float32, (1e-7, 1e-7) for float64, exact for integers.
    """
    if isinstance(expected, dict):
        if set(actual) != set(expected):
            raise AssertionError(f"The keys of the mappings do not match: {list(actual)} != {list(expected)}")
        pairs = [(actual[k], expected[k]) for k in expected]
    elif isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        pairs = list(zip(actual, expected, strict=True))
    else:
        _compare(actual, expected, rtol, atol, equal_nan, check_dtype, check_device, check_stride, msg)
        return
    for a, e in pairs:
        assert_close(a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype,
                     check_device=check_device, check_stride=check_stride, msg=msg)  # fmt: skip


def _compare(
    a: Any, e: Any, rtol: Any, atol: Any, nans: bool, dtype: bool, device: bool, stride: bool, msg: Any
) -> None:  # fmt: skip
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"rtol and atol must both be specified or both be unspecified, but got rtol={rtol}, atol={atol}"
        )
    if isinstance(a, Tensor) != isinstance(e, Tensor):
        raise AssertionError(f"None of the pairs could be compared: {type(a).__name__} and {type(e).__name__}")
    problem = ""
    if isinstance(a, Tensor):
        for wanted, name in ((True, "shape"), (dtype, "dtype"), (device, "device")):
            if wanted and getattr(a, name) != getattr(e, name):
                problem = f"The values for attribute '{name}' do not match: {getattr(a, name)} != {getattr(e, name)}."
        if stride and a.stride() != e.stride():
            problem = f"The values for attribute 'stride()' do not match: {a.stride()} != {e.stride()}."
    problem = problem or _difference(a, e, rtol, atol, nans)
    if problem:
        raise AssertionError(msg(problem) if callable(msg) else msg or problem)


def _values(x: Any) -> np.ndarray[Any, Any]:
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def _difference(a: Any, e: Any, rtol: Any, atol: Any, nans: bool) -> str:
    x, y = _values(a), _values(e)
    defaults = [_TOLERANCES.get(v.dtype.name, (0.0, 0.0)) for v in (x, y)]
    r = max(d[0] for d in defaults) if rtol is None else rtol
    t = max(d[1] for d in defaults) if atol is None else atol
    close = np.isclose(x, y, rtol=r, atol=t, equal_nan=nans) if r or t else (x == y) | (nans & (x != x) & (y != y))
    if np.all(close):
        return ""
    if close.ndim == 0:
        return f"Scalars are not close!\n\nExpected {y.item()} but got {x.item()}.\n"
    wrong, worst = np.argwhere(~close), np.abs(np.where(close, 0, x.astype(complex) - y))
    largest = int(np.nanargmax(worst)) if np.isfinite(worst).any() else 0
    place, first = tuple(np.unravel_index(largest, worst.shape)), tuple(wrong[0].tolist())
    return (
        f"Tensor-likes are not {'close' if r or t else 'equal'}!\n\n"
        f"Mismatched elements: {len(wrong)} / {close.size} ({100 * len(wrong) / close.size:.1f}%)\n"
        f"Greatest absolute difference: {worst[place]} at index {tuple(map(int, place))} (up to {t} allowed)\n"
        f"First mismatch at index {first}: got {x[first]}, expected {y[first]}\n"
    )


def make_tensor(
    *shape: Any, dtype: Any = dtypes.float32, device: Any = "cpu", low: float | None = None, high: float | None = None,
    requires_grad: bool = False, noncontiguous: bool = False, seed: int = 0,
) -> Tensor:  # fmt: skip
    """A tensor of uniform values in [low, high): [-9, 9) by default, [0, 10) for uint8, [0, 2) for bool."""
    size = tuple(shape[0]) if shape and isinstance(shape[0], (tuple, list)) else shape
    lowest, highest = {"bool": (0, 2), "uint8": (0, 10)}.get(dtype.name, (-9, 9))
    low, high = lowest if low is None else low, highest if high is None else high
    rng = np.random.default_rng(seed)
    full = (*size[:-1], size[-1] * 2) if noncontiguous and size else size
    values = rng.uniform(low, high, full)
    if dtype.is_complex:
        values = values + 1j * rng.uniform(low, high, full)
    values = np.floor(values) if dtype.category < 2 else values
    result = FUNCTIONS["tensor"](values.astype(dtype.numpy), device=device)
    result = result[..., ::2] if noncontiguous and size else result
    return result.requires_grad_() if requires_grad else result


Sample = tuple[Callable[..., Any], list[Any], dict[str, Any]]


def op_samples(name: str, dtype: Any = dtypes.float64) -> Iterator[Sample]:
    """Yield (function, arguments, keywords) for the declared op ``name``; tensors do not require grad."""
    op = OPS[name]
    seed = zlib.crc32(name.encode())
    if isinstance(op, ElementwiseOp):
        kinds = op.op.accepts.split()
        usable = dtype if "float" in kinds else dtypes.complex128 if "complex" in kinds else dtypes.int64
        yield op, elementwise_sample(op, usable, (2, 3), seed), {}
        return
    for args, kwargs in op.samples() if op.samples is not None else ():
        yield op.apply, list(args), dict(kwargs)


def elementwise_sample(op: Any, dtype: Any, shape: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """Random operands of an elementwise op, inside its domain."""
    domain = op.op.domain
    pairs = domain if isinstance(domain[0], tuple) else [domain] * len(op.op.inputs)
    rng = np.random.default_rng(seed)
    tensors = []
    for name, (low, high) in zip(op.op.inputs, pairs, strict=True):
        if name in op.op.conditions:
            tensors.append(FUNCTIONS["tensor"](rng.random(shape) < 0.5))
            continue
        values = rng.uniform(low, high, shape)
        values = values + 1j * rng.uniform(low, high, shape) if dtype.is_complex else values
        tensors.append(FUNCTIONS["tensor"](values.astype(dtype.numpy)))
    return tensors
