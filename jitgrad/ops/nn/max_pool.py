"""The largest elements of windows, and their places: max_pool, adaptive and fractional; max_unpool."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.grad_mode import is_grad_enabled
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import pool as kernels
from jitgrad.ops.nn.avg_pool import adaptive_sizes, check_pooled_gradient
from jitgrad.ops.nn.planes import PutInPlanes
from jitgrad.ops.nn.taps import as_volume, in_format_of, merged_batch, under_name
from jitgrad.ops.nn.windows import Window, sliding

__all__ = ["MaxPool", "max_pool"]

_PLACES = np.dtype(np.int64)


def _bounds(w: Window) -> tuple[Any, Any, int]:
    """Where windows begin and end, as arrays, and their step; a width of 0 stands for windows that cover the dim."""
    k = np.arange(w.new, dtype=np.int64)
    if not w.width:
        return k * w.size // w.new, -((k + 1) * w.size // -w.new), 1
    begins = k * w.stride - w.before
    ends = np.minimum(begins + (w.width - 1) * w.step + 1, w.size)
    return np.where(begins < 0, begins + -(begins // w.step) * w.step, begins), ends, w.step


def _whole(w: Window) -> tuple[int, int, int, int]:
    """(first, behind the last, elements, stride) of the windows that lie inside; none where they are uneven."""
    low, reach = -(-w.before // w.stride) if w.width else 0, (w.width - 1) * w.step + 1
    high = min((w.size - reach + w.before) // w.stride + 1, w.new) if w.width else 0
    # Short rows are quicker window by window.
    return (min(low, w.new), high, w.width, w.stride) if high - low >= 8 else (0, 0, 0, 0)


def _largest(x: Any, windows: Sequence[Window]) -> Any:
    dims = len(windows)
    outer = x.shape[: x.ndim - dims]
    out = np.empty((*outer, *[w.new for w in windows])), np.empty((*outer, *[w.new for w in windows]), np.int64)
    places = np.arange(math.prod(w.size for w in windows)).reshape([w.size for w in windows])
    bounds = [_bounds(w) for w in windows]
    for at in np.ndindex(*[w.new for w in windows]):
        part = tuple(slice(b[k], e[k], s) for k, (b, e, s) in zip(at, bounds, strict=True))
        values = x[(..., *part)].reshape(*outer, -1)
        which = values.argmax(-1)
        out[0][(..., *at)] = values.max(-1)
        out[1][(..., *at)] = places[part].reshape(-1)[which]
    return out


class MaxPool(Structured):
    """(the largest element of each window along the last dims, its place in them as one vector).

    NaN counts as larger than any number. A window that is nothing but padding has -inf, and the place -1.
    """

    name, batch = "max_pool_with_indices", merged_batch
    multiple_results, results = True, ("result0", "result1")
    samples = cases(
        lambda: (draw(2, 5), (Window(5, 2, 2, 2),)),
        lambda: (draw(2, 4, 3), (Window(4, 2, 3, 2, 1), Window(3, 2, 2, 1, 0, 1))),
        lambda: (draw(1, 4, 3), (Window(4, 3, 0, 0), Window(3, 2, 0, 0))),
    )
    reference = _largest

    def plan(x_layout, windows):
        shape = (*x_layout.shape[: x_layout.ndim - len(windows)], *[w.new for w in windows])
        out, places = (intern(dtype, shape, None, x_layout.device) for dtype in (x_layout.numpy_dtype, _PLACES))
        if not out.numel:
            return lambda x: (wrap(empty_for(out), out), wrap(empty_for(places), places))
        if len(windows) == 2 and all(w == Window(w.size, w.size // 2, 2, 2) for w in windows):
            outer = math.prod(shape[:-2])
            source, target = row_major("x", x_layout, (outer, *x_layout.shape[-2:])), (outer, *shape[-2:])
            launch = kernels.largest_of_pairs, source, Written(1, target), Written(0, target)
            return in_format_of(x_layout, Launches([launch], [out, places], 2), of_sample=False, x=x_layout)
        dims, target = len(windows), as_volume(shape, len(windows))
        bounds = [b for w in (*[Window(1, 1, 1, 1)] * (3 - dims), *windows) for b in _bounds(w)]
        source, row = row_major("x", x_layout, as_volume(x_layout.shape, dims)), _whole(windows[-1])
        made = Launches([(kernels.largest, source, *bounds, *row, Written(1, target), Written(0, target))],
                        [out, places], 2)  # fmt: skip
        return in_format_of(x_layout, made, of_sample=dims == 3 and x_layout.ndim == 4, x=x_layout)

    def grad_x(g, result1, x, windows):
        if not windows[-1].width:
            check_pooled_gradient("adaptive_max_pool", len(windows), g[0])
        return PutInPlanes.apply(g[0], result1, tuple([w.size for w in windows]), True, x)


_named = functools.cache(functools.partial(under_name, MaxPool))  # of a title


def _values(
    dims: int, input: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Tensor:
    """The values alone, of one dim no view where nothing is recorded."""
    op = f"max_pool{dims}d"
    if dims > 1 or (input.requires_grad and is_grad_enabled()):
        return _pooling(input, op, dims, kernel_size, stride, padding, dilation, ceil_mode)[0]
    return MaxPool.apply(input, _windows(op, input, 1, kernel_size, stride, padding, dilation, ceil_mode))[0]


def max_pool(
    dims: int, input: Tensor, kernel_size: Any, stride: Any = None, padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(largest elements of the windows along the last ``dims`` dims, their places)."""
    # Of one dim PyTorch then pools in two, and checks the arguments in other words.
    op = "max_pool1d_with_indices" if dims == 1 else f"max_pool{dims}d"
    result: tuple[Tensor, Tensor] = _pooling(input, op, dims, kernel_size, stride, padding, dilation, ceil_mode)
    return result


@settled(1)
def _pooling(
    input: Tensor, op: str, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    """What ``max_pool`` calls, and its arguments after ``input``."""
    windows = _windows(op, input, dims, kernel_size, stride, padding, dilation, ceil_mode)
    return _pools(_TITLES[dims], windows)


_TITLES = ("", "MaxPool2DWithIndices", "MaxPool2DWithIndices", "MaxPool3DWithIndices")


def _windows(op: str, input: Tensor, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
             ceil_mode: bool) -> tuple[Window, ...]:  # fmt: skip
    windows = sliding(op, input, dims, kernel_size, stride, padding, dilation, ceil_mode)
    dtype = input._layout.dtype
    if dtype.category in (0, 3) or (op == "max_pool1d" and dtype.category < 2):
        one = op == "max_pool1d" and dtype.category < 2
        raise not_implemented_for("max_pool1d_impl" if one else f"max_pool{max(dims, 2)}d", input.dtype)
    return windows


def _pools(title: str, windows: tuple[Window, ...]) -> Any:
    """``MaxPool`` and its arguments; of one dim as the last of two, of whose results these are views."""
    return (_named(title), (windows,)) if len(windows) > 1 else (_one_pooled, (title, windows))


def _one_pooled(input: Tensor, title: str, windows: tuple[Window, ...]) -> tuple[Tensor, Tensor]:
    out, places = _named(title)(input.unsqueeze(-2), (Window(1, 1, 1, 1), *windows))
    return out.squeeze(-2), places.squeeze(-2)


_DOC = """The largest element of each window of ``kernel_size`` elements along the last {what}, every ``stride``.

    stride: the window's size if not given. padding: so many places at both ends that count for nothing. dilation: how
    far apart a window's elements are. ceil_mode: windows that reach over the end, too. RuntimeError where sizes do not
    fit.
    """


def _publish_max_pool(dims: int) -> None:
    what = ("dim", "two dims", "three dims")[dims - 1]

    def plain(input: Tensor, kernel_size: Any, stride: Any = (), padding: int | Sequence[int] = 0,
              dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> Tensor:  # fmt: skip
        return _values(dims, input, kernel_size, stride, padding, dilation, ceil_mode)

    def with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: int | Sequence[int] = 0,
                     dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                     return_indices: bool = False) -> Any:  # fmt: skip
        return max_pool(dims, input, kernel_size, stride, padding, dilation, ceil_mode)

    def either(input: Tensor, kernel_size: Any, stride: Any = None, padding: int | Sequence[int] = 0,
               dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Any:  # fmt: skip
        found = max_pool if return_indices else _values
        return found(dims, input, kernel_size, stride, padding, dilation, ceil_mode)

    plain.__doc__ = _DOC.format(what=what)
    with_indices.__doc__ = plain.__doc__.rstrip() + "\n\n    Returns (values, their places in a plane).\n"
    either.__doc__ = plain.__doc__.rstrip() + "\n\n    return_indices: returns (values, their places in a plane).\n"
    for function, name in ((plain, f"max_pool{dims}d"), (with_indices, f"max_pool{dims}d_with_indices")):
        function.__name__ = function.__qualname__ = name
        if name != "max_pool2d_with_indices" and name != "max_pool3d_with_indices":
            public(function, name, method_too=False)
    either.__name__ = either.__qualname__ = f"max_pool{dims}d"
    public(either, f"max_pool{dims}d", module="nn.functional")
    public(with_indices, f"max_pool{dims}d_with_indices", module="nn.functional")


for _dims in (1, 2, 3):
    _publish_max_pool(_dims)


@functools.partial(public, method_too=False)
def max_pool2d_with_indices_backward(
    grad_output: Tensor, self: Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    indices: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of max_pool2d's input: zeros, to which ``grad_output`` is added at the places ``indices``."""
    sliding("max_pool2d", self, 2, kernel_size, stride, padding, dilation, ceil_mode)
    if grad_output.dtype is not self.dtype:
        raise RuntimeError(
            f"Expected dtype {self.dtype!s} for `gradOutput` but got dtype {grad_output.dtype!s}"
        )
    return PutInPlanes.apply(grad_output, indices, tuple(self.shape[-2:]), True, self)


# -- adaptive ---------------------------------------------------------------------------------------------


def _adaptive_max_pool(dims: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    size = tuple(output_size) if isinstance(output_size, (list, tuple)) else output_size
    result: tuple[Tensor, Tensor] = _adaptive_pooling(input, dims, size)
    return result


@settled(1)
def _adaptive_pooling(input: Tensor, dims: int, output_size: Any) -> Any:
    """What ``_adaptive_max_pool`` calls, and its arguments after ``input``."""
    op = f"adaptive_max_pool{dims}d"
    sizes, shape = adaptive_sizes(op, input, output_size, dims, True), list(input.shape)
    if len(shape) not in (dims + 1, dims + 2):
        if dims == 1:
            raise RuntimeError(
                f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 'self' "
                f"(while checking arguments for {op})"
            )
        raise RuntimeError(f"{op}(): Expected {dims + 1}D or {dims + 2}D tensor, but got: {shape}")
    for d in range(1, len(shape)):
        if not shape[d]:
            raise RuntimeError(
                f"{op}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {shape} "
                f"with dimension {d} being empty"
            )
    if min(sizes) < 0:
        new = [*shape[: len(shape) - dims], *[1] * (dims == 1), *sizes]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {new}")
    if input._layout.dtype.category != 2:
        raise not_implemented_for("adaptive_max_pool3d_cpu" if dims == 3 else "adaptive_max_pool2d", input.dtype)
    windows = tuple([Window(n, new, 0, 0) for n, new in zip(shape[len(shape) - dims :], sizes, strict=True)])
    return _pools(f"AdaptiveMaxPool{max(dims, 2)}D", windows)


def _publish_adaptive(dims: int) -> None:
    def either(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """The largest elements of ``output_size`` windows of about equal size, which cover the last dims.

        return_indices: returns (values, their places in a plane).
        """
        out = _adaptive_max_pool(dims, input, output_size)
        return out if return_indices else out[0]

    def both(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        """(largest elements of ``output_size`` windows that cover the last dims, their places in a plane)."""
        return _adaptive_max_pool(dims, input, output_size)

    name = f"adaptive_max_pool{dims}d"
    either.__name__ = either.__qualname__ = both.__name__ = both.__qualname__ = name
    public(either, name, module="nn.functional")
    public(both, f"{name}_with_indices", module="nn.functional")
    if dims == 1:
        def two(input: Tensor, output_size: Any) -> Any:
            """(largest elements of ``output_size`` windows that cover the last dim, their places in it)."""
            return _adaptive_max_pool(1, input, output_size)

        two.__name__ = two.__qualname__ = name
        public(two, name, method_too=False)


for _dims in (1, 2, 3):
    _publish_adaptive(_dims)
