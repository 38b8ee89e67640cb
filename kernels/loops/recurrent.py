"""Recurrent layers: all steps of a layer in one direction, forward and backward, in one launch.

Rows of data are the steps one after another, and within a step its samples. ``starts`` has the first row of each step,
and last the number of rows: samples are sorted by length, so step t is of samples 0 to starts[t + 1] - starts[t]. The
state of samples, h and c, is changed from step to step in place: what no step reaches any more has its last value.

The products of all inputs with their weights are one call of BLAS ahead of the steps, those for gradients of weights one
after them. Samples do not depend on one another, so each thread takes some of them through all steps.
"""

from __future__ import annotations

import functools

import numpy as np

from jitgrad.kernels.blas import address_of, one_thread
from jitgrad.kernels.launch import library, loop
from jitgrad.kernels.loops.matmul import dot
from jitgrad.kernels.threads import get_num_threads
from jitgrad.kernels.words import sigmoid, tanh
from jitgrad.kernels.words.vocabulary import T, gemm

__all__ = ["gru", "gru_gradient", "lstm", "lstm_gradient", "rnn", "rnn_gradient"]

_WORK = 9  # from 1 << (this + 12) multiplications on two threads are clearly quicker
_SMALL = 4096  # multiplications up to which a loop is quicker than a call of BLAS
_SAMPLES = 4  # the least in a block: with fewer the weights are read for too little
_TURNED_FROM = 4  # steps from which the weights are transposed once: BLAS reads them so in 0.6 of the time


@functools.cache
def _gemm(kind: str) -> int:
    letter = {"f": "s", "d": "d"}.get(kind)
    return address_of(f"scipy_cblas_{letter}gemm64_", f"cblas_{letter}gemm64_") if letter else 0


def multiply(function, x, y, turned, out, keep):
    """out (+)= x @ y, with y transposed if ``turned``; by BLAS if ``function`` is not 0."""
    inner, columns = x.shape[1], out.shape[1]
    if function != 0 and out.shape[0] > 1 and out.size * inner > _SMALL:
        gemm(function, x, False, y, turned, out, keep)
        return
    for i in range(out.shape[0]):
        left, target, k = x[i], out[i], 0
        if turned:
            while k + 4 <= columns:  # four sums at a time, which do not wait for one another
                first, second, third, fourth = y[k], y[k + 1], y[k + 2], y[k + 3]
                a, b, c, d = T(0), T(0), T(0), T(0)
                for j in range(inner):
                    a += left[j] * first[j]
                    b += left[j] * second[j]
                    c += left[j] * third[j]
                    d += left[j] * fourth[j]
                target[k] = target[k] + a if keep else a
                target[k + 1] = target[k + 1] + b if keep else b
                target[k + 2] = target[k + 2] + c if keep else c
                target[k + 3] = target[k + 3] + d if keep else d
                k += 4
            while k < columns:
                row, a = y[k], T(0)
                for j in range(inner):
                    a += left[j] * row[j]
                target[k] = target[k] + a if keep else a
                k += 1
            continue
        if not keep:
            target[:] = T(0)
        while k + 4 <= inner:
            first, second, third, fourth = y[k], y[k + 1], y[k + 2], y[k + 3]
            a, b, c, d = left[k], left[k + 1], left[k + 2], left[k + 3]
            for j in range(columns):
                target[j] += a * first[j] + b * second[j] + c * third[j] + d * fourth[j]
            k += 4
        while k < inner:
            a, row = left[k], y[k]
            for j in range(columns):
                target[j] += a * row[j]
            k += 1


def _blocks(gates, h, *rest):
    """(blocks of samples, work), for cutting the work."""
    return rest[-1], gates.size * h.shape[1] >> _WORK


def samples_of(h, blocks, first, last):
    """The first sample of block ``first`` and that of block ``last``."""
    return h.shape[0] * first // blocks, h.shape[0] * last // blocks


def add_rows(x, out, first, end):
    """Rows ``first`` to ``end`` of ``out`` plus the first of ``x``."""
    for i in range(first, end):
        row, target = x[i - first], out[i]
        for j in range(row.size):
            target[j] += row[j]


def copy_rows(x, out, first, end):
    """The first rows of ``out`` as rows ``first`` to ``end`` of ``x``."""
    for i in range(first, end):
        row, target = x[i], out[i - first]
        for j in range(row.size):
            target[j] = row[j]


def row_before(starts, t, reverse, i):
    """The row of the step that sample i took ahead of step t; -1 where that is its first."""
    if reverse:
        return starts[t + 1] + i if t + 2 < starts.size and i < starts[t + 2] - starts[t + 1] else -1
    return starts[t - 1] + i if t > 0 else -1


# -- LSTM ---------------------------------------------------------------------------------------------------


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def lstm_steps(gates, h, c, bias, weight, turned, projection, work, out, cells, starts, reverse, function, blocks, first, last):
    """gates: the inputs' share, which become the gates i, f, g, o. work: room for what is projected."""
    steps, n = starts.size - 1, c.shape[1]
    first, last = samples_of(h, blocks, first, last)
    candidate_bias, out_bias = bias[2 * n : 3 * n], bias[3 * n :]
    for k in range(steps):
        t = steps - 1 - k if reverse else k
        begin = starts[t]
        end = min(last, starts[t + 1] - begin)
        if end <= first:
            continue
        multiply(function, h[first:end], weight, turned, gates[begin + first : begin + end], True)
        target = work if projection.size else h
        for i in range(first, end):
            z, cell, state, hidden = gates[begin + i], cells[begin + i], c[i], target[i]
            take, forget, candidate, give = z[:n], z[n : 2 * n], z[2 * n : 3 * n], z[3 * n :]
            both = z[: 2 * n]
            for j in range(2 * n):
                both[j] = sigmoid(both[j] + bias[j])
            for j in range(n):
                candidate[j] = tanh(candidate[j] + candidate_bias[j])
            for j in range(n):
                give[j] = sigmoid(give[j] + out_bias[j])
            for j in range(n):
                state[j] = forget[j] * state[j] + take[j] * candidate[j]
            for j in range(n):
                cell[j] = state[j]
            for j in range(n):
                hidden[j] = give[j] * tanh(cell[j])
        if projection.size:
            multiply(function, work[first:end], projection, True, h[first:end], False)
        copy_rows(h, out[begin + first :], first, end)


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def lstm_slopes(slopes, dh, dc, g, gates, cells, c0, weight, projection, work, projected, starts, reverse, function, blocks,
                first, last):  # fmt: skip
    """slopes: the gradients of the gates' arguments. g: those of ``out``, or empty.

    projected: room for the gradients of what a projection returned.
    """
    steps, n = starts.size - 1, dc.shape[1]
    first, last = samples_of(dh, blocks, first, last)
    for k in range(steps):
        t = k if reverse else steps - 1 - k
        begin = starts[t]
        end = min(last, starts[t + 1] - begin)
        if end <= first:
            continue
        if g.size:
            add_rows(g[begin + first :], dh, first, end)
        above = dh
        if projection.size:
            copy_rows(dh, projected[begin + first :], first, end)
            multiply(function, dh[first:end], projection, False, work[first:end], False)
            above = work
        for i in range(first, end):
            z, s, slope, cell, old = gates[begin + i], slopes[begin + i], dc[i], cells[begin + i], above[i]
            at = row_before(starts, t, reverse, i)
            earlier = cells[at] if at >= 0 else c0[i]
            take, forget, candidate, give = z[:n], z[n : 2 * n], z[2 * n : 3 * n], z[3 * n :]
            d_take, d_forget, d_candidate, d_give = s[:n], s[n : 2 * n], s[2 * n : 3 * n], s[3 * n :]
            for j in range(n):
                v = tanh(cell[j])
                d_give[j] = old[j] * v * give[j] * (1 - give[j])
                slope[j] += old[j] * give[j] * (1 - v * v)
            for j in range(n):
                d_take[j] = slope[j] * candidate[j] * take[j] * (1 - take[j])
            for j in range(n):
                d_candidate[j] = slope[j] * take[j] * (1 - candidate[j] * candidate[j])
            for j in range(n):
                d_forget[j] = slope[j] * earlier[j] * forget[j] * (1 - forget[j])
                slope[j] *= forget[j]
        multiply(function, slopes[begin + first : begin + end], weight, False, dh[first:end], False)


@loop(reassoc=True)
def outputs_before_projection(gates, cells, out):
    """o tanh(c), row by row."""
    for r in range(out.shape[0]):
        z, cell, target = gates[r], cells[r], out[r]
        for j in range(target.size):
            target[j] = z[3 * target.size + j] * tanh(cell[j])


# -- GRU ----------------------------------------------------------------------------------------------------


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def gru_steps(gates, h, bias, hidden_bias, weight, turned, work, out, kept, starts, reverse, function, blocks, first, last):
    """gates: the inputs' share, which become r, z, n. kept: the state's share of n, which r multiplies."""
    steps, n = starts.size - 1, h.shape[1]
    first, last = samples_of(h, blocks, first, last)
    new_bias, state_bias = bias[2 * n :], hidden_bias[2 * n :]
    for k in range(steps):
        t = steps - 1 - k if reverse else k
        begin = starts[t]
        end = min(last, starts[t + 1] - begin)
        if end <= first:
            continue
        multiply(function, h[first:end], weight, turned, work[first:end], False)
        for i in range(first, end):
            z, share, state, keep = gates[begin + i], work[i], h[i], kept[begin + i]
            both, update, new, from_state = z[: 2 * n], z[n : 2 * n], z[2 * n :], share[2 * n :]
            for j in range(2 * n):
                both[j] = sigmoid(both[j] + share[j] + (bias[j] + hidden_bias[j]))
            for j in range(n):
                keep[j] = from_state[j] + state_bias[j]
            for j in range(n):
                new[j] = tanh(new[j] + new_bias[j] + z[j] * keep[j])
            for j in range(n):
                state[j] = new[j] + update[j] * (state[j] - new[j])
        copy_rows(h, out[begin + first :], first, end)


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def gru_slopes(slopes, dh, g, gates, kept, out, h0, weight, hidden_slopes, starts, reverse, function, blocks, first, last):
    """slopes, hidden_slopes: the gradients of the inputs' and of the states' shares."""
    steps, n = starts.size - 1, dh.shape[1]
    first, last = samples_of(dh, blocks, first, last)
    for k in range(steps):
        t = k if reverse else steps - 1 - k
        begin = starts[t]
        end = min(last, starts[t + 1] - begin)
        if end <= first:
            continue
        if g.size:
            add_rows(g[begin + first :], dh, first, end)
        for i in range(first, end):
            z, s, share, slope, keep = (
                gates[begin + i], slopes[begin + i], hidden_slopes[begin + i], dh[i], kept[begin + i]
            )  # fmt: skip
            at = row_before(starts, t, reverse, i)
            earlier = out[at] if at >= 0 else h0[i]
            reset, update, new, both = z[:n], z[n : 2 * n], z[2 * n :], s[: 2 * n]
            d_update, d_new, d_from_state = s[n : 2 * n], s[2 * n :], share[2 * n :]
            for j in range(n):
                d_new[j] = slope[j] * (1 - update[j]) * (1 - new[j] * new[j])
            for j in range(n):
                d_update[j] = slope[j] * (earlier[j] - new[j]) * update[j] * (1 - update[j])
            for j in range(n):
                both[j] = d_new[j] * keep[j] * reset[j] * (1 - reset[j])
            for j in range(2 * n):
                share[j] = both[j]
            for j in range(n):
                d_from_state[j] = d_new[j] * reset[j]
            for j in range(n):
                slope[j] *= update[j]
        multiply(function, hidden_slopes[begin + first : begin + end], weight, False, dh[first:end], True)


# -- a plain layer -----------------------------------------------------------------------------------------


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def rnn_steps(out, h, bias, weight, turned, relu, starts, reverse, function, blocks, first, last):
    """out: the inputs' share, which becomes tanh or relu of it with the state's."""
    steps, n = starts.size - 1, h.shape[1]
    first, last = samples_of(h, blocks, first, last)
    for k in range(steps):
        t = steps - 1 - k if reverse else k
        begin = starts[t]
        end = min(last, starts[t + 1] - begin)
        if end <= first:
            continue
        multiply(function, h[first:end], weight, turned, out[begin + first : begin + end], True)
        for i in range(first, end):
            z = out[begin + i]
            if relu:
                for j in range(n):
                    v = z[j] + bias[j]
                    z[j] = T(0) if v < 0 else v
            else:
                for j in range(n):
                    z[j] = tanh(z[j] + bias[j])
        for i in range(first, end):
            z, state = out[begin + i], h[i]
            for j in range(n):
                state[j] = z[j]


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def rnn_slopes(slopes, dh, g, out, weight, relu, starts, reverse, function, blocks, first, last):
    """slopes: the gradients of what tanh or relu was taken of."""
    steps, n = starts.size - 1, dh.shape[1]
    first, last = samples_of(dh, blocks, first, last)
    for k in range(steps):
        t = k if reverse else steps - 1 - k
        begin = starts[t]
        end = min(last, starts[t + 1] - begin)
        if end <= first:
            continue
        if g.size:
            add_rows(g[begin + first :], dh, first, end)
        for i in range(first, end):
            z, s, slope = out[begin + i], slopes[begin + i], dh[i]
            if relu:
                for j in range(n):
                    s[j] = slope[j] if z[j] > 0 else T(0)
            else:
                for j in range(n):
                    s[j] = slope[j] * (1 - z[j] * z[j])
        multiply(function, slopes[begin + first : begin + end], weight, False, dh[first:end], False)


# -- what all have in common --------------------------------------------------------------------------------


@loop
def states_before(out, h0, starts, reverse, earlier):
    """The states ahead of all steps."""
    for t in range(starts.size - 1):
        for i in range(starts[t + 1] - starts[t]):
            at = row_before(starts, t, reverse, i)
            row, target = out[at] if at >= 0 else h0[i], earlier[starts[t] + i]
            for j in range(row.size):
                target[j] = row[j]


@loop
def sum_rows_into(x, out):
    """The sum of the rows."""
    out[:] = T(0)
    for r in range(x.shape[0]):
        row = x[r]
        for j in range(out.size):
            out[j] += row[j]


def _product(out, starts):
    """The address of BLAS's product, and the number of blocks: each step of one is a product of a few samples at least."""
    samples = starts[1] - starts[0]
    return _gemm(out.dtype.char), max(1, min(get_num_threads(), samples // _SAMPLES))


def _weight(weight, starts):
    """The weights of the states as BLAS reads them best, and whether they are still transposed."""
    return (weight, True) if starts.size <= _TURNED_FROM else (np.ascontiguousarray(weight.T), False)


def _weight_gradients(found, slopes, hidden_slopes, x, weight, out, h0, starts, reverse):
    """Write the gradients of the inputs, of both weights and of both biases, those of them that are wanted."""
    dx, d_ih, d_hh, b_ih, b_hh = found
    if dx is not None:
        dot.call(slopes, weight, dx)
    if d_ih is not None:
        dot.call(slopes.T, x, d_ih)
    if d_hh is not None:
        earlier = np.empty_like(out)
        states_before.call(out, h0, starts, reverse, earlier)
        dot.call(hidden_slopes.T, earlier, d_hh)
    if b_ih is not None:
        sum_rows_into.call(slopes, b_ih)
    if b_hh is not None:
        sum_rows_into.call(hidden_slopes, b_hh)


def _bias(b_ih, b_hh, like, columns):
    """The sum of both biases, or zeros."""
    return np.zeros(columns, like.dtype) if b_ih is None else b_ih + b_hh


@library("gates", "cells", "out", "h", "c")
def lstm(x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, gates, cells, out, h, c, starts, reverse):
    """A layer in one direction. gates, cells: what backward needs. h, c: the states after each sample's last step."""
    np.copyto(h, h0)
    np.copyto(c, c0)
    with one_thread:
        dot.call(x, w_ih.T, gates)
        weight, turned = _weight(w_hh, starts)
        projection = h[:0] if w_hr is None else w_hr
        work = np.empty_like(c) if w_hr is not None else c
        lstm_steps.call(gates, h, c, _bias(b_ih, b_hh, h, gates.shape[1]), weight, turned, projection, work, out, cells,
                        starts, reverse, *_product(out, starts))  # fmt: skip


@library("dx", "dh", "dc", "d_ih", "d_hh", "db_ih", "db_hh", "d_hr")
def lstm_gradient(g, gh, gc, x, h0, c0, w_ih, w_hh, w_hr, gates, cells, out, dx, dh, dc, d_ih, d_hh, db_ih, db_hh, d_hr,
                  starts, reverse):  # fmt: skip
    """Gradients from those of ``out`` and of the last states, each None for zeros; those that are None aren't wanted."""
    _start(dh, gh)
    _start(dc, gc)
    slopes = np.empty_like(gates)
    with one_thread:
        projection = dh[:0] if w_hr is None else w_hr
        work, projected = (np.empty_like(dc), np.empty_like(out)) if w_hr is not None else (dc, dh)
        lstm_slopes.call(slopes, dh, dc, dh[:0] if g is None else g, gates, cells, c0, w_hh, projection, work,
                         projected, starts, reverse, *_product(out, starts))  # fmt: skip
        _weight_gradients((dx, d_ih, d_hh, db_ih, db_hh), slopes, slopes, x, w_ih, out, h0, starts, reverse)
        if d_hr is not None:
            hidden = np.empty_like(cells)
            outputs_before_projection.call(gates, cells, hidden)
            dot.call(projected.T, hidden, d_hr)


def _start(state, g):
    """Begin with the gradient of the last states."""
    if g is None:
        state[...] = 0
    else:
        np.copyto(state, g)


@library("gates", "kept", "out", "h")
def gru(x, h0, w_ih, w_hh, b_ih, b_hh, gates, kept, out, h, starts, reverse):
    """A layer in one direction. gates, kept: what backward needs. h: the states after each sample's last step."""
    np.copyto(h, h0)
    with one_thread:
        dot.call(x, w_ih.T, gates)
        weight, turned = _weight(w_hh, starts)
        nothing = np.zeros(gates.shape[1] if b_ih is None else 0, out.dtype)
        biases = (nothing, nothing) if b_ih is None else (b_ih, b_hh)
        work = np.empty((h.shape[0], gates.shape[1]), out.dtype)
        gru_steps.call(gates, h, *biases, weight, turned, work, out, kept, starts, reverse, *_product(out, starts))


@library("dx", "dh", "d_ih", "d_hh", "db_ih", "db_hh")
def gru_gradient(g, gh, x, h0, w_ih, w_hh, gates, kept, out, dx, dh, d_ih, d_hh, db_ih, db_hh, starts, reverse):
    """Gradients from those of ``out`` and of the last states, each None for zeros; those that are None aren't wanted."""
    _start(dh, gh)
    slopes, hidden_slopes = np.empty_like(gates), np.empty_like(gates)
    with one_thread:
        gru_slopes.call(slopes, dh, dh[:0] if g is None else g, gates, kept, out, h0, w_hh, hidden_slopes, starts,
                        reverse, *_product(out, starts))  # fmt: skip
        _weight_gradients((dx, d_ih, d_hh, db_ih, db_hh), slopes, hidden_slopes, x, w_ih, out, h0, starts, reverse)


@library("out", "h")
def rnn(x, h0, w_ih, w_hh, b_ih, b_hh, out, h, relu, starts, reverse):
    """A layer in one direction. h: the states after each sample's last step."""
    np.copyto(h, h0)
    with one_thread:
        dot.call(x, w_ih.T, out)
        weight, turned = _weight(w_hh, starts)
        rnn_steps.call(out, h, _bias(b_ih, b_hh, h, out.shape[1]), weight, turned, relu, starts, reverse,
                       *_product(out, starts))  # fmt: skip


@library("dx", "dh", "d_ih", "d_hh", "db_ih", "db_hh")
def rnn_gradient(g, gh, x, h0, w_ih, w_hh, out, dx, dh, d_ih, d_hh, db_ih, db_hh, relu, starts, reverse):
    """Gradients from those of ``out`` and of the last states, each None for zeros; those that are None aren't wanted."""
    _start(dh, gh)
    slopes = np.empty_like(out)
    with one_thread:
        rnn_slopes.call(slopes, dh, dh[:0] if g is None else g, out, w_hh, relu, starts, reverse,
                        *_product(out, starts))  # fmt: skip
        _weight_gradients((dx, d_ih, d_hh, db_ih, db_hh), slopes, slopes, x, w_ih, out, h0, starts, reverse)
