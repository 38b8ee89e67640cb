"""PyTorch's functions of recurrent layers: stacks of layers in one or both directions, and single cells."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core.errors import invalid_combination, must_be, must_be_tensor, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import CAPACITY, Layout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.parameter_types import explained
from jitgrad.dispatch.sizes import as_flag, float_argument, int_argument
from jitgrad.ops.nn.dropout import dropout as dropped
from jitgrad.ops.nn.margin_losses import at_top
from jitgrad.ops.nn.recurrent import GruLayer, LstmLayer, RnnLayer
from jitgrad.ops.nn.recurrent_steps import Cell, Gru, Lstm, Relu, Tanh, Weights, unrolled
from jitgrad.ops.shape.join import cat, stack

__all__: list[str] = []

_REST = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"
_NAMES = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")


# -- a layer in one direction ---------------------------------------------------------------------------


def _check_dtypes(x: Layout, others: Sequence[Layout | None]) -> None:
    for t in others:
        if t is not None and t.dtype is not x.dtype:
            one, other = sorted((scalar_type(x.dtype), scalar_type(t.dtype)), key=lambda n: n != "Double")
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {one} and {other}")


def _check_product(x: Sequence[int], weight: Sequence[int]) -> None:
    if x[1] != weight[1]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({x[0]}x{x[1]} and {weight[1]}x{weight[0]})")


@functools.lru_cache(CAPACITY)
def _check(
    cell: type[Cell], x: Layout, starts: Any, states: tuple[Layout, ...], given: tuple[Layout | None, ...]
) -> None:  # fmt: skip
    """RuntimeError where dtypes or shapes do not fit: kernels trust them."""
    _check_dtypes(x, (*states, *given))
    w_ih, w_hh, *biases, w_hr = (None if w is None else tuple(w.shape) for w in given)
    *lead, features = x.shape
    rows, samples = (x.shape[0] * x.shape[1], x.shape[1]) if starts is None else (starts[-1], starts[1])
    if math.prod(lead) != rows:
        raise RuntimeError(f"batch_sizes say {rows} rows of data, but there are {math.prod(lead)}")
    assert w_ih is not None and w_hh is not None
    _check_product((rows, features), w_ih)
    _check_product(states[0].shape, w_hh)
    for state in states:
        if state.shape[0] != samples:
            raise RuntimeError(
                f"The size of tensor a ({samples}) must match the size of tensor b ({state.shape[0]}) at non-singleton "
                "dimension 0"
            )
    n, shown = states[-1].shape[1], states[0].shape[1]
    width = cell.gates * n
    projects = shown == n if w_hr is None else w_hr == (shown, n)
    if not w_ih[0] == w_hh[0] == width or not projects or any(b not in (None, (width,)) for b in biases):
        raise RuntimeError(f"weights and biases of {cell.gates} gates of {n} numbers do not fit")


def _layout(x: Tensor | None) -> Any:
    return None if x is None else x._layout


def _layer(
    cell: type[Cell], x: Tensor, starts: tuple[int, ...] | None, states: Sequence[Tensor], w: Weights, reverse: bool
) -> tuple[Tensor, ...]:  # fmt: skip
    """(the states after each step, those after the last) of a layer in one direction."""
    # A layout of a batch's samples belongs to its vmap, which no cache should keep.
    check: Any = _check.__wrapped__ if grad_state.levels else _check
    check(cell, x._layout, starts, tuple(map(_layout, states)), tuple(map(_layout, w)))
    if x._layout.dtype.is_complex or (w.b_ih is None) != (w.b_hh is None):
        steps, samples = x.shape[0], states[0].shape[0]
        given = starts or tuple(range(0, steps * samples + 1, samples))
        found = unrolled(cell, x.reshape(-1, x.shape[-1]), states, w, given, reverse)
        return found[0].reshape(*x.shape[:-1], found[0].shape[-1]), *found[1:]
    if cell is Lstm:
        return LstmLayer.apply(x, *states, *w, starts, reverse)[:3]
    if cell is Gru:
        return GruLayer.apply(x, *states, *w[:4], starts, reverse)[:2]
    return RnnLayer.apply(x, *states, *w[:4], cell is Relu, starts, reverse)


# -- stacks of layers -----------------------------------------------------------------------------------


def _weights_of(params: Sequence[Tensor], has_biases: bool, projected: bool, sets: int) -> list[Weights]:
    """The parameters of each layer and direction."""
    per = (4 if has_biases else 2) + projected
    if len(params) % per:
        raise RuntimeError("got an incorrect number of RNN parameters")
    if len(params) < per * sets:
        raise RuntimeError("Expected more weights in stacked_rnn")
    found = []
    for k in range(0, per * sets, per):
        given: list[Any] = list(params[k : k + per])
        last = given.pop() if projected else None
        found.append(Weights._make([*given, *([] if has_biases else [None, None]), last]))
    return found


def _stacked(
    cell: type[Cell], x: Tensor, starts: tuple[int, ...] | None, states: Sequence[Tensor], weights: Sequence[Weights],
    layers: int, dropout: float, bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """(the states of the last layer after each step, the last states of all layers and directions)."""
    directions = 1 + bidirectional
    for each in states:
        if each.ndim != 3:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{each.ndim}, {each.ndim - 1}], but "
                             "got 2)")  # fmt: skip
        if each.shape[0] < layers * directions:
            raise RuntimeError("Expected more hidden states in stacked_rnn")
    parts = [s.unbind(0) for s in states]
    last: list[list[Tensor]] = [[] for _ in states]
    for layer in range(layers):
        outs = []
        for k in range(layer * directions, (layer + 1) * directions):
            out, *ends = _layer(cell, x, starts, [p[k] for p in parts], weights[k], bool(k % directions))
            outs.append(out)
            for ended, end in zip(last, ends, strict=True):
                ended.append(end)
        x = outs[0] if not bidirectional else cat(outs, -1)
        if dropout and layer < layers - 1:
            x = dropped(x, dropout, True)
    return x, *[stack(ended) for ended in last]


def _recurrent(name: str, cell: type[Cell], args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Tensor, ...]:
    """A function of (input, hx, params, ..., batch_first), or of packed (data, batch_sizes, hx, params, ...)."""
    several = cell is Lstm
    packed = "batch_sizes" in named or "data" in named
    if len(args) > 2 and isinstance(args[1], Tensor):
        packed = isinstance(args[2], (list, tuple) if several else Tensor)
    names = ("data", "batch_sizes", "hx", "params", *_NAMES[:5]) if packed else ("input", "hx", "params", *_NAMES)
    given: dict[str, Any] = dict(zip(names, args, strict=False)) | named
    x: Any
    params: Any
    x, hx, params = (given.get(n) for n in (names[0], "hx", "params"))
    states: Any = hx if several else (hx,)
    fits = isinstance(x, Tensor) and isinstance(states, (list, tuple)) and isinstance(params, (list, tuple))
    tensors = (*states, *params) if fits else ()
    if not fits or set(given) != set(names) or not all(isinstance(t, Tensor) for t in tensors):
        hidden = f"{'tuple of Tensors' if several else 'Tensor'} hx, tuple of Tensors params, {_REST}"
        raise invalid_combination(name, args, f"(Tensor data, Tensor batch_sizes, {hidden})",
                                  f"(Tensor input, {hidden}, bool batch_first)")  # fmt: skip
    if several and len(states) != 2:
        raise RuntimeError(f"{name} expects two hidden states")
    layers = int_argument(name, "num_layers", len(names) - 4, given["num_layers"])
    rate = float_argument(name, "dropout", len(names) - 3, given["dropout"]) if as_flag(given["train"]) else 0.0
    bidirectional, batch_first = as_flag(given["bidirectional"]), as_flag(given.get("batch_first", False))
    starts = _starts_of(given["batch_sizes"]) if packed else None
    if not packed:
        x = _checked(x, batch_first)
    projected = several and states[0].shape[-1] != states[1].shape[-1]
    weights = _weights_of(params, as_flag(given["has_biases"]), projected, layers * (1 + bidirectional))
    out, *last = _stacked(cell, x, starts, states, weights, layers, rate, bidirectional)
    return (out.transpose(0, 1) if batch_first else out), *last


def _checked(x: Tensor, batch_first: bool) -> Tensor:
    """The input with steps as dim 0."""
    if x.ndim != 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-{x.ndim - 1}, {x.ndim - 2}], but got {x.ndim - 1})"
        )
    x = x.transpose(0, 1) if batch_first else x
    if not x.shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    return x


def _starts_of(batch_sizes: Tensor) -> tuple[int, ...]:
    """The first row of each step, and the number of rows."""
    if batch_sizes.ndim != 1 or batch_sizes.dtype.name != "int64":
        raise RuntimeError("batch_sizes tensor should be a 1D int64 tensor")
    found, previous = [0], None
    for size in batch_sizes.tolist():
        if size < 0 or (previous is not None and size > previous):
            raise RuntimeError("batch_sizes must not grow from step to step")
        found.append(found[-1] + size)
        previous = size
    if len(found) == 1:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    return tuple(found)


def _function(name: str, cell: type[Cell], doc: str) -> None:
    def function(*args: Any, **named: Any) -> tuple[Tensor, ...]:
        return _recurrent(name, cell, args, named)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} See ``nn.{doc.split()[0]}``. RuntimeError for shapes, dtypes and numbers of parameters."
    at_top(function)


_function("lstm", Lstm, "LSTM layers, of (input, (h, c), params, ...): (output, h, c).")
_function("gru", Gru, "GRU layers, of (input, h, params, ...): (output, h).")
_function("rnn_tanh", Tanh, "RNN layers with tanh, of (input, h, params, ...): (output, h).")
_function("rnn_relu", Relu, "RNN layers with relu, of (input, h, params, ...): (output, h).")


# -- cells ------------------------------------------------------------------------------------------------


@functools.lru_cache(CAPACITY)
def _check_cell(gates: int, x: Layout, states: tuple[Layout, ...], given: tuple[Layout | None, ...]) -> None:
    """RuntimeError in PyTorch's words for cells where shapes do not fit."""
    if x.ndim != 2:
        raise RuntimeError(f"input must be a matrix, got {x.ndim}-D tensor")
    w_ih, w_hh, *biases, _ = (None if w is None else tuple(w.shape) for w in given)
    assert w_ih is not None and w_hh is not None
    if x.shape[1] != w_ih[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {x.shape[1]} expected {w_ih[1]}")
    size = w_hh[1]
    for k, state in enumerate(states):
        if state.shape[0] != x.shape[0]:
            raise RuntimeError(f"Input batch size {x.shape[0]} doesn't match hidden{k} batch size {state.shape[0]}")
        if state.shape[1] != size:
            raise RuntimeError(f"hidden{k} has inconsistent hidden_size: got {state.shape[1]}, expected {size}")
    for title, shape in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if shape[0] != gates * size:
            times = f"{gates} * hidden_size = {gates * size}"
            raise RuntimeError(f"{title} first dim must be {times}, but got {shape[0]}")
    for bias in biases:
        if bias is not None and bias[-1] != gates * size:
            raise RuntimeError(
                f"The expanded size of the tensor ({gates * size}) must match the existing size ({bias[-1]}) at "
                f"non-singleton dimension 1.  Target sizes: {[x.shape[0], gates * size]}.  Tensor sizes: {list(bias)}"
            )


def _cell(name: str, cell: type[Cell], x: Tensor, hx: Any, *weights: Any) -> tuple[Tensor, ...]:
    if not isinstance(x, Tensor):
        raise must_be_tensor(name, "input", 1, x)
    if cell is Lstm:
        if not isinstance(hx, (list, tuple)):
            raise must_be(name, "hx", 2, "tuple of Tensors", hx)
        if len(hx) != 2:
            raise RuntimeError("lstm_cell expects two hidden states")
        states: Sequence[Tensor] = hx
    elif not isinstance(hx, Tensor):
        raise must_be_tensor(name, "hx", 2, hx)
    else:
        states = (hx,)
    w = Weights(*weights)
    check: Any = _check_cell.__wrapped__ if grad_state.levels else _check_cell
    check(cell.gates, x._layout, tuple(map(_layout, states)), tuple(map(_layout, w)))
    return _layer(cell, x, (0, x.shape[0]), states, w, False)[1:]


@at_top
@explained
def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, ...]:  # fmt: skip
    """A step of an LSTM: (h', c') of input (n, m) and hx = (h, c), both (n, k). RuntimeError for sizes."""
    return _cell("lstm_cell", Lstm, input, hx, w_ih, w_hh, b_ih, b_hh)


def _single(name: str, cell: type[Cell], what: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Tensor:  # fmt: skip
        return _cell(name, cell, input, hx, w_ih, w_hh, b_ih, b_hh)[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A step of {what}: h' of input (n, m) and hx (n, k). RuntimeError for sizes."
    return at_top(explained(function))


_single("gru_cell", Gru, "a GRU")
_single("rnn_tanh_cell", Tanh, "a plain recurrent layer with tanh")
_single("rnn_relu_cell", Relu, "a plain recurrent layer with relu")
