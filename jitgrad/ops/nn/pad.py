"""Padding: by a constant, or by elements of the tensor itself (reflected, repeated at the edges, or going round)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import not_implemented_for
from jitgrad.core.layout import intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import rewritten
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import ints_argument, number_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import taps as kernels
from jitgrad.ops.creation.constants import convert_number, full
from jitgrad.ops.nn.taps import MAKERS, Map, Taps, in_format_of, listed, named_op, one_each

__all__ = ["ConstantPadNd", "pad"]


def _pairs(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """(before, after) of each dim, from the list that begins with the last dim's."""
    given = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)]
    return [(0, 0)] * (ndim - len(given)) + given[::-1]


def _padded(x: Any, pad: tuple[int, ...], value: Any = 0) -> Any:
    for d, (before, after) in enumerate(_pairs(pad, x.ndim)):
        x = x.take(range(max(0, -before), x.shape[d] + min(0, after)), d)
        x = np.pad(x, [(max(0, before), max(0, after)) if k == d else (0, 0) for k in range(x.ndim)],
                   constant_values=value)  # fmt: skip
    return x


class ConstantPadNd(Structured):
    """``x`` with ``value`` around it: ``pad`` lists how much before and after each dim, the last dim first.

    A negative number takes elements away.
    """

    batch = rewritten(lambda call, x, pad, value: call.run())
    samples = cases(
        lambda: (draw(2, 3), (1, 2)),
        lambda: (draw(2, 3, 2), (0, 1, -1, 2, 1, 0), 1.5),
        lambda: (draw(2, 1, 2, 2, 3), (1, 0, 0, 1, 1, 1, 0, 2, 1, 0)),
    )
    reference = _padded

    def tangents(args, tangents):
        return ConstantPadNd.apply(tangents[0], args[1], 0)

    def plan(x_layout, pad, value=0):
        pairs = _pairs(pad, x_layout.ndim)
        shape = tuple([n + sum(p) for n, p in zip(x_layout.shape, pairs, strict=True)])
        out = intern(x_layout.numpy_dtype, shape, None, x_layout.device)
        if not out.numel:
            return lambda x: wrap(empty_for(out), out)
        number = out.numpy_dtype.type(convert_number(value, out.dtype)).item()
        if not x_layout.numel:
            return lambda x: full(shape, number, dtype=out.dtype)
        merged = _merged(x_layout.shape, pairs)
        if merged is None:  # more than three dims of them: the first one on its own
            first = next(d for d, p in enumerate(pairs) if p != (0, 0))
            rest, own = pad[: 2 * (len(pairs) - 1 - first)], (0, 0) * (len(pairs) - 1 - first) + pairs[first]
            return lambda x: ConstantPadNd.forward(ConstantPadNd.forward(x, rest, value), own, value)
        outer, sizes, before, sums = merged
        source, target = row_major("x", x_layout, (outer, *sizes)), Written(0, (outer, *sums))
        made = Launches([(kernels.fill_around, source, *before, number, target)], [out])
        return in_format_of(x_layout, made, x=x_layout)

    def grad_x(g, pad):
        return ConstantPadNd.apply(g, tuple([-p for p in pad]), 0)


def _merged(
    shape: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """(outer, sizes, places before, new sizes) of an array of four dims; None where these are too few.

    Dims without padding are one with those before them.
    """
    merged: list[list[int]] = []  # size, before, after, from the last dim on
    size = 1
    for n, (before, after) in zip(shape[::-1], pairs[::-1], strict=True):
        if before or after:
            if size > 1 and merged:
                merged.append([size, 0, 0])
                size = 1
            merged.append([n * size, before * size, after * size])
            size = 1
        else:
            size *= n
    if len(merged) > 3:
        return None
    merged = merged[::-1]
    merged = [[1, 0, 0]] * (3 - len(merged)) + merged
    return size, tuple([m[0] for m in merged]), tuple([m[1] for m in merged]), tuple([sum(m) for m in merged])


def _around(input: Tensor, pad: Any, value: Any) -> Any:
    """What pads a tensor by a number, and the arguments of that."""
    pad = ints_argument("constant_pad_nd", "pad", 2, pad)
    value = number_argument("constant_pad_nd", "value", 3, value)
    if len(pad) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad length is "
            f"{len(pad)}while the input has {input.ndim}dimensions."
        )
    for n, (before, after) in zip(input.shape, _pairs(pad, input.ndim), strict=True):
        if n + min(0, before) < 0 or n + min(0, before) + min(0, after) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    return ConstantPadNd.apply, (pad, value)


_pad_around = settled(1)(_around)


@functools.partial(public, method_too=False)
def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """``input`` with ``value`` around it: ``pad`` lists how much before and after each dim, the last dim first.

    RuntimeError for an odd number of them, for too many, or where less than nothing would be left.
    """
    result: Tensor = _pad_around(input, tuple(pad) if type(pad) is list else pad, value)
    return result


# -- padding by the tensor's own elements ----------------------------------------------------------------


def _reflected(made: Map, real: Any) -> Taps:
    (before,), n = made.numbers, made.size
    places = np.abs(np.arange(made.new) - before)
    return one_each(np.where(places < n, places, 2 * n - 2 - places))


MAKERS["reflect"] = _reflected
MAKERS["replicate"] = lambda m, real: one_each(np.clip(np.arange(m.new) - m.numbers[0], 0, m.size - 1))


def _turned(made: Map, real: Any) -> Taps:
    """What is put before an end is taken from the other, of what a negative padding has left."""
    (before,), new = made.numbers, made.new
    left, right = max(before, 0), max(new - made.size - before, 0)
    first, count = max(-before, 0), new - left - right
    if count <= 0:
        return listed([((), ())] * new)
    return one_each(first + (np.arange(new) - left) % count)


MAKERS["circular"] = _turned

_NODES = {"reflect": "ReflectionPad{}D", "replicate": "ReplicationPad{}D", "circular": "CircularPad{}D"}
_DIMS = {1: "2D or 3D", 2: "3D or 4D", 3: "4D or 5D"}


def _check_own(input: Tensor, pairs: Sequence[tuple[int, int]], mode: str) -> None:
    """RuntimeError where a tensor has too few elements along a dim for what is to be put there."""
    dims, shape = len(pairs), input.shape
    if 0 in shape[max(0, len(shape) - dims - 1) :] and mode != "circular":
        raise RuntimeError(
            f"Expected {_DIMS[dims]} (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    for k in range(dims):
        d, (before, after) = len(shape) - 1 - k, pairs[-1 - k]
        n, new = shape[d], shape[d] + before + after
        if mode == "reflect" and max(before, after) >= n:
            raise RuntimeError(
                f"Argument #{4 + 2 * k}: Padding size should be less than the corresponding input dimension, but got: "
                f"padding ({before}, {after}) at dimension {d} of input {list(shape)}"
            )
        if mode == "circular" and max(before, after) > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if mode == "circular" and new < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
    if mode != "circular":
        _check_left(shape, pairs)
    if mode != "circular" and input._layout.dtype.category == 0:
        raise not_implemented_for(f"{'reflection' if mode == 'reflect' else 'replication'}_pad{dims}d", input.dtype)


def _check_left(shape: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
    """RuntimeError where less than nothing is left along a dim, or nothing along all of them."""
    first = len(shape) - len(pairs)
    left = [n + before + after for n, (before, after) in zip(shape[first:], pairs, strict=True)]
    if max(left) < 1:
        starts = {1: ("W",), 2: ("H", ", W"), 3: ("D", " H", ", W")}[len(pairs)]  # the commas are PyTorch's
        given = "".join(f"{start}: {n}" for start, n in zip(starts, shape[first:], strict=True))
        made = " ".join(f"{name}: {n}" for name, n in zip("DHW"[-len(pairs) :], left, strict=True))
        raise RuntimeError(f"input ({given}) is too small. Calculated output {made}")
    if min(left) < 0:
        negative = next(n for n in left if n < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative}: {[*shape[:first], *left]}")


def _own(input: Tensor, pad: tuple[int, ...], mode: str) -> Any:
    """What pads a tensor by its own elements, and the arguments of that."""
    dims = len(pad) // 2
    pairs = _pairs(pad, dims)
    _check_own(input, pairs, mode)
    sizes = input.shape[input.ndim - dims :]
    maps = tuple([Map(mode, n, n + b + a, (b,)) for n, (b, a) in zip(sizes, pairs, strict=True)])
    return named_op(_NODES[mode].format(dims), mode != "circular"), (maps,)


@settled(1)
def _padding(input: Tensor, pad: Any, mode: str, value: Any) -> Any:
    """What ``pad`` calls, and its arguments after ``input``."""
    pad = ints_argument("pad", "pad", 2, pad)
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(pad)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        return _around(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _NODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) not in (2, 4, 6) or input.ndim - len(pad) // 2 not in (1, 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor.\nSupported combinations for "
            "non-constant padding:\n  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: "
            "padding size = 4 (pads last 2 dimensions)\n  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    return _own(input, pad, mode)


@functools.partial(public, module="nn.functional")
def pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """``input`` with so much before and after each dim, the last dim first, as ``pad`` lists; negative: less.

    mode: "constant" (``value``, 0 if None), or the last one, two or three dims by their own elements: "reflect",
    "replicate" (the edge again and again), "circular". RuntimeError where sizes do not fit, NotImplementedError for
    another mode or number of dims.
    """
    result: Tensor = _padding(input, tuple(pad) if type(pad) is list else pad, mode, value)
    return result


