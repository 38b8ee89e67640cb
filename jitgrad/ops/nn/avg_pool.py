"""Means over windows: avg_pool, adaptive_avg_pool, local_response_norm."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import layout_of
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.memory_formats import strides_of_result
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import as_flag, as_ints, is_int
from jitgrad.ops.nn.pad import constant_pad_nd
from jitgrad.ops.nn.taps import MAKERS, Map, Tapped, Taps, named_op, under_name, windows_of
from jitgrad.ops.nn.windows import Window, per_dim, sliding
from jitgrad.ops.reduction.sums import mean

__all__ = ["adaptive_sizes", "avg_pool"]


def _spans(made: Map) -> tuple[Any, Any, Any]:
    """The begins, ends and divisors of windows, whose padding counts or does not."""
    width, stride, before, with_padding = made.numbers[:4]
    begins = np.arange(made.new) * stride - before
    ends = np.minimum(begins + width, made.size + before)
    inside = np.maximum(begins, 0), np.minimum(ends, made.size)
    return (*inside, ends - begins if with_padding else inside[1] - inside[0])


def _means(made: Map, real: Any) -> Taps:
    begins, ends, divisors = _spans(made)
    with np.errstate(divide="ignore"):  # a window of padding alone has no places
        return windows_of(begins, ends, real(1) / divisors.astype(real))


def _sums(made: Map, real: Any) -> Taps:
    """The divisor is that of the whole window, or 1: the last dim's map has it."""
    begins, ends, _ = _spans(made)
    return windows_of(begins, ends, np.full(made.new, real(1) / real(made.numbers[4])))


def _adaptive(made: Map, real: Any) -> Taps:
    k = np.arange(made.new)
    begins, ends = k * made.size // made.new, -((k + 1) * made.size // -made.new)
    return windows_of(begins, ends, real(1) / (ends - begins).astype(real))


MAKERS["mean"], MAKERS["sum"], MAKERS["adaptive_mean"] = _means, _sums, _adaptive


def _divided(sums: Tensor, windows: Sequence[Window], with_padding: bool, divisor: int | None) -> Tensor:
    """Sums of integers by the number of their elements, rounded towards zero."""
    if divisor is not None:
        return table.div_trunc(sums, divisor)
    counts = np.ones((), np.int64)
    for w in windows:
        _, _, divisors = _spans(Map("", w.size, w.new, (w.width, w.stride, w.before, with_padding)))
        counts = counts[..., None] * divisors
    counts = np.ascontiguousarray(counts)
    return table.div_trunc(sums, wrap(counts, layout_of(counts)))


@settled(1)
def avg_pool(
    input: Tensor, dims: int, kernel_size: Any, stride: Any = None, padding: int | Sequence[int] = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """What makes the means of windows along the last ``dims`` dims, and its arguments after ``input``."""
    windows = sliding(f"avg_pool{dims}d", input, dims, kernel_size, stride, padding, 1, ceil_mode)
    whole, with_padding = input.dtype.name == "int64", as_flag(count_include_pad)
    if divisor_override == 0 and divisor_override is not None:
        raise RuntimeError("divisor must be not zero")
    if input._layout.dtype.category != 2 and not whole:
        kernel = "avg_pool3d_out_frame" if dims == 3 else "avg_pool2d"
        raise not_implemented_for(kernel, input.dtype)
    maps = []
    for k, w in enumerate(windows):
        numbers: tuple[Any, ...] = w.width, w.stride, w.before, with_padding
        kind = "mean"
        if whole or divisor_override is not None:
            last = k == dims - 1 and not whole
            kind, numbers = "sum", (*numbers, divisor_override if last and divisor_override else 1)
        maps.append(Map(kind, w.size, w.new, numbers))
    if not whole:
        return _mapping(_sliding_means, maps)
    return _whole_means, (maps, windows, with_padding, divisor_override)


def _whole_means(
    input: Tensor, maps: Sequence[Map], windows: Sequence[Window], with_padding: bool, divisor: int | None
) -> Tensor:  # fmt: skip
    function, given = _mapping(_sliding_means, maps)
    out = _divided(function(input, *given), windows, with_padding, divisor)
    return out if len(maps) > 1 else out.unsqueeze(-2).squeeze(-2)  # a view, as means of floats along one dim are


def _mapping(op: Callable[[int], Any], maps: Sequence[Map]) -> Any:
    """What maps the last dims of a tensor by ``op`` of so many dims, and its arguments; one dim as the last of two, of
    whose result the one is a view."""
    if len(maps) > 1:
        return op(len(maps)), (tuple(maps),)
    return _one_mapped, (op, maps[0])


def _one_mapped(input: Tensor, op: Callable[[int], Any], last: Map) -> Tensor:
    result: Tensor = op(2)(input.unsqueeze(-2), (Map("same", 1, 1), last)).squeeze(-2)
    return result


def _sliding_means(dims: int) -> Callable[..., Tensor]:
    return named_op(f"AvgPool{dims}D", True)


@functools.partial(public, method_too=False)
def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = (), padding: int | Sequence[int] = 0,
               ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:  # fmt: skip
    """The mean of each window of ``kernel_size`` elements along the last dim, every ``stride`` (the same) elements.

    padding: so many zeros at both ends, which count unless ``count_include_pad`` is False; ceil_mode: windows that
    reach over the end, too. RuntimeError where sizes do not fit.
    """
    return avg_pool(input, 1, kernel_size, stride, padding, ceil_mode, count_include_pad)


@functools.partial(public, module="nn.functional")
@takes_out
def avg_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: int | Sequence[int] = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:  # fmt: skip
    """``avg_pool1d`` over the last two dims; ``divisor_override`` in the place of the number of elements."""
    return avg_pool(input, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@functools.partial(public, module="nn.functional")
@takes_out
def avg_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: int | Sequence[int] = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Tensor:  # fmt: skip
    """``avg_pool2d`` over the last three dims."""
    return avg_pool(input, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


# -- adaptive ---------------------------------------------------------------------------------------------


def adaptive_sizes(op: str, input: Tensor, output_size: Any, dims: int, internal: bool = False) -> tuple[int, ...]:
    """The new sizes of the last ``dims`` dims: an int for all, or one each, None for a size that stays."""
    if dims == 1:
        sizes = per_dim(op, "output_size", 2, output_size, 1)
    elif is_int(output_size):
        sizes = (int(output_size),) * dims
    else:
        if input.ndim <= len(output_size):
            raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
        kept = input.shape[input.ndim - len(output_size) :]
        sizes = as_ints(op, [n if v is None else v for v, n in zip(output_size, kept, strict=True)], "output_size", 2)
    if len(sizes) != dims:
        what = "(): internal error: output_size.size()" if internal else ": output_size"
        raise RuntimeError(f"{op}{what} must be {dims}")
    return sizes


def _check_adaptive(op: str, input: Tensor, sizes: Sequence[int], dims: int) -> None:
    shape = list(input.shape)
    if dims == 3 and min(sizes) >= 0:
        _check_planes(op, shape, 1)
    if len(shape) not in (dims + 1, dims + 2):
        if dims == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {op})"
            )
        raise RuntimeError(f"{op}(): Expected {dims + 1}D or {dims + 2}D tensor, but got {shape}")
    of_two, shown = ("adaptive_avg_pool2d", [*shape[:-1], 1, shape[-1]]) if dims == 1 else (op, shape)
    if min(sizes) < 0:
        given = [1, *sizes] if dims == 1 else sizes
        text = f"{given[0]}, {given[1]}" + (f",{given[2]}" if dims == 3 else "")
        raise RuntimeError(
            f"{of_two}: elements of output_size must be greater than or equal to 0 but received {{{text}}}"
        )
    _check_planes(of_two, shown, len(shown) - 2)
    if input._layout.dtype.category != 2:
        raise not_implemented_for("adaptive_avg_pool3d_cpu" if dims == 3 else "adaptive_avg_pool2d", input.dtype)


def _check_planes(op: str, shape: list[int], first: int) -> None:
    """RuntimeError where a dim from ``first`` on is empty."""
    for d in range(first, len(shape)):
        if not shape[d]:
            raise RuntimeError(
                f"{op}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes "
                f"{shape} with dimension {d} being empty"
            )


def check_pooled_gradient(name: str, dims: int, g: Tensor) -> None:
    """RuntimeError where the gradient ``g`` (samples, channels, places of ``dims`` dims) has no channels or places.

    Without samples there is nothing to compute. vmap puts dims in front of these, and a single sample has only places
    checked, as in PyTorch.
    """
    shape = list(g.shape)
    for d in range(max(1, len(shape) - dims - 1), len(shape)):
        if not shape[d]:
            raise RuntimeError(
                f"{name}{dims}d_backward(): Expected grad_output to have non-zero size for non-batch dimensions, but "
                f"grad_output has sizes {shape} with dimension {d} being empty"
            )


@functools.cache
def _adaptive_means(dims: int) -> Callable[..., Tensor]:
    def gradient(g, x, maps, transposed):
        check_pooled_gradient("adaptive_avg_pool", dims, g)
        return Tapped.apply(g, maps, not transposed, x)

    return under_name(Tapped, f"AdaptiveAvgPool{dims}D", grad_x=gradient)


def _channels_last(means: Tensor, x: Tensor) -> Tensor:
    """Means of whole planes with the strides of channels that are last, as those of ``x`` are."""
    if strides_of_result([x._layout], means._layout.shape) is None:
        return means
    n, channels = means.shape[:2]
    inner = means.ndim - 2
    return means.as_strided((n, channels, *[1] * inner), (channels, 1, *[channels] * inner))


@settled(1)
def _adaptive_averaging(input: Tensor, dims: int, output_size: Any) -> Any:
    """What ``_adaptive_avg_pool`` calls, and its arguments after ``input``."""
    op = f"adaptive_avg_pool{dims}d"
    sizes = adaptive_sizes(op, input, output_size, dims)
    _check_adaptive(op, input, sizes, dims)
    if set(sizes) == {1}:
        return (_mean_of_last, ()) if dims == 1 else (_mean_of_planes, (dims,))
    old = input.shape[input.ndim - dims :]
    return _mapping(_adaptive_means, [Map("adaptive_mean", n, k) for n, k in zip(old, sizes, strict=True)])


def _mean_of_last(input: Tensor) -> Tensor:
    return input.unsqueeze(-2).mean((-2, -1), True).squeeze(-2)


def _mean_of_planes(input: Tensor, dims: int) -> Tensor:
    return _channels_last(mean(input, tuple(range(-dims, 0)), True), input)


def _adaptive_avg_pool(dims: int, input: Tensor, output_size: Any) -> Tensor:
    size = tuple(output_size) if isinstance(output_size, (list, tuple)) else output_size
    result: Tensor = _adaptive_averaging(input, dims, size)
    return result


@functools.partial(public, method_too=False)
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of ``output_size`` windows of about equal size, which cover the last dim."""
    return _adaptive_avg_pool(1, input, output_size)


@functools.partial(public, module="nn.functional")
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """``adaptive_avg_pool1d`` over the last two dims; of ``output_size`` an entry None keeps a dim as it is."""
    return _adaptive_avg_pool(2, input, output_size)


@functools.partial(public, module="nn.functional")
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """``adaptive_avg_pool2d`` over the last three dims."""
    return _adaptive_avg_pool(3, input, output_size)


for _function in (avg_pool1d, adaptive_avg_pool1d):
    public(_function, module="nn.functional")

# -- over channels ---------------------------------------------------------------------------------------


@functools.partial(public, module="nn.functional")
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha * mean(x ** 2)) ** beta, the mean over ``size`` channels, dim 1, about each one.

    ValueError for fewer than three dims.
    """
    if input.ndim < 3:
        gap = " " * 26  # PyTorch's
        raise ValueError(f"Expected 3D or higher dimensionality{gap}input (got {input.ndim} dimensions)")
    if not input.numel():
        return input
    n, channels = input.shape[:2]
    squares = constant_pad_nd(input.mul(input).reshape(n, 1, channels, -1), (0, 0, size // 2, (size - 1) // 2))
    means = avg_pool(squares, 2, (size, 1), 1)
    return input / means.reshape(input.shape).mul(alpha).add(k).pow(beta)
