"""What an op does with a sample under one library, as plain values, and the differences between two of those."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import jitgrad

from .libraries import OURS, THEIRS, Library
from .variants import Variant

TENSORS = (torch.Tensor, jitgrad.Tensor)
# torch.testing's; of float64 below.
TOLERANCE = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "complex64": (1.3e-6, 1e-5),
}  # fmt: skip
TOLERANCE_DOUBLE = (1e-7, 1e-7)
WIDER = {
    torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip
ROUNDING = 4  # how much more the roundings of equal sums in another order may come to, by chance


class Seen(NamedTuple):
    """A tensor as plain values."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    requires_grad: bool
    is_view: bool
    values: np.ndarray


def seen(value: Any) -> Any:
    """A tree of results with plain values in the place of tensors."""
    if isinstance(value, TENSORS):
        if str(value.layout).partition(".")[2] != "strided":
            value = value.detach().to_dense().requires_grad_(value.requires_grad)
        stride = tuple(s for s, n in zip(value.stride(), value.shape) if n > 1) if value.numel() else ()
        dtype = str(value.dtype).partition(".")[2]
        plain = value.detach().resolve_conj().resolve_neg()
        values = np.array((plain.float() if dtype == "bfloat16" else plain).numpy(force=True))
        return Seen(dtype, tuple(value.shape), stride, value.requires_grad, value._is_view(), values)
    if isinstance(value, (list, tuple)) and not hasattr(value, "numel"):
        return [seen(part) for part in value]
    return str(value).replace("jitgrad.", "torch.")


def tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, TENSORS):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors(part)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def cotangent(library: Library, out: Any, number: int) -> Any:
    """Numbers without a pattern, the same for both libraries, for the result of that number.

    Every dtype holds them, bfloat16 too.
    """
    values = np.round((np.cos(np.arange(out.numel()) * 1.7 + number) + 1.2) * 64) / 64
    if out.dtype.is_complex:
        values = values + 1j * np.sin(np.arange(out.numel()) * 2.3 - number)
    found = library.module.from_numpy(values.reshape(tuple(out.shape))).to(out.dtype)
    return found if str(out.layout).endswith("strided") else found.sparse_mask(out.detach())


def gradients(library: Library, outputs: list[Any], inputs: list[Any], order: int) -> list[Any]:
    """The gradients of ``outputs``, and those of these, up to ``order``."""
    found, grad = [], library.module.autograd.grad
    for again in range(order, 0, -1):
        recorded = {k: out for k, out in enumerate(outputs) if out is not None and out.requires_grad}
        if not recorded:
            break
        weights = [cotangent(library, out, k) for k, out in recorded.items()]
        outputs = list(grad(list(recorded.values()), inputs, weights, create_graph=again > 1, allow_unused=True))
        found.append([None if g is None else seen(g) for g in outputs])
    return found


def run(library: Library, function: Any, sample: Any, inplace: bool, order: int) -> dict[str, Any]:
    """What came of a call: under "result" the results, under "gradients" theirs, or under "error" the error's class."""
    memo: dict[int, Any] = {}
    first, args, kwargs = library.own((sample.input, sample.args, sample.kwargs), memo)
    library.module.manual_seed(42)
    report: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            operand = first.clone() if inplace and first.requires_grad else first
            result = function(operand, *args, **kwargs)
            report["result"] = seen(result)
            if inplace:
                report["written"] = seen(operand)
                report["same"] = result is operand
            if order:
                inputs = [t for t in memo.values() if t.requires_grad]
                outputs = list(tensors(processed(sample, library, result)))
                report["gradients"] = gradients(library, outputs, inputs, order)
        except Exception as error:
            report["error"] = error
    return report


def processed(sample: Any, library: Library, result: Any) -> Any:
    """The results of which PyTorch's list wants gradients compared."""
    return library.rebound(sample.output_process_fn_grad)(result)


def differences(variant: Variant, sample: Any, order: int, without_values: bool = False) -> list[str]:
    """What jitgrad does otherwise than PyTorch with one sample, in words; empty if nothing.

    ``without_values``: the results are memory that nothing was written to.
    """
    theirs = run(THEIRS, variant.theirs, sample, variant.inplace, order)
    ours = run(OURS, variant.ours, sample, variant.inplace, order)
    if "error" in theirs or "error" in ours:
        return error_difference(ours.get("error"), theirs.get("error"))
    a, b = dict(flat(ours)), dict(flat(theirs))
    if a.keys() != b.keys():
        return [f"more: {sorted(a.keys() - b.keys())}, less: {sorted(b.keys() - a.keys())}"]
    found = {key: text for key in b if (text := difference(a[key], b[key], key, without_values))}
    if any(f"for np.{kind}" in text for text in found.values() for kind in ("float32", "float16", "complex64")):
        exact = dict(flat(run(THEIRS, variant.theirs, sample.transform(widened), variant.inplace, order)))
        found = {key: text for key, text in found.items() if not as_near(a[key], b[key], exact.get(key))}
    return list(found.values())


def widened(part: Any) -> Any:
    """A part of a sample in float64 or complex128, if it was of less precision."""
    if isinstance(part, torch.Tensor) and part.dtype in WIDER:
        return part.detach().to(WIDER[part.dtype]).requires_grad_(part.requires_grad)
    return WIDER.get(part, part) if isinstance(part, torch.dtype) else part


def as_near(ours: Any, theirs: Any, exact: Any) -> bool:
    """Whether no value is further from PyTorch's in float64 than ``ROUNDING`` times PyTorch's farthest in float32.

    Nor is one that is within two roundings of it. In 16 bits PyTorch's steps may overflow where the result does not:
    there jitgrad, whose steps are of 32 bits, must be near, or have the same infinity: gradients read results that have
    overflowed in both.
    """
    if not isinstance(exact, Seen) or (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return False
    dtype = getattr(torch, theirs.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        return False
    info = torch.finfo(dtype)
    with np.errstate(all="ignore"):  # infinities, which are as far from themselves as NaN from any number
        off = [np.abs(x.values.astype(exact.values.dtype) - exact.values) for x in (ours, theirs)]
        overflowed = ~np.isfinite(off[1]) & (info.bits == 16)
        off[0] = np.where(overflowed & (np.abs(exact.values) > info.max) & np.isinf(ours.values), 0, off[0])
        off[0] = np.where(overflowed & (ours.values == theirs.values), 0, off[0])
        off[0] = np.where(overflowed & np.isnan(ours.values) & np.isnan(theirs.values), 0, off[0])
        off[1] = np.where(overflowed, 0, off[1])
        size = np.abs(exact.values)
        rounding = 2 * info.eps * np.where(overflowed, np.max(size, initial=0, where=np.isfinite(size)), size)
    if not np.array_equal(*map(np.isnan, off)):
        return False
    near = ROUNDING * np.nanmax(off[1], initial=0)
    return bool(np.all((off[0] <= np.maximum(near, rounding)) | np.isnan(off[0])))


def error_difference(ours: Any, theirs: Any) -> list[str]:
    if ours is None:
        return [f"PyTorch raises {theirs!r}"]
    if theirs is None:
        return [f"raises {ours!r}"]
    return [] if isinstance(ours, type(theirs)) else [f"raises {ours!r}, PyTorch {theirs!r}"]


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, leaf) for the leaves of a tree of dicts and lists."""
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(part, f"{path} {key}" if path else str(key))
    else:
        yield path, value


def difference(ours: Any, theirs: Any, path: str, without_values: bool) -> str:
    if not isinstance(theirs, Seen) or not isinstance(ours, Seen):
        return "" if type(ours) is type(theirs) and ours == theirs else f"{path}: {ours!r} for {theirs!r}"
    is_gradient = path.startswith("gradients")  # of which PyTorch promises neither strides nor that they are no views
    for field in ("dtype", "shape", "requires_grad") + (() if is_gradient else ("stride", "is_view")):
        if getattr(ours, field) != getattr(theirs, field):
            return f"{path}: {field} {getattr(ours, field)} for {getattr(theirs, field)}"
    if without_values and not is_gradient:
        return ""
    rtol, atol = TOLERANCE.get(theirs.dtype, TOLERANCE_DOUBLE)
    if is_gradient and theirs.dtype.endswith("float16"):
        # PyTorch rounds each step of a gradient, which is one kernel here, and steps may cancel.
        finite = np.abs(theirs.values.astype(np.float64))
        rtol, atol = 4 * rtol, rtol * float(np.max(finite, where=np.isfinite(finite), initial=0))
    return value_difference(ours.values, theirs.values, path, (rtol, atol))


def value_difference(ours: np.ndarray, theirs: np.ndarray, path: str, tolerance: tuple[float, float]) -> str:
    rtol, atol = tolerance
    with np.errstate(all="ignore"):
        if np.allclose(ours, theirs, rtol, atol, equal_nan=True):
            return ""
        error = np.abs(ours.astype(complex) - theirs.astype(complex))
    worst = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
    return f"{path}: {ours[worst]!r} for {theirs[worst]!r} at {tuple(map(int, worst))}"
