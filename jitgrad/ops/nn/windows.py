"""Windows that pooling slides over the last dims: their arguments, sizes and checks, in PyTorch's words."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.core.errors import must_be
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.sizes import as_flag, as_ints, is_int

__all__ = ["Window", "check_sizes", "per_dim", "sliding"]


class Window(NamedTuple):
    """Windows along a dim of ``size`` elements: ``new`` of them, each of ``width`` elements ``step`` apart.

    They begin at -``before`` and every ``stride`` elements from there on.
    """

    size: int
    new: int
    width: int
    stride: int
    before: int = 0
    step: int = 1


_WORDS = {2: "two", 3: "three"}
# The sentence of the error for an argument of the wrong length: of one dim, of avg_pool3d, of all others.
_ONE = "{op}() argument '{name}' should contain one int (got {n})"
_OMITTED = {"stride": "omitted, ", "padding": "", "kernel_size": "", "dilation": ""}


def _wrong_length(op: str, name: str, dims: int, n: int) -> RuntimeError:
    if op == "max_pool1d":
        either = "None, an int, list of ints, or" if name == "stride" else "an int, list of ints or"
        either += "," * (name == "padding")
        either = "an int, list of ints, or" if name == "padding" else either
        return RuntimeError(f"max_pool1d() {name} must be {either} tuple of ints of size 1 but got size {n}")
    if dims == 1:
        return RuntimeError(_ONE.format(op=op.removesuffix("_with_indices"), name=name, n=n))
    either = "" if op == "avg_pool3d" else "either "
    word = "be either " if name == "dilation" and either else f"{either}be "
    return RuntimeError(f"{op}: {name} must {word}{_OMITTED[name]}a single int, or a tuple of {_WORDS[dims]} ints")


def per_dim(op: str, name: str, position: int, value: Any, dims: int) -> tuple[int, ...]:
    """An argument that is an int, or one for each dim, or a list of one; () and None stay ()."""
    if value is None:
        return ()
    if is_int(value):
        return (int(value),) * dims
    if not isinstance(value, (tuple, list)):
        raise must_be(op, name, position, "tuple of ints", value)
    values = as_ints(op, value, name, position)
    if len(values) == 1:
        return values * dims
    if len(values) not in (0, dims) or (not values and name != "stride"):
        raise _wrong_length(op, name, dims, len(values))
    return values


def pooled_size(size: int, width: int, stride: int, before: int, step: int, ceil_mode: bool) -> int:
    """How many windows there are; the last one begins within the elements or what pads them at their begin."""
    room = size + 2 * before - step * (width - 1) - 1
    new = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return new - 1 if ceil_mode and (new - 1) * stride >= size + before else new


def check_sizes(op: str, sizes: Sequence[int], dims: int) -> None:
    """RuntimeError unless a tensor has ``dims`` dims of space, one of channels and perhaps one of samples."""
    shape = list(sizes)
    inner = shape[max(0, len(shape) - dims - 1) :]
    if len(shape) not in (dims + 1, dims + 2):
        if op == "max_pool1d":
            raise RuntimeError(
                "max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but "
                f"got:{shape}"
            )
        if dims == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {op.removesuffix('_with_indices')})"
            )
        if op == "avg_pool2d" and len(shape) < 3:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{len(shape)}, {len(shape) - 1}], but got -3)"
            )
        if op != "avg_pool2d":
            raise RuntimeError(f"non-empty {dims + 1}D or {dims + 2}D (batch mode) tensor expected for input")
    elif 0 not in inner:
        return
    if dims == 3:
        name = "avg_pool3d()" if op == "avg_pool3d" else "max_pool3d_with_indices_out_cpu_template()"
        raise RuntimeError(
            f"{name}: Expected input's non-batch dimensions to have positive length, but input has a shape of {shape} "
            "and non-batch dimension 0 has length zero!"
        )
    if op == "max_pool1d":
        what = "max_pool1d: Expected 2D or 3D"
    else:
        what = "Expected 3D or 4D"
        shape = [*shape[:-1], 1, shape[-1]] if dims == 1 else shape
    raise RuntimeError(f"{what} (batch mode) tensor with optional 0 dim batch size for input, but got:{shape}")


def sliding(
    op: str, x: Tensor, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1,
    ceil_mode: Any = False,
) -> tuple[Window, ...]:  # fmt: skip
    """The windows of a pooling op along the last ``dims`` dims of ``x``; RuntimeError for what does not fit."""
    try:
        return _sliding(op, tuple(x.shape), dims, kernel_size, stride, padding, dilation, ceil_mode)
    except TypeError:  # a list, which has no hash, or what is no int
        return _sliding.__wrapped__(op, tuple(x.shape), dims, kernel_size, stride, padding, dilation, ceil_mode)


@functools.lru_cache(maxsize=1024, typed=True)  # True is no int here
def _sliding(
    op: str, shape: tuple[int, ...], dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any,
) -> tuple[Window, ...]:  # fmt: skip
    given = [("kernel_size", kernel_size), ("stride", stride), ("padding", padding), ("dilation", dilation)]
    widths, strides, before, steps = [per_dim(op, n, k + 2, v, dims) for k, (n, v) in enumerate(given)]
    strides, ceil_mode = strides or widths, as_flag(ceil_mode)
    check = _check_one if op == "max_pool1d" else _check
    check_sizes(op, shape, dims)
    check(op, widths, strides, before, steps)
    sizes = shape[len(shape) - dims :]
    found = []
    for n, w, s, b, step in zip(sizes, widths, strides, before, steps, strict=True):
        found.append(Window(n, pooled_size(n, w, s, b, step, ceil_mode), w, s, b, step))
    _check_new(op, shape, found)
    return tuple(found)


def _check(op: str, widths: Sequence[int], strides: Sequence[int], before: Sequence[int], steps: Sequence[int]) -> None:
    if min(widths) <= 0 or min(strides) <= 0:
        if 0 in strides or op[:3] != "max":
            raise RuntimeError("stride should not be zero")
        raise RuntimeError(f"kernel size should be greater than zero, but got {_named('k', widths)}")
    if min(steps) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {_named('dilation', steps)}")
    for b, w, step in zip(before, widths, steps, strict=True):
        if b < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {b}")
        if b > ((w - 1) * step + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={b}, kernel_size={w} and "
                f"dilation={step}"
            )


def _named(what: str, values: Sequence[int]) -> str:
    """The values for height, 1 if there is none, and width, and for time if there is one: "kH: 0 kW: 0"."""
    values = [1, *values] if len(values) == 1 else values
    return " ".join(f"{what}{d}: {v}" for d, v in zip("THW"[-len(values) :], values, strict=False))


def _check_one(
    op: str, widths: Sequence[int], strides: Sequence[int], before: Sequence[int], steps: Sequence[int]
) -> None:
    for name, (value,) in (("kernel_size", widths), ("stride", strides), ("dilation", steps)):
        if value <= 0:
            raise RuntimeError(f"max_pool1d() {name} must be greater than zero, but got {value}")
    if before[0] < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {before[0]}")
    if before[0] > ((widths[0] - 1) * steps[0] + 1) // 2:
        raise RuntimeError(
            f"max_pool1d() padding should be at most half of kernel size, but got padding={before[0]} and "
            f"kernel_size={widths[0]}"
        )


def _check_new(op: str, shape: Sequence[int], found: Sequence[Window]) -> None:
    new = [max(w.new, 0) for w in found]
    if min(new) > 0:
        return
    if op == "max_pool1d":
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {new[0]}")
    if op == "avg_pool3d" and any(w.width > w.size + 2 * w.before for w in found):
        image = " ".join(f"{d}: {w.size}" for d, w in zip("THW", found, strict=True))
        widths = " ".join(f"k{d}: {w.width}" for d, w in zip("THW", found, strict=True))
        raise RuntimeError(f"input image ({image}) smaller than kernel size ({widths})")
    channels, sizes = shape[-1 - len(found)], [w.size for w in found]
    if len(found) == 1:
        sizes, new = [1, *sizes], [1, *new]
    a, b = ("x".join(map(str, [channels, *k])) for k in (sizes, new))
    raise RuntimeError(f"Given input size: ({a}). Calculated output size: ({b}). Output size is too small")
