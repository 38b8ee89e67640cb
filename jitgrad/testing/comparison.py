"""assert_close: whether two tensors, numbers, or nests of them, agree; and if not, where and by how much.

Both are first taken apart into pairs of tensors or numbers, which raises for differences in structure and type.
Then the pairs are compared, and the first that differs is reported. That is PyTorch's order, so errors come in the
same order.
"""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import jitgrad
from jitgrad.core.dtypes import promote_types
from jitgrad.core.tensor import Tensor
from jitgrad.ops.reduction.any_all import isclose

__all__ = ["assert_allclose", "assert_close"]

# (rtol, atol) by dtype, PyTorch's; other dtypes must be equal. A Python number counts as the dtype it would become.
_TOLERANCES = {
    "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
_NUMBERS = {int: "int64", float: "float64", complex: "complex128"}
Path = tuple[Any, ...]


@dataclass(frozen=True)
class _Options:
    """What assert_close was asked for."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, names: Collection[str], path: Path) -> tuple[float, float]:
        """(rtol, atol): those given, or the widest default of the dtypes ``names``."""
        if (self.rtol is None) != (self.atol is None):
            missing = "rtol" if self.rtol is None else "atol"
            raise _failure(
                ValueError, f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.", path
            )
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        defaults = [_TOLERANCES.get(name, (0.0, 0.0)) for name in names]
        return max(r for r, _ in defaults), max(a for _, a in defaults)


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: str | Callable[[str], str] | None = None,
) -> None:  # fmt: skip
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol |expected|`` everywhere.

    Takes tensors, NumPy arrays, numbers, None, and sequences and mappings of them. rtol and atol: both or
    neither; by default (1.3e-6, 1e-5) for float32, (1e-7, 1e-7) for float64, the same for their complex
    dtypes, exact for others. equal_nan: NaN equals NaN. Infinities equal only themselves. Shapes must agree;
    device, dtype, layout and strides as far as ``check_*`` says. allow_subclasses: a subclass may be compared
    with its parent. msg: replaces the report, or is called with it. TypeError for types that cannot be
    compared, ValueError for one tolerance alone.
    """
    __tracebackhide__ = True
    options = _Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride
    )
    for path, compare in list(_pairs(actual, expected, options, ())):
        problem = compare()
        if problem:
            raise _failure(AssertionError, problem, path, msg) from None


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """Deprecated form of ``assert_close``, which compares values only, with wider tolerances."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use `torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning, stacklevel=2,
    )  # fmt: skip
    first = actual if isinstance(actual, Tensor) else jitgrad.tensor(actual)
    second = expected if isinstance(expected, Tensor) else jitgrad.tensor(expected, dtype=first.dtype)
    if rtol is None and atol is None:
        wide = {"float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}
        found = [wide.get(t.dtype.name, (0.0, 0.0)) for t in (first, second)]
        rtol, atol = max(r for r, _ in found), max(a for _, a in found)
    assert_close(first, second, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _failure(kind: type[Exception], text: str, path: Path, msg: Any = None) -> Exception:
    if isinstance(msg, str):
        return kind(msg)
    if path:
        text += f"\n\nThe failure occurred for item {''.join(f'[{step!r}]' for step in path)}"
    return kind(msg(text) if callable(msg) else text)


# -- what is compared with what -----------------------------------------------------------------------

Pair = tuple[Path, Callable[[], str]]


def _pairs(a: Any, e: Any, options: _Options, path: Path) -> Iterator[Pair]:
    """(path, comparison) of every pair inside; a comparison returns what is wrong as text, empty if nothing is."""
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in (a, e)):
        if len(a) != len(e):
            raise _failure(AssertionError, f"The length of the sequences mismatch: {len(a)} != {len(e)}", path)
        for k, (x, y) in enumerate(zip(a, e, strict=True)):
            yield from _pairs(x, y, options, (*path, k))
    elif isinstance(a, Mapping) and isinstance(e, Mapping):
        for key in _common_keys(a, e, path):
            yield from _pairs(a[key], e[key], options, (*path, key))
    else:
        yield path, _comparison(a, e, options, path)


def _common_keys(a: Mapping[Any, Any], e: Mapping[Any, Any], path: Path) -> Collection[Any]:
    mine, theirs = set(a), set(e)
    if mine != theirs:
        raise _failure(
            AssertionError,
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(theirs - mine)}\n"
            f"Additional keys in the actual mapping: {sorted(mine - theirs)}",
            path,
        )
    try:
        return sorted(mine)
    except TypeError:  # keys of several types have no order
        return list(a)


def _comparison(a: Any, e: Any, options: _Options, path: Path) -> Callable[[], str]:
    """How two things that are not containers are compared."""
    if a is None or e is None:
        return lambda: "" if a is e else f"None mismatch: {a} is not {e}"
    if isinstance(a, (bool, np.bool_)) and isinstance(e, (bool, np.bool_)):
        return lambda: "" if bool(a) is bool(e) else f"Booleans mismatch: {bool(a)} is not {bool(e)}"
    first, second = _python_number(a), _python_number(e)
    if first is not None and second is not None:
        rtol, atol = options.tolerances([_NUMBERS.get(type(n), "bool") for n in (first, second)], path)
        return lambda: _compare_numbers(first, second, options, rtol, atol)
    related = _related(a, e, options.allow_subclasses)
    x, y = (_as_tensor(a), _as_tensor(e)) if related else (None, None)
    if x is None or y is None:
        raise _failure(
            TypeError, f"No comparison pair was able to handle inputs of type {type(a)} and {type(e)}.", path
        )
    rtol, atol = options.tolerances([x.dtype.name, y.dtype.name], path)
    return lambda: _compare_tensors(x, y, options, rtol, atol)


def _python_number(x: Any) -> Any:
    if isinstance(x, np.number):
        return x.item()
    return x if isinstance(x, tuple(_NUMBERS)) else None


def _related(a: Any, e: Any, subclasses: bool) -> bool:
    if not subclasses and type(a) is not type(e):
        return False
    return isinstance(a, type(e)) or isinstance(e, type(a))


def _as_tensor(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x
    try:
        return jitgrad.as_tensor(x)
    except Exception:  # as_tensor may run a user's code (__array__, __getitem__), which may raise anything
        return None


# -- numbers ------------------------------------------------------------------------------------------


def _compare_numbers(a: Any, e: Any, options: _Options, rtol: float, atol: float) -> str:
    if options.check_dtype and type(a) is not type(e):
        return f"The (d)types do not match: {type(a)} != {type(e)}."
    if a == e or (options.equal_nan and cmath.isnan(a) and cmath.isnan(e)):
        return ""
    difference = abs(a - e)
    if cmath.isfinite(difference) and difference <= atol + rtol * abs(e):
        return ""
    return _scalar_report(a, e, rtol, atol)


def _scalar_report(a: Any, e: Any, rtol: float, atol: float) -> str:
    absolute = abs(a - e)
    relative = float("inf") if e == 0 else absolute / abs(e)
    return (
        f"Scalars are not {_sameness(rtol, atol)}!\n\nExpected {e} but got {a}.\n"
        f"Absolute difference: {absolute}{_allowed(atol, rtol, atol)}\n"
        f"Relative difference: {relative}{_allowed(rtol, rtol, atol)}"
    )


def _sameness(rtol: float, atol: float) -> str:
    return "equal" if rtol == 0 and atol == 0 else "close"


def _allowed(tolerance: float, rtol: float, atol: float) -> str:
    return "" if rtol == 0 and atol == 0 else f" (up to {tolerance} allowed)"


# -- tensors ------------------------------------------------------------------------------------------


def _compare_tensors(a: Tensor, e: Tensor, options: _Options, rtol: float, atol: float) -> str:
    attributes = [("shape", True), ("layout", options.check_layout), ("stride()", options.check_stride),
                  ("device", options.check_device), ("dtype", options.check_dtype)]  # fmt: skip
    for name, wanted in attributes:
        mine, theirs = (t.stride() if name == "stride()" else getattr(t, name) for t in (a, e))
        if wanted and mine != theirs:
            return f"The values for attribute '{name}' do not match: {mine} != {theirs}."
    a, e = a.detach(), e.detach()
    if a.device != e.device:
        a, e = a.cpu(), e.cpu()
    if a.dtype != e.dtype:
        dtype = promote_types(a.dtype, e.dtype)
        a, e = a.to(dtype), e.to(dtype)
    close = isclose(a, e, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if bool(close.all()):
        return ""
    return _tensor_report(a, e, close, rtol, atol) if a.ndim else _scalar_report(a.item(), e.item(), rtol, atol)


def _tensor_report(a: Tensor, e: Tensor, close: Tensor, rtol: float, atol: float) -> str:
    count, wrong = close.numel(), close.numel() - int(close.sum())
    if a.dtype.category < 2:  # int64, in which differences of small integers do not wrap; bool has none
        a, e = a.long(), e.long()
    absolute = _where_wrong((a - e).abs().flatten(), close)
    relative = _where_wrong(absolute / e.abs().flatten(), close)
    lines = [
        f"Tensor-likes are not {_sameness(rtol, atol)}!\n",
        f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})",
    ]
    for name, differences, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        largest, place = differences.max(0)
        index = tuple(int(k) for k in np.unravel_index(int(place), close.shape))
        lines.append(
            f"Greatest {name} difference: {largest.item()} at index {index}{_allowed(tolerance, rtol, atol)}"
        )
    return "\n".join(lines)


def _where_wrong(differences: Tensor, close: Tensor) -> Tensor:
    """The differences that are too large; others count as zero."""
    return differences.masked_fill(close.flatten(), 0)
