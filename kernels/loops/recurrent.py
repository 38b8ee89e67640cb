"""Recurrent layers as kernels: all steps of a layer in one direction, forward and backward, in one launch.

Weights are packed once for all steps (``recurrent_steps.py``). The gradients of weights are one product each after the
steps; so are inputs times weights ahead of them, and gradients times weights after them, where a step has few samples.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.device_array import DeviceArray, run_on_device
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.loops.matmul import multiply_into
from jitgrad.kernels.loops.recurrent_steps import (
    gru_slopes,
    gru_steps,
    lstm_slopes,
    lstm_steps,
    outputs_before_projection,
    pack,
    rnn_slopes,
    rnn_steps,
    states_before,
    sum_rows_into,
)  # fmt: skip
from jitgrad.kernels.processor import cpu_features
from jitgrad.kernels.product_parts import INNER_BY_BLAS, inner_product_entry
from jitgrad.kernels.threads import get_num_threads
from jitgrad.kernels.tile_products import PANEL
from jitgrad.kernels.words.syntax import parameters

__all__ = ["gru", "gru_gradient", "lstm", "lstm_gradient", "rnn", "rnn_gradient"]

_SAMPLES = 4  # the least in a block: with fewer the weights are read for too little
_PACKED_FROM = 4  # steps from which weights are packed once: BLAS packs them anew for each product
_ROWS = 8  # samples from which a step's product with packed weights is as quick as one of all inputs
_PACKS = bool({"fma", "neon"} & cpu_features())


def _layer(*writes):
    """Wrap a layer as a kernel, which keeps BLAS to one thread; ``writes`` names the outputs."""

    def wrap(function):
        places = parameters(function)
        where = places.index("x")

        def run(*args):
            if isinstance(args[where], DeviceArray):
                return run_on_device(function.__name__, args)
            with one_thread if INNER_BY_BLAS else nullcontext():
                return function(*args)

        return Kernel(function.__name__, run, tuple(places.index(w) for w in writes))

    return wrap


def _product(out, starts):
    """The entry for products, and the number of blocks: no step of one is of fewer samples than _SAMPLES."""
    return inner_product_entry(out.dtype.char), max(1, min(get_num_threads(), int(starts[1]) // _SAMPLES))


def _weight(weight, form, starts):
    """The weights of the states, as they are (form 0) or transposed (1), packed (2) where there are several steps."""
    columns, width = weight.shape[1 - form], PANEL // weight.itemsize
    if starts.size <= _PACKED_FROM or columns % width or not _PACKS or weight.dtype.char not in "fd":
        return weight, form
    packed = np.empty((weight.size // width, width), weight.dtype)
    pack.call(weight, form, packed)
    return packed, 2


def _inputs(weight, form, samples, starts):
    """The weights of the inputs if they are packed, for products step by step; else an array without elements.

    Of few samples a step's product is slow, as it waits for one sum; all inputs together are many rows in any case.
    """
    found, packed = _weight(weight, form, starts)
    return found if packed == 2 and samples >= _ROWS else found[:0]


def _weight_gradients(found, slopes, hidden_slopes, x, weight, out, h0, starts, reverse):
    """Write the gradients of the inputs, of both weights and of both biases, those of them that are wanted."""
    dx, d_ih, d_hh, b_ih, b_hh = found
    if dx is not None:
        multiply_into(slopes, weight, dx)
    if d_ih is not None:
        multiply_into(slopes.T, x, d_ih)
    if d_hh is not None:
        earlier = np.empty_like(out)
        states_before.call(out, h0, starts, reverse, earlier)
        multiply_into(hidden_slopes.T, earlier, d_hh)
    if b_ih is not None:
        sum_rows_into.call(slopes, b_ih)
    if b_hh is not None and hidden_slopes is slopes and b_ih is not None:
        np.copyto(b_hh, b_ih)
    elif b_hh is not None:
        sum_rows_into.call(hidden_slopes, b_hh)


def _bias(b_ih, b_hh, like, columns):
    """The sum of both biases, or zeros."""
    return np.zeros(columns, like.dtype) if b_ih is None else b_ih + b_hh


@_layer("gates", "cells", "out", "h", "c")
def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, gates, cells, out, h, c, starts, reverse):
    """A layer in one direction. gates, cells: what backward needs. h, c: the states after each sample's last step."""
    np.copyto(h, h0)
    np.copyto(c, c0)
    inputs = _inputs(w_ih, 1, len(h), starts)
    if not inputs.size:
        multiply_into(x, w_ih.T, gates)
    weight, form = _weight(w_hh, 1, starts)
    projection = h[:0] if w_hr is None else w_hr
    work = np.empty_like(c) if w_hr is not None else c
    bias = _bias(b_ih, b_hh, h, gates.shape[1])
    lstm_steps.call(gates, h, c, x, inputs, bias, weight, form, projection, work, out, cells, starts,
                    reverse, *_product(out, starts))  # fmt: skip


@_layer("slopes", "dx", "dh", "dc", "d_ih", "d_hh", "db_ih", "db_hh", "d_hr")
def lstm_gradient(g, gh, gc, x, h0, c0, w_ih, w_hh, w_hr, gates, cells, out, slopes, dx, dh, dc, d_ih, d_hh, db_ih,
                  db_hh, d_hr, starts, reverse):  # fmt: skip
    """Gradients from those of ``out`` and of the last states, each None for zeros; what is None isn't wanted.

    slopes: room for the gradients of what gates are functions of, row by row.
    """
    _start(dh, gh)
    _start(dc, gc)
    projection = dh[:0] if w_hr is None else w_hr
    work, projected = (np.empty_like(dc), np.empty_like(out)) if w_hr is not None else (dc, dh)
    above, (weight, form) = dh[:0] if g is None else g, _weight(w_hh, 0, starts)
    inputs = dh[:0] if dx is None else _inputs(w_ih, 0, len(dh), starts)
    lstm_slopes.call(slopes, dh, dc, dh if dx is None else dx, inputs, above, gates, cells, c0, weight, form,
                     projection, work, projected, starts, reverse, *_product(out, starts))  # fmt: skip
    wanted = None if inputs.size else dx, d_ih, d_hh, db_ih, db_hh
    _weight_gradients(wanted, slopes, slopes, x, w_ih, out, h0, starts, reverse)
    if d_hr is not None:
        hidden = np.empty_like(cells)
        outputs_before_projection.call(gates, cells, hidden)
        multiply_into(projected.T, hidden, d_hr)


def _start(state, g):
    """Begin with the gradient of the last states."""
    if g is None:
        state[...] = 0
    else:
        np.copyto(state, g)


@_layer("gates", "kept", "out", "h")
def gru(x, h0, w_ih, w_hh, b_ih, b_hh, gates, kept, out, h, starts, reverse):
    """A layer in one direction. gates, kept: what backward needs. h: the states after each sample's last step."""
    np.copyto(h, h0)
    inputs = _inputs(w_ih, 1, len(h), starts)
    if not inputs.size:
        multiply_into(x, w_ih.T, gates)
    weight, form = _weight(w_hh, 1, starts)
    nothing = np.zeros(gates.shape[1] if b_ih is None else 0, out.dtype)
    biases = (nothing, nothing) if b_ih is None else (b_ih, b_hh)
    work = np.empty((h.shape[0], gates.shape[1]), out.dtype)
    gru_steps.call(gates, h, x, inputs, *biases, weight, form, work, out, kept, starts, reverse, *_product(out, starts))


@_layer("slopes", "hidden_slopes", "dx", "dh", "d_ih", "d_hh", "db_ih", "db_hh")
def gru_gradient(g, gh, x, h0, w_ih, w_hh, gates, kept, out, slopes, hidden_slopes, dx, dh, d_ih, d_hh, db_ih, db_hh,
                 starts, reverse):  # fmt: skip
    """Gradients from those of ``out`` and of the last states, each None for zeros; what is None isn't wanted."""
    _start(dh, gh)
    above, (weight, form) = dh[:0] if g is None else g, _weight(w_hh, 0, starts)
    inputs = dh[:0] if dx is None else _inputs(w_ih, 0, len(dh), starts)
    gru_slopes.call(slopes, dh, dh if dx is None else dx, inputs, above, gates, kept, out, h0, weight, form,
                    hidden_slopes, starts, reverse, *_product(out, starts))  # fmt: skip
    wanted = None if inputs.size else dx, d_ih, d_hh, db_ih, db_hh
    _weight_gradients(wanted, slopes, hidden_slopes, x, w_ih, out, h0, starts, reverse)


@_layer("out", "h")
def rnn(x, h0, w_ih, w_hh, b_ih, b_hh, out, h, relu, starts, reverse):
    """A layer in one direction. h: the states after each sample's last step."""
    np.copyto(h, h0)
    inputs = _inputs(w_ih, 1, len(h), starts)
    if not inputs.size:
        multiply_into(x, w_ih.T, out)
    weight, form = _weight(w_hh, 1, starts)
    rnn_steps.call(out, h, x, inputs, _bias(b_ih, b_hh, h, out.shape[1]), weight, form, relu, starts, reverse,
                   *_product(out, starts))  # fmt: skip


@_layer("slopes", "dx", "dh", "d_ih", "d_hh", "db_ih", "db_hh")
def rnn_gradient(g, gh, x, h0, w_ih, w_hh, out, slopes, dx, dh, d_ih, d_hh, db_ih, db_hh, relu, starts, reverse):
    """Gradients from those of ``out`` and of the last states, each None for zeros; what is None isn't wanted."""
    _start(dh, gh)
    above, (weight, form) = dh[:0] if g is None else g, _weight(w_hh, 0, starts)
    inputs = dh[:0] if dx is None else _inputs(w_ih, 0, len(dh), starts)
    rnn_slopes.call(slopes, dh, dh if dx is None else dx, inputs, above, out, weight, form, relu, starts, reverse,
                    *_product(out, starts))  # fmt: skip
    wanted = None if inputs.size else dx, d_ih, d_hh, db_ih, db_hh
    _weight_gradients(wanted, slopes, slopes, x, w_ih, out, h0, starts, reverse)
