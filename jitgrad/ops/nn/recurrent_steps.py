"""Recurrent cells in differentiable ops, and layers of them step by step: what gradients of gradients are made of.

A cell knows its new states from its input's and its state's share of the gates, and, for backward, the gradients of
these shares and of the states. Rows of data are steps one after another: see ``kernels/loops/recurrent.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.ops.linalg.matmul import linear
from jitgrad.ops.linalg.matrix_products import Mm
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.split import chunk

__all__ = ["Cell", "Gru", "Lstm", "Relu", "Tanh", "Weights", "layer_gradients", "unrolled"]


class Weights(NamedTuple):
    """The parameters of a layer in one direction, as PyTorch names them; None for those that it does not have."""

    w_ih: Tensor
    w_hh: Tensor
    b_ih: Tensor | None = None
    b_hh: Tensor | None = None
    w_hr: Tensor | None = None


class Cell:
    """A kind of cell.

    gates: how many gates it has. step(x, h, states): the new states of the shares of input and state, and what backward
    needs. back(saved, *g): of the gradients of new states those of both shares, and what they add to those of the
    states before directly, None for nothing.
    """

    gates = 1

    @staticmethod
    def step(x: Tensor, h: Tensor, *states: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The cell forward."""
        raise NotImplementedError

    @staticmethod
    def back(saved: tuple[Tensor, ...], *g: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
        """The cell backward."""
        raise NotImplementedError


class Lstm(Cell):
    """c' = f c + i g and h' = o tanh(c') with gates i, f, g, o."""

    gates = 4

    @staticmethod
    def step(x, h, *states):
        """See ``Cell``."""
        before = states[1]
        i, f, g, o = chunk(x + h, 4, 1)
        i, f, g, o = table.sigmoid(i), table.sigmoid(f), table.tanh(g), table.sigmoid(o)
        c = f * before + i * g
        shown = table.tanh(c)
        return (o * shown, c), (before, i, f, g, o, shown)

    @staticmethod
    def back(saved, dh, dc):
        """See ``Cell``."""
        before, i, f, g, o, shown = saved
        dc = dc + dh * o * (1 - shown * shown)
        d_i, d_f, d_o = dc * g * i * (1 - i), dc * before * f * (1 - f), dh * shown * o * (1 - o)
        slopes = cat([d_i, d_f, dc * i * (1 - g * g), d_o], 1)
        return slopes, slopes, (None, dc * f)


class Gru(Cell):
    """h' = n + z (h - n), where n = tanh(x_n + r h_n), with gates r, z, n."""

    gates = 3

    @staticmethod
    def step(x, h, *states):
        """See ``Cell``."""
        (before,) = states
        (x_r, x_z, x_n), (h_r, h_z, h_n) = chunk(x, 3, 1), chunk(h, 3, 1)
        r, z = table.sigmoid(x_r + h_r), table.sigmoid(x_z + h_z)
        n = table.tanh(x_n + r * h_n)
        return (n + z * (before - n),), (before, r, z, n, h_n)

    @staticmethod
    def back(saved, dh):
        """See ``Cell``."""
        before, r, z, n, h_n = saved
        d_n = dh * (1 - z) * (1 - n * n)
        d_z, d_r = dh * (before - n) * z * (1 - z), d_n * h_n * r * (1 - r)
        return cat([d_r, d_z, d_n], 1), cat([d_r, d_z, d_n * r], 1), (dh * z,)


class Tanh(Cell):
    """h' = tanh(x + h)."""

    @staticmethod
    def step(x, h, *states):
        """See ``Cell``."""
        out = table.tanh(x + h)
        return (out,), (out,)

    @staticmethod
    def back(saved, dh):
        """See ``Cell``."""
        slopes = dh * (1 - saved[0] * saved[0])
        return slopes, slopes, (None,)


class Relu(Cell):
    """h' = relu(x + h)."""

    @staticmethod
    def step(x, h, *states):
        """See ``Cell``."""
        out = table.relu(x + h)
        return (out,), (out,)

    @staticmethod
    def back(saved, dh):
        """See ``Cell``."""
        slopes = table.where(saved[0] > 0, dh, 0)
        return slopes, slopes, (None,)


class _Step(NamedTuple):
    """A step that was taken: its rows, the state before, the state before projection, and what the cell saved."""

    begin: int
    size: int
    h: Tensor
    hidden: Tensor
    saved: tuple[Tensor, ...]


def _some(x: Tensor, count: int) -> Tensor:
    """The first rows."""
    return x if x.shape[0] == count else x.narrow(0, 0, count)


def _with(new: Tensor, old: Tensor) -> Tensor:
    """``old`` with its first rows replaced."""
    count, n = new.shape[0], old.shape[0]
    return new if count == n else cat([new, old.narrow(0, count, n - count)], 0)


def _run(
    cell: type[Cell], x: Tensor, states: Sequence[Tensor], w: Weights, starts: Sequence[int], reverse: bool
) -> tuple[list[Tensor], list[Tensor], list[_Step]]:
    """(the outputs of steps, the last states, the steps in the order in which they were taken)."""
    steps, outs, states, shares = [], [], list(states), linear(x, w.w_ih, w.b_ih)
    times = range(len(starts) - 1)
    for t in reversed(times) if reverse else times:
        begin, count = starts[t], starts[t + 1] - starts[t]
        given = [_some(s, count) for s in states]
        new, saved = cell.step(shares.narrow(0, begin, count), linear(given[0], w.w_hh, w.b_hh), *given)
        hidden = new[0]
        if w.w_hr is not None:
            new = (Mm.apply(hidden, w.w_hr.t()), *new[1:])
        steps.append(_Step(begin, count, given[0], hidden, saved))
        outs.append(new[0])
        states = [_with(n, s) for n, s in zip(new, states, strict=True)]
    return outs, states, steps


def unrolled(
    cell: type[Cell], x: Tensor, states: Sequence[Tensor], weights: Weights, starts: Sequence[int], reverse: bool
) -> tuple[Tensor, ...]:
    """(the outputs row by row, the last states) of a layer in one direction."""
    outs, states, _ = _run(cell, x, states, weights, starts, reverse)
    return cat(outs[::-1] if reverse else outs, 0), *states


def layer_gradients(
    cell: type[Cell], g: Sequence[Any], x: Tensor, states: Sequence[Tensor], w: Weights, starts: Sequence[int],
    reverse: bool,
) -> dict[str, Tensor]:  # fmt: skip
    """{"x", "h0", "c0", a weight: its gradient}, of the gradients of outputs and last states, None for zeros."""
    *_, steps = _run(cell, x, states, w, starts, reverse)
    slopes: list[tuple[Tensor, Tensor, Tensor]] = []  # of the inputs' share, of the states', of what is projected
    above = [s.new_zeros(s.shape) if d is None else d for s, d in zip(states, g[1:], strict=True)]
    for step in reversed(steps):
        given = [_some(d, step.size) for d in above]
        if g[0] is not None:
            given[0] = given[0] + g[0].narrow(0, step.begin, step.size)
        dh = given[0] if w.w_hr is None else Mm.apply(given[0], w.w_hr)
        share, state_share, direct = cell.back(step.saved, dh, *given[1:])
        slopes.append((share, state_share, given[0]))
        through = Mm.apply(state_share, w.w_hh)
        before = [through if direct[0] is None else through + direct[0], *direct[1:]]
        above = [_with(d, a) for d, a in zip(before, above, strict=True)]
    order = slice(None, None, 1 if reverse else -1)  # backward took the steps the other way round
    share, state_share, projected = (cat(list(each)[order], 0) for each in zip(*slopes, strict=True))
    in_rows = steps[::-1] if reverse else steps
    found = {
        "x": Mm.apply(share, w.w_ih), "w_ih": Mm.apply(share.t(), x),
        "w_hh": Mm.apply(state_share.t(), cat([s.h for s in in_rows], 0)),
        "b_ih": share.sum(0), "b_hh": state_share.sum(0),
    }  # fmt: skip
    if w.w_hr is not None:
        found["w_hr"] = Mm.apply(projected.t(), cat([s.hidden for s in in_rows], 0))
    return found | dict(zip(("h0", "c0"), above, strict=False))
