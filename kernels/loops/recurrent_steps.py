"""Steps of recurrent layers: all of a layer in one direction.

Rows of data are the steps one after another, and within a step its samples. ``starts`` has the first row of each step,
and last the number of rows: samples are sorted by length, so step t is of samples 0 to starts[t + 1] - starts[t]. The
state of samples, h and c, is changed from step to step in place: what no step reaches any more has its last value.
Samples do not depend on one another, so each thread takes a block of them through all steps.

The products of inputs with their weights, and of their gradients, are made here too where ``x_weight``, the packed
weights, is not empty: then what one step writes is read from a near cache.

Slices of rows have loops of their own: indices that are sums keep loops from being vectorised.
"""


from __future__ import annotations

from jitgrad.kernels.launch import loop
from jitgrad.kernels.loops.products import fill_panel
from jitgrad.kernels.words import sigmoid, tanh
from jitgrad.kernels.words.vocabulary import T, gemm

__all__ = [
    "gru_slopes", "gru_steps", "lstm_slopes", "lstm_steps", "outputs_before_projection", "pack", "rnn_slopes",
    "rnn_steps", "states_before", "sum_rows_into",
]  # fmt: skip

_WORK = 9  # from 1 << (this + 12) multiplications on two threads are clearly quicker
_SMALL = 4096  # multiplications up to which a loop is quicker than a call of BLAS


def multiply_packed(x, y, out, keep):
    """out (+)= x @ y. Rows of x and out are contiguous.

    y is packed: blocks of columns, as many as a panel of tiles has, in each of which a row's numbers lie side by side.
    BLAS packs it anew for each product, which takes as long as a product of 16 rows.
    """
    (rows, columns), width, inner = out.shape, y.shape[1], x.shape[1]
    x_row, out_row = x.strides[0] // x.itemsize, out.strides[0] // out.itemsize
    for column in range(0, columns, width):
        fill_panel(x, x_row, 1, y, column * inner, width, inner, out, column, out_row, rows, keep)


def multiply(function, x, y, form, out, keep):
    """out (+)= x @ y, with y as it is, transposed (form 1) or packed (form 2); by BLAS if ``function`` is not 0."""
    inner, columns = x.shape[1], out.shape[1]
    if form == 2:
        multiply_packed(x, y, out, keep)
        return
    turned = form == 1
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


def step_at(k, starts, backwards, last):
    """(t, its first row, the sample behind those before ``last`` that take it) of the k-th step, from either end."""
    t = starts.size - 2 - k if backwards else k
    return t, starts[t], min(last, starts[t + 1] - starts[t])


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
def lstm_steps(gates, h, c, x, x_weight, bias, weight, form, projection, work, out, cells, starts, reverse, function,
               blocks, first, last):  # fmt: skip
    """gates: the inputs' share, which become the gates i, f, g, o. work: room for what is projected."""
    steps, n = starts.size - 1, c.shape[1]
    first, last = samples_of(h, blocks, first, last)
    candidate_bias, out_bias = bias[2 * n : 3 * n], bias[3 * n :]
    for k in range(steps):
        _, begin, end = step_at(k, starts, reverse, last)
        if end <= first:
            continue
        shares = gates[begin + first : begin + end]
        if x_weight.size:
            multiply_packed(x[begin + first : begin + end], x_weight, shares, False)
        multiply(function, h[first:end], weight, form, shares, True)
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
            multiply(function, work[first:end], projection, 1, h[first:end], False)
        copy_rows(h, out[begin + first :], first, end)


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def lstm_slopes(slopes, dh, dc, dx, x_weight, g, gates, cells, c0, weight, form, projection, work, projected, starts,
                reverse, function, blocks, first, last):  # fmt: skip
    """slopes: the gradients of the gates' arguments. g: those of ``out``, or empty.

    projected: room for the gradients of what a projection returned.
    """
    steps, n = starts.size - 1, dc.shape[1]
    first, last = samples_of(dh, blocks, first, last)
    for k in range(steps):
        t, begin, end = step_at(k, starts, not reverse, last)
        if end <= first:
            continue
        if g.size:
            add_rows(g[begin + first :], dh, first, end)
        above = dh
        if projection.size:
            copy_rows(dh, projected[begin + first :], first, end)
            multiply(function, dh[first:end], projection, 0, work[first:end], False)
            above = work
        for i in range(first, end):
            z, s, slope, cell, old = gates[begin + i], slopes[begin + i], dc[i], cells[begin + i], above[i]
            at = row_before(starts, t, reverse, i)
            earlier = cells[at] if at >= 0 else c0[i]
            take, forget, candidate, give = z[:n], z[n : 2 * n], z[2 * n : 3 * n], z[3 * n :]
            d_take, d_forget, d_candidate, d_give = s[:n], s[n : 2 * n], s[2 * n : 3 * n], s[3 * n :]
            for j in range(n):
                v = tanh(cell[j])
                d_give[j] = old[j] * v * give[j] * (1.0 - give[j])
                slope[j] += old[j] * give[j] * (1.0 - v * v)
            for j in range(n):
                d_take[j] = slope[j] * candidate[j] * take[j] * (1.0 - take[j])
            for j in range(n):
                d_candidate[j] = slope[j] * take[j] * (1.0 - candidate[j] * candidate[j])
            for j in range(n):
                d_forget[j] = slope[j] * earlier[j] * forget[j] * (1.0 - forget[j])
                slope[j] *= forget[j]
        multiply(function, slopes[begin + first : begin + end], weight, form, dh[first:end], False)
        if x_weight.size:
            multiply_packed(slopes[begin + first : begin + end], x_weight, dx[begin + first : begin + end], False)


@loop(reassoc=True)
def outputs_before_projection(gates, cells, out):
    """o tanh(c), row by row."""
    for r in range(out.shape[0]):
        z, cell, target = gates[r], cells[r], out[r]
        for j in range(target.size):
            target[j] = z[3 * target.size + j] * tanh(cell[j])


# -- GRU ----------------------------------------------------------------------------------------------------


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def gru_steps(gates, h, x, x_weight, bias, hidden_bias, weight, form, work, out, kept, starts, reverse, function,
              blocks, first, last):  # fmt: skip
    """gates: the inputs' share, which become r, z, n. kept: the state's share of n, which r multiplies."""
    steps, n = starts.size - 1, h.shape[1]
    first, last = samples_of(h, blocks, first, last)
    new_bias, state_bias = bias[2 * n :], hidden_bias[2 * n :]
    for k in range(steps):
        _, begin, end = step_at(k, starts, reverse, last)
        if end <= first:
            continue
        if x_weight.size:
            multiply_packed(x[begin + first : begin + end], x_weight, gates[begin + first : begin + end], False)
        multiply(function, h[first:end], weight, form, work[first:end], False)
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
def gru_slopes(slopes, dh, dx, x_weight, g, gates, kept, out, h0, weight, form, hidden_slopes, starts, reverse,
               function, blocks, first, last):  # fmt: skip
    """slopes, hidden_slopes: the gradients of the inputs' and of the states' shares."""
    steps, n = starts.size - 1, dh.shape[1]
    first, last = samples_of(dh, blocks, first, last)
    for k in range(steps):
        t, begin, end = step_at(k, starts, not reverse, last)
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
                d_new[j] = slope[j] * (1.0 - update[j]) * (1.0 - new[j] * new[j])
            for j in range(n):
                d_update[j] = slope[j] * (earlier[j] - new[j]) * update[j] * (1.0 - update[j])
            for j in range(n):
                both[j] = d_new[j] * keep[j] * reset[j] * (1.0 - reset[j])
            for j in range(2 * n):
                share[j] = both[j]
            for j in range(n):
                d_from_state[j] = d_new[j] * reset[j]
            for j in range(n):
                slope[j] *= update[j]
        multiply(function, hidden_slopes[begin + first : begin + end], weight, form, dh[first:end], True)
        if x_weight.size:
            multiply_packed(slopes[begin + first : begin + end], x_weight, dx[begin + first : begin + end], False)


# -- a plain layer -----------------------------------------------------------------------------------------


@loop(pieces=_blocks, grain=1 << 12, reassoc=True)
def rnn_steps(out, h, x, x_weight, bias, weight, form, relu, starts, reverse, function, blocks, first, last):
    """out: the inputs' share, which becomes tanh or relu of it with the state's."""
    steps, n = starts.size - 1, h.shape[1]
    first, last = samples_of(h, blocks, first, last)
    for k in range(steps):
        _, begin, end = step_at(k, starts, reverse, last)
        if end <= first:
            continue
        shares = out[begin + first : begin + end]
        if x_weight.size:
            multiply_packed(x[begin + first : begin + end], x_weight, shares, False)
        multiply(function, h[first:end], weight, form, shares, True)
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
def rnn_slopes(slopes, dh, dx, x_weight, g, out, weight, form, relu, starts, reverse, function, blocks, first, last):
    """slopes: the gradients of what tanh or relu was taken of."""
    steps, n = starts.size - 1, dh.shape[1]
    first, last = samples_of(dh, blocks, first, last)
    for k in range(steps):
        _, begin, end = step_at(k, starts, not reverse, last)
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
                    s[j] = slope[j] * (1.0 - z[j] * z[j])
        multiply(function, slopes[begin + first : begin + end], weight, form, dh[first:end], False)
        if x_weight.size:
            multiply_packed(slopes[begin + first : begin + end], x_weight, dx[begin + first : begin + end], False)


# -- around the steps -----------------------------------------------------------------------------------------


def _panels(weight, turned, out):
    return weight.shape[1 - turned] // out.shape[1], weight.size


@loop(pieces=_panels, grain=1 << 14, parts_per_thread=1)
def pack(weight, turned, out, first, last):
    """A matrix, or its transpose (``turned`` 1), in blocks of columns, as ``multiply_packed`` takes it."""
    width, inner = out.shape[1], weight.shape[turned]
    for panel in range(first, last):
        target, column = out[panel * inner : (panel + 1) * inner], panel * width
        if turned:
            for j in range(width):
                row = weight[column + j]
                for k in range(inner):
                    target[k, j] = row[k]
        else:
            for k in range(inner):
                row, place = weight[k, column : column + width], target[k]
                for j in range(width):
                    place[j] = row[j]


def _steps(out, h0, starts, reverse, earlier):
    return starts.size - 1, out.size


@loop(pieces=_steps, parts_per_thread=1)
def states_before(out, h0, starts, reverse, earlier, first, last):
    """The states ahead of all steps."""
    for t in range(first, last):
        for i in range(starts[t + 1] - starts[t]):
            at = row_before(starts, t, reverse, i)
            row, target = out[at] if at >= 0 else h0[i], earlier[starts[t] + i]
            for j in range(row.size):
                target[j] = row[j]


_LINE = 32  # columns of a piece: whole lines of a cache


def _lines(x, out):
    return -(-out.size // _LINE), x.size


@loop(pieces=_lines, parts_per_thread=1)
def sum_rows_into(x, out, first, last):
    """The sum of the rows."""
    begin, end = first * _LINE, min(last * _LINE, out.size)
    total = out[begin:end]
    total[:] = T(0)
    for r in range(x.shape[0]):
        row = x[r, begin:end]
        for j in range(row.size):
            total[j] += row[j]
