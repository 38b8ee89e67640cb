"""Recurrent layers as ops, each a layer in one direction: LSTM, GRU, and the plain one with tanh or relu.

x is (steps, samples, features), or (rows, features) with ``starts``, the first row of each step and the number of all:
then samples are sorted by length, and a step is of the first of them. Weights are PyTorch's, biases None or both there.
Results: the state after each step in the shape of x, the states after each sample's last step, and what backward needs.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from jitgrad.core.layout import CAPACITY, Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_rules import BatchedCall, one_by_one
from jitgrad.dispatch.declaration_checks import parameters_of
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import recurrent as kernels
from jitgrad.ops.nn.recurrent_steps import Gru, Lstm, Relu, Tanh, Weights, layer_gradients
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous

__all__ = ["GruLayer", "LstmLayer", "RecurrentLayer", "RnnLayer"]

_WEIGHTS = Weights._fields


@functools.lru_cache(256)
def _starts(steps: int, samples: int, starts: tuple[int, ...] | None) -> Any:
    """The first row of each step as an array."""
    found = np.arange(steps + 1, dtype=np.int64) * samples if starts is None else np.array(starts, np.int64)
    found.flags.writeable = False
    return found


def _starts_of(shape: Sequence[int], starts: tuple[int, ...] | None) -> Any:
    return _starts(0, 0, starts) if starts is not None else _starts(shape[0], shape[1], None)


def _array(x: Tensor | None) -> Any:
    """The row-major array of a tensor; None for None."""
    return None if x is None else (x if x._layout.contiguous else contiguous(unrecorded(x)))._data


def _rows(x: Tensor | None) -> Any:
    """The same as a matrix."""
    if x is None or x._layout.ndim == 2:
        return _array(x)
    *lead, features = x._layout.shape
    return _array(x).reshape(math.prod(lead), features)


def _new(like: Layout, *shape: int) -> Tensor:
    layout = intern(like.numpy_dtype, shape, None, like.device)
    return wrap(empty_for(layout), layout)


@functools.lru_cache(CAPACITY)
def _planned(x: Layout, h: Layout, n: int, gates: int, kept: int, starts: tuple[int, ...] | None) -> tuple[Any, ...]:
    """(the starts, the layouts of states, of the last ones, of gates and what is kept beside them)."""
    *lead, _ = x.shape
    rows, (samples, width) = math.prod(lead), h.shape
    shapes = (*lead, width), (samples, width), (samples, n), (rows, gates * n), (rows, kept * n)
    return _starts_of(x.shape, starts), *[intern(x.numpy_dtype, shape, None, x.device) for shape in shapes]


def _made(*layouts: Layout) -> list[Tensor]:
    return [wrap(empty_for(layout), layout) for layout in layouts]


def _like(x: Tensor) -> Any:
    """A new array, from where those of tensors are: large ones are kept for the next time."""
    return _new(x._layout, *x._layout.shape)._data


def _batched(call: BatchedCall) -> Any:
    """Inputs and states of a batch are those of more samples; weights of a batch are other layers."""
    x, starts = call.whole("x"), call["starts"]
    if call.batched - {"x", "h0", "c0"}:
        return one_by_one(call)
    size, states = call.size, [n for n in ("h0", "c0") if n in call.args]

    def inner(t: Tensor, dim: int) -> Tensor:
        moved = t.movedim(0, dim)
        return moved.reshape(*moved.shape[: dim - 1], -1, *moved.shape[dim + 1 :])

    def outer(t: Tensor, dim: int) -> Tensor:
        return t.reshape(*t.shape[: dim - 1], -1, size, *t.shape[dim:]).movedim(dim, 0)

    dim = x._layout.ndim - 2
    given = {n: inner(call.whole(n), 1) for n in states}
    found = call.run(x=inner(x, dim), starts=None if starts is None else tuple(s * size for s in starts), **given)
    ends = 1 + len(states)
    return tuple([outer(t, dim if k == 0 or (k >= ends and t._layout.ndim == 3) else 1) for k, t in enumerate(found)])


class RecurrentLayer(Structured, abstract=True):
    """Base of the layers: a subclass has forward, ``kernels``, and names its states and cell.

    Its rules are made here: all gradients together, step by step in differentiable ops, of which each takes its own.
    """

    multiple_results = True
    batch = _batched
    states: ClassVar[tuple[str, ...]] = ("h0",)
    cell_of: ClassVar[Any]  # the Cell, given all arguments by name

    def __init_subclass__(cls, abstract: bool = False, **kwargs: Any) -> None:
        if not abstract:
            names = parameters_of(cls.forward)[0]
            for name in ("x", *cls.states, *(n for n in _WEIGHTS if n in names)):
                setattr(cls, f"grad_{name}", _rule(cls, name, ("g", *names)))
        super().__init_subclass__(abstract=abstract, **kwargs)


def _rule(cls: type[RecurrentLayer], wanted: str, names: tuple[str, ...]) -> Any:
    """The differentiable gradient of one input, as a function of these parameters."""

    def rule(*args: Any) -> Any:
        given = dict(zip(names, args, strict=True))
        g, x = given["g"], given["x"]
        starts = _starts_of(x.shape, given["starts"]).tolist()
        weights = Weights(*[given.get(n) for n in _WEIGHTS])  # type: ignore[arg-type]
        rows = None if g[0] is None else g[0].reshape(-1, g[0].shape[-1])
        found = layer_gradients(cls.cell_of(given), (rows, *g[1 : 1 + len(cls.states)]), x.reshape(-1, x.shape[-1]),
                                [given[s] for s in cls.states], weights, starts, given["reverse"])[wanted]  # fmt: skip
        return found.reshape(x.shape) if wanted == "x" else found

    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    rule.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return staticmethod(rule)


def _wanted(wants: Sequence[str], **inputs: Tensor | None) -> dict[str, Tensor]:
    """New tensors for the gradients of those inputs that want one; of states in any case, as kernels work in them."""
    found = {}
    for name, x in inputs.items():
        if x is not None and (name in wants or name[1:] == "0"):
            found[name] = _new(x._layout, *x._layout.shape)
    return found


def _sample(steps: Any, gates: int, relu: tuple[bool, ...] = (), reverse: bool = False, projected: int = 0) -> Any:
    """The arguments of a sample: 2 features, 3 hidden ones, 2 samples; ``steps`` or the starts of packed ones."""
    packed = not isinstance(steps, int)
    x, width = (draw(steps[-1], 2) if packed else draw(steps, 2, 2)), projected or 3
    biases = (None, None) if reverse else (draw(3 * gates, seed=3), draw(3 * gates, seed=4))
    states = [draw(2, width, seed=1), *([draw(2, 3, seed=5)] if gates == 4 else [])]
    more = [draw(projected, 3, seed=6) if projected else None] if gates == 4 else []
    return (x, *states, draw(3 * gates, 2), draw(3 * gates, width, seed=2), *biases, *more, *relu,
            steps if packed else None, reverse)  # fmt: skip


class LstmLayer(RecurrentLayer):
    """An LSTM layer: (hidden, h, c, gates, cells), with gates i, f, g, o; w_hr projects hidden states."""

    name, grad_name, states = "_lstm_layer", "MkldnnRnnLayerBackward0", ("h0", "c0")
    results, constants = ("hidden", "h", "c", "gates", "cells"), ("gates", "cells")
    cell_of = staticmethod(lambda given: Lstm)
    samples = cases(
        lambda: _sample(3, 4),
        lambda: _sample((0, 2, 4, 5), 4, reverse=True),
        lambda: _sample((0, 2, 3), 4, projected=2),
    )

    def forward(x, h0, c0, w_ih, w_hh, b_ih=None, b_hh=None, w_hr=None, starts=None, reverse=False):
        places, *layouts = _planned(x._layout, h0._layout, c0._layout.shape[1], 4, 1, starts)
        hidden, h, c, gates, cells = _made(*layouts)
        arrays = [_array(t) for t in (h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr)]
        launch(kernels.lstm, _rows(x), *arrays, gates._data, cells._data, _rows(hidden), h._data, c._data, places,
               reverse)  # fmt: skip
        return hidden, h, c, gates, cells

    def kernels(wants, g, x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, hidden, gates, cells, starts, reverse):
        found = _wanted(wants, x=x, h0=h0, c0=c0, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh, w_hr=w_hr)
        arrays = [_array(t) for t in (h0, c0, w_ih, w_hh, w_hr, gates, cells)]
        outs = [_array(found.get(n)) for n in ("h0", "c0", *_WEIGHTS)]
        launch(kernels.lstm_gradient, _rows(g[0]), _array(g[1]), _array(g[2]), _rows(x), *arrays, _rows(hidden),
               _like(gates), _rows(found.get("x")), *outs, _starts_of(x._layout.shape, starts), reverse)  # fmt: skip
        return found


class GruLayer(RecurrentLayer):
    """A GRU layer: (hidden, h, gates, kept), with gates r, z, n; kept is the state's share of n."""

    name, grad_name = "_gru_layer", "StackBackward0"
    results, constants = ("hidden", "h", "gates", "kept"), ("gates", "kept")
    cell_of = staticmethod(lambda given: Gru)
    samples = cases(lambda: _sample(3, 3), lambda: _sample((0, 2, 4, 5), 3, reverse=True))

    def forward(x, h0, w_ih, w_hh, b_ih=None, b_hh=None, starts=None, reverse=False):
        places, *layouts = _planned(x._layout, h0._layout, h0._layout.shape[1], 3, 1, starts)
        hidden, h, gates, kept = _made(*layouts[:2], *layouts[3:])
        arrays = [_array(t) for t in (h0, w_ih, w_hh, b_ih, b_hh)]
        launch(kernels.gru, _rows(x), *arrays, gates._data, kept._data, _rows(hidden), h._data, places, reverse)
        return hidden, h, gates, kept

    def kernels(wants, g, x, h0, w_ih, w_hh, b_ih, b_hh, hidden, gates, kept, starts, reverse):
        found = _wanted(wants, x=x, h0=h0, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh)
        arrays = [_array(t) for t in (h0, w_ih, w_hh, gates, kept)]
        outs = [_array(found.get(n)) for n in ("h0", *_WEIGHTS[:4])]
        launch(kernels.gru_gradient, _rows(g[0]), _array(g[1]), _rows(x), *arrays, _rows(hidden), _like(gates),
               _like(gates), _rows(found.get("x")), *outs, _starts_of(x._layout.shape, starts), reverse)  # fmt: skip
        return found


class RnnLayer(RecurrentLayer):
    """A layer of tanh, or relu, of the sum of the inputs' and the states' share: (hidden, h)."""

    name, grad_name, results = "_rnn_layer", "StackBackward0", ("hidden", "h")
    cell_of = staticmethod(lambda given: Relu if given["relu"] else Tanh)
    samples = cases(lambda: _sample(3, 1, (False,)), lambda: _sample((0, 2, 4, 5), 1, (True,), True))

    def forward(x, h0, w_ih, w_hh, b_ih=None, b_hh=None, relu=False, starts=None, reverse=False):
        places, *layouts = _planned(x._layout, h0._layout, h0._layout.shape[1], 0, 0, starts)
        hidden, h = _made(*layouts[:2])
        arrays = [_array(t) for t in (h0, w_ih, w_hh, b_ih, b_hh)]
        launch(kernels.rnn, _rows(x), *arrays, _rows(hidden), h._data, relu, places, reverse)
        return hidden, h

    def kernels(wants, g, x, h0, w_ih, w_hh, b_ih, b_hh, hidden, relu, starts, reverse):
        found = _wanted(wants, x=x, h0=h0, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh)
        arrays = [_array(t) for t in (h0, w_ih, w_hh)]
        outs = [_array(found.get(n)) for n in ("h0", *_WEIGHTS[:4])]
        slopes = _like(hidden).reshape(-1, hidden.shape[-1])
        launch(kernels.rnn_gradient, _rows(g[0]), _array(g[1]), _rows(x), *arrays, _rows(hidden), slopes,
               _rows(found.get("x")), *outs, relu, _starts_of(x._layout.shape, starts), reverse)  # fmt: skip
        return found
