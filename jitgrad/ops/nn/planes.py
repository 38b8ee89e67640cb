"""Elements of whole planes by their places: what pooling reads, and what unpooling and gradients write.

A plane, or volume, is the last dims of a tensor as one vector; a place is a number in it, -1 that of no element.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import wrap
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Written, row_major
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.loops import pool as kernels
from jitgrad.ops.indexing.places import places_for_samples
from jitgrad.ops.nn.taps import in_format_of
from jitgrad.ops.shape.slicing import zeros_of

__all__ = ["PutInPlanes", "TakeFromPlanes"]


def _outer(layout: Layout, dims: int) -> tuple[int, ...]:
    return layout.shape[: layout.ndim - dims]


def _batched(call: BatchedCall) -> Any:
    """Any dims may come first: the batch is one of them."""
    return call.run(x=call.whole("x"), places=call.whole("places"))


def _put(x: Any, places: Any, sizes: tuple[int, ...], add: bool = True, source: Any = None) -> Any:
    outer = x.shape[: x.ndim - len(sizes)]
    out = np.zeros((*outer, math.prod(sizes)))
    for k in np.ndindex(*outer):
        np.add.at(out[k], places[k].reshape(-1), x[k].reshape(-1))
    return out.reshape(*outer, *sizes)


class PutInPlanes(Structured):
    """Zeros (*, *sizes) with the elements of ``x`` (*, *m) added, or put, at ``places`` in each plane.

    Of several that are put at one place the last one stays, and all of them get its gradient. The result depends on
    ``source`` by name only, with a gradient of zeros: see taps.py.
    """

    linear, batch = ("x",), _batched
    samples = cases(lambda: (draw(2, 3), places_for_samples(1, 3, 1, 0, 2, 3).reshape(2, 3), (4,)))
    reference = _put

    def plan(x_layout, places_layout, sizes, add=True, source_layout=None):
        dims, outer = len(sizes), _outer(x_layout, len(sizes))
        out = intern(x_layout.numpy_dtype, (*outer, *sizes), None, x_layout.device)
        if not x_layout.numel or not out.numel:
            return lambda *_: zeros_of(out)
        rows, m = math.prod(outer), math.prod(x_layout.shape[x_layout.ndim - dims :])
        arrays = row_major("x", x_layout, (rows, m)), row_major("places", places_layout, (rows, m))
        made = Launches([(kernels.put_in_planes, *arrays, add, Written(0, (rows, math.prod(sizes))))], [out])
        return in_format_of(source_layout or x_layout, made, x=x_layout, places=places_layout, source=source_layout)

    def grad_x(g, places, sizes):
        return TakeFromPlanes.apply(g, places, len(sizes))

    def grad_source(source_layout):
        return zeros_of(source_layout)


def _take(x: Any, places: Any, dims: int) -> Any:
    outer = places.shape[: places.ndim - dims]
    flat = np.take_along_axis(x.reshape(*outer, -1), places.reshape(*outer, -1), -1)
    return flat.reshape(places.shape)


class TakeFromPlanes(Structured):
    """The elements of ``x``, whose last ``dims`` dims are planes, at ``places`` in them; of the shape of these."""

    linear, batch = ("x",), _batched
    samples = cases(lambda: (draw(2, 4), places_for_samples(1, 3, 1, 0, 2, 3).reshape(2, 3), 1))
    reference = _take

    def plan(x_layout, places_layout, dims):
        out = intern(x_layout.numpy_dtype, places_layout.shape, None, x_layout.device)
        if not out.numel:
            return lambda *_: wrap(empty_for(out), out)
        rows = math.prod(_outer(x_layout, dims))
        sizes = [math.prod(t.shape[t.ndim - dims :]) for t in (x_layout, places_layout)]
        arrays = row_major("x", x_layout, (rows, sizes[0])), row_major("places", places_layout, (rows, sizes[1]))
        return Launches([(kernels.take_from_planes, *arrays, Written(0, (rows, sizes[1])))], [out])

    def grad_x(g, places, x_layout, dims):
        return PutInPlanes.apply(g, places, x_layout.shape[x_layout.ndim - dims :])
