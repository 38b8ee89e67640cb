"""Resizing of signals, images and volumes: nearest, linear, cubic and Lanczos, with and without antialiasing."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import is_int
from jitgrad.ops.nn.avg_pool import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from jitgrad.ops.nn.taps import MAKERS, Map, Taps, listed, named_op, one_each
from jitgrad.ops.shape.copy import cast

__all__ = ["interpolate"]

# -- tables: the numbers of a Map are (align_corners, scale, which may be None) ---------------------------
# All is computed in the precision of the tensor, step by step as PyTorch does, so that the same elements are found.


def _step(made: Map, real: Any) -> Any:
    """How far apart the places are that the new elements are read from."""
    align, scale = made.numbers
    if align:
        return real(made.size - 1) / real(made.new - 1) if made.new > 1 else real(0)
    return real(1.0 / scale) if scale is not None and scale > 0 else real(made.size) / real(made.new)


def _places(made: Map, step: Any, real: Any, cubic: bool = False) -> Any:
    """Where between the elements each new one lies."""
    k = np.arange(made.new).astype(real)
    if made.numbers[0]:
        return step * k
    places = step * (k + real(0.5)) - real(0.5)
    return places if cubic else np.maximum(places, real(0))


def _nearest(made: Map, real: Any, shift: float = 0.0) -> Taps:
    step = _step(made._replace(numbers=(False, made.numbers[1])), real)
    places = step * (np.arange(made.new).astype(real) + real(shift))
    return one_each(np.minimum(np.floor(places.astype(np.float32)), made.size - 1))


def _linear(made: Map, real: Any) -> Taps:
    if made.size == made.new:
        return one_each(np.arange(made.new))
    places, last = _places(made, _step(made, real), real), made.size - 1
    low = np.minimum(places.astype(np.int64), last)
    high = np.clip(places - low.astype(real), real(0), real(1))
    return _of_columns((low, low + (low < last)), (real(1) - high, high))


def _of_columns(places: Sequence[Any], weights: Sequence[Any]) -> Taps:
    """Taps of new elements with equally many places: the first ones of all, the second ones, and so on."""
    return Taps(np.full(places[0].size, len(places)), np.stack(places, 1).ravel(), np.stack(weights, 1).ravel())


def _cubic_near(x: Any, a: Any) -> Any:
    """The cubic kernel of a parameter at distances from 0 to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _cubic_far(x: Any, a: Any) -> Any:
    """The cubic kernel of a parameter at distances from 1 to 2."""
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _cubic(made: Map, real: Any) -> Taps:
    places, last, a = _places(made, _step(made, real), real, cubic=True), made.size - 1, real(-0.75)
    low = np.minimum(np.floor(places), last).astype(np.int64)
    t = np.clip(places - low.astype(real), real(0), real(1))
    weights = _cubic_far(t + 1, a), _cubic_near(t, a), _cubic_near(1 - t, a), _cubic_far(1 - t + 1, a)
    return _of_columns([np.clip(low + j - 1, 0, last) for j in range(4)], weights)


def _wide_cubic(x: Any) -> Any:
    x = abs(x)
    return _cubic_near(x, -0.5) if x < 1 else _cubic_far(x, -0.5) if x < 2 else 0


def _lanczos(x: float) -> float:
    return float(np.sinc(x) * np.sinc(x / 3)) if abs(x) < 3 else 0.0


# {kind: (half the width of the filter, the filter)}
_FILTERS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "linear_aa": (1, lambda x: max(1 - abs(x), 0)),
    "cubic_aa": (2, _wide_cubic),
    "lanczos_aa": (3, _lanczos),
}  # fmt: skip


def _antialiased(made: Map, real: Any) -> Taps:
    half, weigh = _FILTERS[made.kind]
    step, found = _step(made, real), []
    support = real(half) * step if step >= 1 else real(half)
    inverse = real(1) / step if step >= 1 else real(1)
    for k in range(made.new):
        center = step * (real(k) + real(0.5))
        first = max(int(center - support + real(0.5)), 0)
        end = min(int(center + support + real(0.5)), made.size)
        weights = [real(weigh((real(j) - center + real(0.5)) * inverse)) for j in range(first, end)]
        total = sum(weights, real(0))
        found.append((range(first, end), [w / total for w in weights] if total else weights))
    return listed(found)


def _fixed_point(made: Map, real: Any) -> Taps:
    """The table of the Map in ``numbers`` with weights of 16 bits, as many of which as fit are behind the point."""
    (of,), found, largest = made.numbers, [], 0.0
    counts, places, weights = MAKERS[of.kind](of, np.float64)
    ends = np.cumsum(counts).tolist()
    for begin, end in zip([0, *ends], ends, strict=False):
        sums: dict[int, float] = {}  # at an edge one element stands for several
        for place, weight in zip(places[begin:end].tolist(), weights[begin:end].tolist(), strict=True):
            sums[place] = sums.get(place, 0.0) + float(weight)
            largest = max(largest, sums[place])
        found.append(sums)
    bits = next((b for b in range(22) if int(0.5 + largest * 2 ** (b + 1)) >= 1 << 15), 22)
    rounded = [[int(w * 2**bits + math.copysign(0.5, w)) / 2**bits for w in sums.values()] for sums in found]
    return listed([(tuple(sums), weights) for sums, weights in zip(found, rounded, strict=True)])


MAKERS |= {"nearest": _nearest, "nearest-exact": functools.partial(_nearest, shift=0.5)}
MAKERS |= {"linear": _linear, "cubic": _cubic, "fixed_point": _fixed_point}
MAKERS |= dict.fromkeys(_FILTERS, _antialiased)

# -- functions --------------------------------------------------------------------------------------------

# {(mode, antialias): (kind of table, PyTorch's name of the node, its numbers of dims)}
_MODES = {
    ("nearest", False): ("nearest", "UpsampleNearest{}D", (1, 2, 3)),
    ("nearest-exact", False): ("nearest-exact", "UpsampleNearestExact{}D", (1, 2, 3)),
    ("linear", False): ("linear", "UpsampleLinear{}D", (1,)),
    ("bilinear", False): ("linear", "UpsampleBilinear{}D", (2,)),
    ("trilinear", False): ("linear", "UpsampleTrilinear{}D", (3,)),
    ("bicubic", False): ("cubic", "UpsampleBicubic{}D", (2,)),
    ("bilinear", True): ("linear_aa", "UpsampleBilinear{}DAa", (2,)),
    ("bicubic", True): ("cubic_aa", "UpsampleBicubic{}DAa", (2,)),
    ("lanczos", True): ("lanczos_aa", "UpsampleLanczos{}DAa", (2,)),
}
_AXES = "DHW"


def _resize(mode: str, antialias: bool, input: Tensor, sizes: Sequence[int] | None, align: bool,
            scales: Sequence[float | None] | None) -> Tensor:  # fmt: skip
    function, given = _resizing(mode, antialias, input, sizes, align, scales)
    result: Tensor = function(input, *given)
    return result


def _rounded(input: Tensor, function: Any, maps: Any) -> Tensor:
    """Bytes, whose halves go up, as PyTorch's rounding of its fixed-point numbers has it."""
    return cast((function(cast(input, dtypes.float32), maps) + 0.5).floor().clamp(0, 255), input.dtype)


def _rounded_along_each(input: Tensor, function: Any, maps: Any) -> Tensor:
    """Bytes along one dim after the other, the last first, with weights of 16 bits and sums that are bytes again.

    So what a cubic overshoots is cut off in between, as in PyTorch. Sums are exact: in single precision they are while
    weights have no more than 15 bits behind the point, as they have unless many elements become one.
    """
    changed = [d for d, m in enumerate(maps) if m.size != m.new]  # other dims stay as they are, whatever the scale
    for d in reversed(changed):
        whole, m = [Map("same", n, n) for n in input.shape[2:]], maps[d]
        whole[d] = Map("fixed_point", m.size, m.new, (m,))
        wide = cast(input, dtypes.float32 if m.size <= 2 * m.new else dtypes.float64)
        sums = function(wide, tuple(whole)) + 0.5
        input = cast(sums if m.kind.startswith("linear") else sums.clamp(0, 255), input.dtype)
    return input if changed else input.clone()


def _resizing(mode: str, antialias: bool, input: Tensor, sizes: Sequence[int] | None, align: bool,
              scales: Sequence[float | None] | None) -> Any:  # fmt: skip
    """What resizes ``input``, and its arguments after that."""
    kind, title, _ = _MODES[mode, antialias]
    dims = input.ndim - 2
    old = input.shape[2:]
    if sizes is None:
        sizes = [int(n * (s or 0)) for n, s in zip(old, scales or (), strict=True)]
    sizes, scales = [int(n) for n in sizes], list(scales or [None] * dims)
    if min(*old, *sizes) <= 0:
        a, b = (", ".join(f"{d}: {n}" for d, n in zip(_AXES[-dims:], v, strict=True)) for v in (old, sizes))
        joined = " and" if dims == 1 else ""
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input ({a}){joined} output ({b})"
        )
    if not input.shape[1]:
        raise RuntimeError(
            f"Non-empty {dims + 2}D data tensor expected but got a tensor with sizes {list(input.shape)}"
        )
    maps = tuple([Map(kind, n, k, (align, s)) for n, k, s in zip(old, sizes, scales, strict=True)])
    function, dtype = named_op(title.format(dims)), input.dtype
    if dtype.name == "uint8" and not kind.startswith("nearest"):
        return (_rounded_along_each if dims == 2 else _rounded), (function, maps)
    if dtype.name != "uint8" and input._layout.dtype.category != 2:
        name = {"nearest": "upsample_nearest{}d_channels_last", "nearest-exact": "upsample_nearest{}d_channels_last",
                "bilinear": "upsample_bilinear{}d_channels_last"}.get(mode)  # fmt: skip
        name = name if name and dims == 2 else f"compute_indices_weights_{kind.split('_')[0].split('-')[0]}"
        raise not_implemented_for(name.format(dims), dtype)
    return function, (maps,)


def _sizes(input: Tensor, size: Any, scale_factor: Any) -> tuple[list[int] | None, list[float] | None]:
    """(new sizes, None) or (None, factors), one for each dim of space."""
    dims = input.ndim - 2
    given = {"size": size, "scale_factor": scale_factor}
    name = "size" if size is not None else "scale_factor"
    values, what = given[name], "output" if size is not None else "scale_factor"
    if isinstance(values, (list, tuple)) and len(values) != dims:
        shown = f"output size of {size}" if size is not None else f"scale_factor of shape {scale_factor}"
        letter = "o" if size is not None else "s"
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and {shown}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{'output size' if size is not None else 'scale_factor'} in ({letter}1, {letter}2, ...,{letter}K) format."
        )
    listed = list(values) if isinstance(values, (list, tuple)) else [values] * dims
    if size is None:
        return None, listed
    if not all(map(is_int, listed)):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
            f"with types {[type(x) for x in listed]}"
        )
    return [int(n) for n in listed], None


@functools.partial(public, module="nn.functional")
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """``input`` (n, c, *sizes) resized to ``size``, or by ``scale_factor``.

    mode: "nearest", "nearest-exact", "area", for three dims "linear", for four "bilinear", "bicubic" and "lanczos", for
    five "trilinear". align_corners: whether the first and last elements stay where they are, else the edges do.
    antialias: by filters as wide as the steps where an image gets smaller. ValueError or NotImplementedError for what
    does not go together.
    """
    size = tuple(size) if isinstance(size, (list, tuple)) else size
    factor = tuple(scale_factor) if type(scale_factor) is list else scale_factor
    result: Tensor = _interpolating(input, size, factor, mode, align_corners, recompute_scale_factor, antialias)
    return result


@settled(1)
def _interpolating(
    input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None,
    recompute_scale_factor: bool | None, antialias: bool,
) -> Any:  # fmt: skip
    """What ``interpolate`` calls, and its arguments after ``input``."""
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    sizes, scales = _sizes(input, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if scales is not None and (recompute_scale_factor or mode == "area"):
        sizes, scales = [int(n * s) for n, s in zip(input.shape[2:], scales, strict=True)], None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    dims = input.ndim - 2
    if mode == "area" and dims in (1, 2, 3):
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[dims - 1], (sizes,)
    if mode == "lanczos" and dims == 2:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    if dims in _MODES.get((mode, bool(antialias)), ("", "", ()))[2]:
        return _resizing(mode, bool(antialias), input, sizes, bool(align_corners), scales)
    needed = {"linear": 3, "bilinear": 4, "trilinear": 5}.get(mode)
    if needed and dims in (1, 2, 3):
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {needed}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: nearest | "
        f"linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def _deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=user_level()
    )


@functools.partial(public, module="nn.functional")
def upsample(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: bool | None = None) -> Tensor:  # fmt: skip
    """``interpolate`` under its old name, with a warning."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@functools.partial(public, module="nn.functional")
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with mode "nearest", with a warning."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@functools.partial(public, module="nn.functional")
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with mode "bilinear" and ``align_corners``, with a warning."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


@functools.partial(public, method_too=False)
def _upsample_bilinear2d_aa(input: Tensor, output_size: Any, align_corners: bool, scales_h: Any = None,
                            scales_w: float | None = None, *, scale_factors: Any = None) -> Tensor:  # fmt: skip
    """Images resized by "bilinear" with antialiasing: to a size, or by factors, or both for other steps."""
    scales = scales_h if isinstance(scales_h, (list, tuple)) else scale_factors or (scales_h, scales_w)
    return _resize("bilinear", True, input, output_size, align_corners, scales)
