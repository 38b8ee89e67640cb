"""Elements put back where pooling has found them, and pooling by windows at random places."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for, scalar_type
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import is_int
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import pool as kernels
from jitgrad.ops.indexing.places import checked_index
from jitgrad.ops.nn.planes import PutInPlanes
from jitgrad.ops.nn.taps import as_volume, under_name
from jitgrad.ops.random.sampling import rand

__all__ = ["FractionalMaxPool"]


def _tuple(value: Any, dims: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims


def _unpooled_size(input: Tensor, width: Sequence[int], stride: Sequence[int], padding: Sequence[int],
                   output_size: Any) -> tuple[int, ...]:  # fmt: skip
    dims = len(width)
    usual = [(input.shape[d - dims] - 1) * stride[d] + width[d] - 2 * padding[d] for d in range(dims)]
    sizes = list(usual)
    if output_size is not None:
        sizes = list(output_size[2:] if len(output_size) == dims + 2 else output_size)
        if len(sizes) != dims:
            raise ValueError(
                f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
                f"'{len(sizes)}'"
            )
        for d, (n, old) in enumerate(zip(sizes, usual, strict=True)):
            if not old - stride[d] < n < old + stride[d]:
                shown = output_size[2:] if len(output_size) == dims + 2 else output_size
                raise ValueError(
                    f'invalid output_size "{shown}" (dim {d} must be between {old - stride[d]} and {old + stride[d]})'
                )
    for d, n in enumerate(sizes):
        if n < 0:
            raise ValueError(
                f"max_unpooling: output_size must contain non-negative spatial dimensions, but got output_size[{d}]={n}"
            )
    return tuple(map(int, sizes))


def _put_back(dims: int, input: Tensor, indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Zeros (*, *sizes) with the elements of ``input`` at the places ``indices`` in each plane."""
    shape = list(input.shape)
    if indices.dtype.name != "int64":
        more = f" but got: {scalar_type(indices.dtype)}" if dims == 2 else ""
        raise RuntimeError(f"elements in indices should be type int64{more}")
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Input to max_unpooling{dims}d should be a {dims + 1}d or {dims + 2}d Tensor, but got a tensor with "
            f"{len(shape)} dimensions."
        )
    if shape != list(indices.shape):
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({shape}) but got indices tensor with shape: {list(indices.shape)}"
        )
    for d in range(len(shape) - dims - 1, len(shape)):
        if not shape[d] and (d or len(shape) == dims + 1):
            raise RuntimeError(
                f"max_unpooling{dims}d_forward_out_cpu(): Expected input to have non-zero size for non-batch "
                f"dimensions, but got {shape} with dimension {d} being empty."
            )
    if input._layout.dtype.category != 2:
        raise not_implemented_for(f"max_unpool{dims}d", input.dtype)

    def error_of(value: int) -> Exception:
        return RuntimeError(
            f"Found an invalid max index: {value} (output volumes are of size {'x'.join(map(str, sizes))})"
        )

    places = indices.detach()
    if type(indices) is Tensor and places._layout.numel:
        places = checked_index(indices, math.prod(sizes), error_of)
    return _UNPOOL[dims](input, places, sizes, False)


_UNPOOL = {dims: under_name(PutInPlanes, f"MaxUnpool{dims}D") for dims in (2, 3)}


def _max_unpool(dims: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any,
                output_size: Any) -> Tensor:  # fmt: skip
    width, padding = _tuple(kernel_size, dims), _tuple(padding, dims)
    if dims == 3 and len(width) != 3:
        raise RuntimeError(
            "There should be exactly three elements (depth, height, width) in output_size, but got "
            f"{len(width)} elements."
        )
    stride = width if stride is None else _tuple(stride, dims)
    sizes = _unpooled_size(input, width, stride, padding, output_size)
    if dims == 1:
        return _put_back(2, input.unsqueeze(-1), indices.unsqueeze(-1), (*sizes, 1)).squeeze(-1)
    if dims == 3 and min(stride) <= 0:
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(stride)}")
    return _put_back(dims, input, indices, sizes)


@functools.partial(public, module="nn.functional")
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None,
                 padding: int | Sequence[int] = 0, output_size: Any = None) -> Tensor:  # fmt: skip
    """Zeros with the elements that ``max_pool1d`` has found at ``indices``; ``output_size`` where it is not clear.

    RuntimeError for an index that lies outside, ValueError for a size that does not fit.
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@functools.partial(public, module="nn.functional")
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None,
                 padding: int | Sequence[int] = 0, output_size: Any = None) -> Tensor:  # fmt: skip
    """``max_unpool1d`` over the last two dims."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@functools.partial(public, module="nn.functional")
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None,
                 padding: int | Sequence[int] = 0, output_size: Any = None) -> Tensor:  # fmt: skip
    """``max_unpool1d`` over the last three dims."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# -- windows at random places -----------------------------------------------------------------------------


def _begins(size: int, new: int, width: int, sample: float) -> list[int]:
    step = (size - width) / (new - 1) if new > 1 else 0
    return [int((k + sample) * step) - int(sample * step) for k in range(new - 1)] + [size - width]


def _fractional(x: Any, shifts: Any, width: Any, sizes: Any) -> Any:
    outer = x.shape[: x.ndim - len(sizes)]
    out, at = np.empty((*outer, *sizes)), np.empty((*outer, *sizes), np.int64)
    places = np.arange(math.prod(x.shape[len(outer) :])).reshape(x.shape[len(outer) :])
    for o in np.ndindex(*outer):
        axes = [_begins(*v) for v in zip(x.shape[len(outer) :], sizes, width, shifts[o], strict=True)]
        for k in np.ndindex(*sizes):
            part = tuple(slice(a[i], a[i] + w) for a, i, w in zip(axes, k, width, strict=True))
            which = x[o][part].argmax()
            out[(*o, *k)], at[(*o, *k)] = x[o][part].reshape(-1)[which], places[part].reshape(-1)[which]
    return out, at


def _batched(call: BatchedCall) -> Any:
    return call.run(x=call.whole("x"), shifts=call.whole("shifts"))


class FractionalMaxPool(Structured):
    """(largest elements of windows, their places): ``sizes`` windows, shifted by ``shifts`` (*, dims) in 0 .. 1."""

    multiple_results, results, batch = True, ("result0", "result1"), _batched
    samples = cases(
        lambda: (draw(2, 5), draw(2, 1, low=0, high=1), (2,), (3,)),
        lambda: (draw(1, 4, 5), draw(1, 2, low=0, high=1), (2, 2), (2, 3)),
    )
    reference = _fractional

    def plan(x_layout, shifts_layout, width, sizes):
        dims = len(sizes)
        shape = (*x_layout.shape[: x_layout.ndim - dims], *sizes)
        out, places = (intern(t, shape, None, x_layout.device) for t in (x_layout.numpy_dtype, np.dtype(np.int64)))
        if not out.numel:
            return lambda *_: (wrap(empty_for(out), out), wrap(empty_for(places), places))
        source, target = row_major("x", x_layout, as_volume(x_layout.shape, dims)), as_volume(shape, dims)
        given = row_major("shifts", shifts_layout, (target[0], dims))
        arrays = source, given, *(1,) * (3 - dims), *width
        written = Written(1, target), Written(0, target)
        return Launches([(kernels.fractional_windows, *arrays, *written)], [out, places], 2)

    def grad_x(g, result1, x, sizes):
        return PutInPlanes.apply(g[0], result1, tuple(x.shape[x.ndim - len(sizes) :]), True, x)


_AXES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _numbers(dims: int, name: str, value: Any) -> tuple[int, ...]:
    values = (int(value),) * dims if is_int(value) else tuple(map(int, value))
    if len(values) != dims:
        what = "tuple of three Ints" if dims == 3 else "tuple of Ints"
        raise RuntimeError(f"fractional_max_pool{dims}d: {name} must either be a single Int or {what}")
    return values


def _check(dims: int, input: Tensor, shifts: Tensor, width: Sequence[int], sizes: Sequence[int]) -> None:
    shape, op = list(input.shape), f"fractional_max_pool{dims}d{'_out' if dims == 3 else ''}()"
    for d in range(1, len(shape)):
        if not shape[d]:
            raise RuntimeError(
                f"{op}: Expected input to have non-zero size for non-batch dimensions, but got{shape} with dimension "
                f"{d} being empty."
            )
    for what, n, w, new in zip(_AXES[dims], shape[-dims:], width, sizes, strict=True):
        if new + w - (dims == 2) > n:  # of planes one more than PyTorch's documentation says, as PyTorch does
            raise RuntimeError(f"{op}: pool {what} {w} too large relative to input {what} {n}")
    if shifts.dtype is not input.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    if shifts.ndim != 3:
        raise RuntimeError(f"Expect _random_samples to have 3 dimensions, got {shifts.ndim}")
    if len(shape) == dims + 2 and shifts.shape[0] < shape[0]:
        raise RuntimeError("Expect _random_samples.size(0) no less then input batch size.")
    if shifts.shape[1] != shape[-dims - 1]:
        raise RuntimeError("Expect _random_samples.size(1) equals to input channel size.")
    if shifts.shape[2] != dims:
        raise RuntimeError(f"Expect _random_samples.size(2) equals to {dims}; got {shifts.shape[2]}.")


_POOL = {dims: under_name(FractionalMaxPool, f"FractionalMaxPool{dims}D") for dims in (2, 3)}


def _fractional_pool(dims: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any,
                     shifts: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        if dims == 2 and len(output_ratio) > 2:
            raise ValueError(
                "fractional_max_pool2d requires output_ratio to either be a single Int or tuple of Ints."
            )
        ratios = _tuple(output_ratio, dims)
        output_size = [int(input.size(d - dims) * r) for d, r in enumerate(ratios)]
    if shifts is None:
        if input._layout.dtype.category < 2:
            raise not_implemented_for("check_uniform_bounds", input.dtype)
        samples = 1 if input.ndim == dims + 1 else input.shape[0]
        shifts = rand(samples, input.size(-dims - 1), dims, dtype=input.dtype, device=input.device)
    width, sizes = _numbers(dims, "kernel_size", kernel_size), _numbers(dims, "output_size", output_size)
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"fractional_max_pool{dims}d{'_out' if dims == 3 else ''}(): Expected {dims + 1}D or {dims + 2}D tensor, "
            f"but got: {list(input.shape)}"
        )
    _check(dims, input, shifts, width, sizes)
    if input._layout.dtype.category != 2:
        raise not_implemented_for(f"fractional_max_pool{dims}d_out_frame", input.dtype)
    shifts = shifts[0] if input.ndim == dims + 1 else shifts[: input.shape[0]]
    # PyTorch draws the width's number before the height's where there are two.
    return _POOL[dims](input, shifts.flip(-1) if dims == 2 else shifts, width, sizes)


def _publish_fractional(dims: int) -> None:
    name = f"fractional_max_pool{dims}d"

    def either(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
               return_indices: bool = False, _random_samples: Tensor | None = None) -> Any:  # fmt: skip
        """The largest elements of ``output_size`` windows of ``kernel_size`` at random places.

        output_ratio: the new sizes as parts of the old ones. return_indices: returns (values, their places in a plane).
        RuntimeError where windows do not fit.
        """
        out = _fractional_pool(dims, input, kernel_size, output_size, output_ratio, _random_samples)
        return out if return_indices else out[0]

    def both(input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
             return_indices: bool = False, _random_samples: Tensor | None = None) -> Any:  # fmt: skip
        """(largest elements of ``output_size`` windows at random places, their places in a plane)."""
        return _fractional_pool(dims, input, kernel_size, output_size, output_ratio, _random_samples)

    for function, own in ((either, name), (both, f"{name}_with_indices")):
        function.__name__ = function.__qualname__ = own
        public(function, own, module="nn.functional")


for _dims in (2, 3):
    _publish_fractional(_dims)
