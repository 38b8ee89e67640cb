"""Images and volumes read at places between their elements, and grids of such places."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import int_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import grid_sample as kernels
from jitgrad.ops.creation.ranges import linspace
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.nn.taps import merged_batch, under_name
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["AffineGridGenerator", "GridSampler", "GridSamplerBackward"]


def _shapes(x: Sequence[int], grid: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shapes of volumes, grids and results as the kernels take them."""
    places = math.prod(grid[1:-1])
    volumes = (*x[:2], *(1,) * (5 - len(x)), *x[2:])
    return volumes, (grid[0], places, grid[-1]), (*x[:2], places)


def _batched(call: BatchedCall) -> Any:
    """The batch and the samples of each are one dim."""
    given = {}
    for name in call.tensors():
        t = call.whole(name)
        given[name] = t.reshape((-1, *t.shape[2:]))
    outs = call.run(**given)
    whole = [o.reshape((call.size, -1, *o.shape[1:])) for o in (outs if isinstance(outs, tuple) else (outs,))]
    return tuple(whole) if isinstance(outs, tuple) else whole[0]


def _reference(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    """Bilinear, between zeros."""
    sizes = x.shape[:1:-1]  # of width, height, depth
    real = (grid + 1) / 2 * (np.array(sizes) - align) - 0.5 * (not align)
    low, out = np.floor(real).astype(int), np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for corner in np.ndindex(*(2,) * len(sizes)):
        at = low + np.array(corner)
        weight = np.prod(np.where(np.array(corner), real - low, low + 1 - real), -1)
        weight = weight * ((at >= 0) & (at < np.array(sizes))).all(-1)
        at = at.clip(0, np.array(sizes) - 1)
        for n in range(len(x)):
            out[n] += x[n][(slice(None), *[at[n, ..., d] for d in reversed(range(len(sizes)))])] * weight[n]
    return out


class GridSampler(Structured):
    """The values of ``x`` (n, c, *sizes) at the places of ``grid`` (n, *places, dims), as (n, c, *places).

    mode: 0 linear, 1 nearest, 2 cubic. padding: 0 zeros, 1 the border, 2 reflected.
    """

    batch = _batched
    samples = cases(
        lambda: (draw(1, 2, 3, 3), draw(1, 2, 2, 2, low=-0.9, high=0.9), 0, 0, True),
        lambda: (draw(2, 1, 2, 3, 2), draw(2, 1, 2, 1, 3, low=-1.4, high=0.9), 0, 0, False),
    )
    reference = _reference

    def plan(x_layout, grid_layout, mode, padding, align, direction_layout=None):
        shapes = _shapes(x_layout.shape, grid_layout.shape)
        out = intern(x_layout.numpy_dtype, (*x_layout.shape[:2], *grid_layout.shape[1:-1]), None, x_layout.device)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        arrays = row_major("x", x_layout, shapes[0]), row_major("grid", grid_layout, shapes[1])
        arrays += (_direction(direction_layout, shapes[1], out.numpy_dtype),)
        return Launches([(kernels.sample, *arrays, mode, padding, align, Written(0, shapes[2]))], [out])

    def grad_x(g, x, grid, mode, padding, align, direction):
        return GridSamplerBackward.apply(g, x, grid, mode, padding, align, direction)[0]

    def grad_grid(g, x, grid, mode, padding, align, direction):
        return GridSamplerBackward.apply(g, x, grid, mode, padding, align, direction)[1]

    def grad_direction(g, x, grid, mode, padding, align):
        return GridSamplerBackward.apply(g, x, grid, mode, padding, align)[1]

    def kernels(wants, g, x, grid, mode, padding, align, direction):
        found = GridSamplerBackward.forward(g, x, grid, mode, padding, align, direction)
        return dict(zip(("x", "grid"), found, strict=True))


def _direction(layout: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return np.empty((1, 1, 0), dtype) if layout is None else row_major("direction", layout, shape)


def _refuse(direction: Any) -> None:
    if direction is not None:
        raise RuntimeError("grid_sampler: the gradients of gradients of gradients are not implemented")


class GridSamplerBackward(Structured, listed=False):
    """The gradients of ``GridSampler``, of x and of the grid, given that of its result, ``y``."""

    name, batch, multiple_results, results = "grid_sampler_backward", _batched, True, ("result0", "result1")

    def plan(y_layout, x_layout, grid_layout, mode, padding, align, direction_layout=None):
        outs = [intern(y_layout.numpy_dtype, t.shape, None, t.device) for t in (x_layout, grid_layout)]
        if not y_layout.numel:
            return lambda *_: tuple(map(zeros_of, outs))
        shapes = _shapes(x_layout.shape, grid_layout.shape)
        x, grid = row_major("x", x_layout, shapes[0]), row_major("grid", grid_layout, shapes[1])
        y = row_major("y", y_layout, shapes[2])
        given = x, grid, _direction(direction_layout, shapes[1], outs[0].numpy_dtype), y
        written = Written(0, shapes[0]), Written(1, shapes[1])
        return Launches([(kernels.sample_gradients, *given, mode, padding, align, *written)], outs, 2)

    # Of a pair of gradients the first belongs to that of x, which is linear in y; the second, of the grid's, goes the
    # way of the values' derivative along it.

    def grad_y(g, x, grid, mode, padding, align, direction):
        _refuse(direction)
        return _sum(GridSampler.apply(g[0], grid, mode, padding, align) if g[0] is not None else None,
                    GridSampler.apply(x, grid, mode, padding, align, g[1]) if g[1] is not None else None)  # fmt: skip

    def grad_x(g, y, x, grid, mode, padding, align, direction):
        _refuse(direction)
        if g[1] is None or mode == 1:  # the grid's gradient does not depend on x: of the nearest element it is zero
            return None
        return GridSamplerBackward.apply(y, x, grid, mode, padding, align, g[1])[0]

    def grad_grid(g, y, x, grid, mode, padding, align, direction):
        _refuse(direction)
        return _sum(
            GridSamplerBackward.apply(y, g[0], grid, mode, padding, align)[1] if g[0] is not None else None,
            GridSamplerBackward.apply(y, x, grid, mode, padding, align, g[1])[1] if g[1] is not None else None,
        )


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else a + b


_SAMPLER = {dims: under_name(GridSampler, f"GridSampler{dims}D") for dims in (2, 3)}


def _check(x: Tensor, grid: Tensor, mode: int) -> None:
    shape, places = list(x.shape), list(grid.shape)
    if x.dtype is not grid.dtype:
        raise RuntimeError(
            "grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{_cpp(x)} and grid has {_cpp(grid)}"
        )
    if shape[:1] != places[:1]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{shape} and grid with sizes {places}"
        )
    if not places or places[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but got grid with sizes "
            f"{places}"
        )
    for d, n in enumerate(shape[2:], 2):
        if n <= 0:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {shape} "
                f"with dimension {d} being empty"
            )
    if len(shape) not in (4, 5) or len(shape) != len(places):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{shape} and grid with sizes {places}"
        )
    if len(shape) == 5 and mode == 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if x._layout.dtype.category != 2:
        raise not_implemented_for(f"grid_sampler_{len(shape) - 2}d_cpu_kernel_impl", x.dtype)


def _cpp(x: Tensor) -> str:
    return str(x.dtype).rpartition(".")[2]


@functools.partial(public, method_too=False)
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
                 align_corners: bool) -> Tensor:  # fmt: skip
    """``nn.functional.grid_sample`` with modes by numbers: bilinear, nearest, bicubic; zeros, border, reflection."""
    result: Tensor = _sampling(input, grid, interpolation_mode, padding_mode, align_corners)
    return result


@settled(2)
def _sampling(input: Tensor, grid: Tensor, mode: int, padding: int, align: bool) -> Any:
    """What ``grid_sampler`` calls, and its arguments after both tensors."""
    mode = int_argument("grid_sampler", "interpolation_mode", 3, mode)
    padding = int_argument("grid_sampler", "padding_mode", 4, padding)
    if mode not in range(3) or padding not in range(3):  # PyTorch reads memory that it has not written then
        raise ValueError(
            f"grid_sampler(): interpolation_mode and padding_mode should be 0, 1 or 2, but got {mode} and {padding}"
        )
    _check(input, grid, mode)
    return _SAMPLER[input.ndim - 2], (mode, padding, bool(align))


@functools.partial(public, method_too=False)
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
                    align_corners: bool) -> Tensor:  # fmt: skip
    """``grid_sampler`` of images."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


@functools.partial(public, method_too=False)
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
                    align_corners: bool) -> Tensor:  # fmt: skip
    """``grid_sampler`` of volumes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


@functools.partial(public, module="nn.functional")
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:  # fmt: skip
    """The values of ``input`` (n, c, h, w), or (n, c, d, h, w), at the places of ``grid`` (n, *places, 2 or 3).

    A place is x, y (, z) from -1 to 1: of the outermost elements with ``align_corners``, else of their outer edges.
    mode: "bilinear", "nearest", or of images "bicubic". padding_mode: what lies outside, "zeros", "border" or
    "reflection". ValueError for another mode, RuntimeError where shapes or dtypes do not fit.
    """
    if mode not in _MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=user_level())
    return grid_sampler(input, grid, _MODES.index(mode), _PADDINGS.index(padding_mode), bool(align_corners))


# -- grids ------------------------------------------------------------------------------------------------


def _points(like: Layout, sizes: Sequence[int], align_corners: bool) -> Tensor:
    """The places of a grid of ``sizes``, a row of coordinates and 1 each."""
    dims, axes, options = len(sizes), [], {"dtype": like.dtype, "device": like.device}
    for d, n in enumerate(sizes[::-1]):
        line = linspace(-1, 1, n, **options) if n > 1 else linspace(0, 0, 1, **options)
        # In PyTorch's order of rounding: an identity map lies on samples, where the derivative is discontinuous.
        line = line if align_corners else line * (n - 1) / n
        shape = [1] * dims
        shape[dims - 1 - d] = n
        axes.append(line.reshape(shape).expand(sizes).unsqueeze(-1))
    ones = linspace(1, 1, 1, **options).expand((*sizes, 1))
    return cat([*axes, ones], -1).reshape((-1, dims + 1))


def _affine_reference(theta: Any, size: Any, align_corners: bool) -> Any:
    axes = [np.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n) for n in size[2:]]
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:])], -1)
    return np.einsum("...j,nij->n...i", places, theta)


class AffineGridGenerator(Structured):
    """The places to which affine maps ``theta`` (n, d, d + 1) bring those of a grid of ``size`` (n, c, *sizes).

    Linear, so that nothing is saved and a graph may be run backward more than once.
    """

    linear, batch, reference = ("theta",), merged_batch, _affine_reference
    samples = cases(
        lambda: (draw(2, 2, 3), (2, 1, 3, 2), True),
        lambda: (draw(1, 3, 4), (1, 1, 2, 3, 2), False),
    )

    def forward(theta, size, align_corners):
        theta, sizes = theta.detach(), tuple(size)[2:]
        places = matmul(_points(theta._layout, sizes, align_corners), theta.transpose(-2, -1))
        return places.reshape((*theta.shape[:-2], *sizes, len(sizes)))

    def grad_theta(g, theta_layout, size, align_corners):
        sizes = tuple(size)[2:]
        rows = g.reshape((*theta_layout.shape[:-2], -1, len(sizes)))
        return matmul(rows.transpose(-2, -1), _points(theta_layout, sizes, align_corners))


@functools.partial(public, method_too=False)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """The places to which affine maps ``theta`` (n, d, d + 1) bring those of a grid of ``size`` (n, c, *sizes)."""
    n, dims = size[0], len(size) - 2
    if theta.ndim == 3 and tuple(theta.shape[::2]) != (n, dims + 1):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{n}, {dims + 1}] but got: "
            f"[{theta.shape[0]}, {theta.shape[2]}]."
        )
    return AffineGridGenerator.apply(theta, tuple(size), bool(align_corners))


@functools.partial(public, module="nn.functional")
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid for ``grid_sample`` of affine maps ``theta`` (n, 2, 3), or (n, 3, 4), and results of ``size``.

    ValueError where these do not fit.
    """
    if align_corners is None:
        warnings.warn(_CHANGED, stacklevel=user_level())
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    dims = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got "
            f"{theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This "
            "is not an intended use case of affine_grid. See the documentation of affine_grid for details.",
            stacklevel=user_level(),
        )  # fmt: skip
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, align_corners)
