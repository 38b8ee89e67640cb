"""Cases: recurrent layers and cells, packed sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]

_WIDTH = 16


def _layer(gates: int, states: int) -> Callable[[np.random.Generator, int], list[np.ndarray]]:
    """x (steps, samples, 16) of about n numbers, states, weights."""

    def inputs(rng: np.random.Generator, n: int) -> list[np.ndarray]:
        samples = min(max(n // (8 * _WIDTH), 1), 32)
        steps, rows = max(n // (samples * _WIDTH), 1), gates * _WIDTH
        shapes = [(steps, samples, _WIDTH), *[(1, samples, _WIDTH)] * states, *[(rows, _WIDTH)] * 2, *[(rows,)] * 2]
        return [rng.standard_normal(shape, dtype=np.float32) / 4 for shape in shapes]

    return inputs


def _stack(name: str) -> Callable[..., Any]:
    options = (True, 1, 0.0, False, False, False)

    def call(lib: Any, x: Any, *rest: Any) -> Any:
        states, weights = rest[:-4], rest[-4:]
        return getattr(lib, name)(x, states if name == "lstm" else states[0], weights, *options)[0]

    return call


def _cell(name: str) -> Callable[..., Any]:
    def call(lib: Any, x: Any, *rest: Any) -> Any:
        states, weights = [s[0] for s in rest[:-4]], rest[-4:]
        out = getattr(lib, name)(x[0], states if name == "lstm_cell" else states[0], *weights)
        return out[0] if name == "lstm_cell" else out

    return call


def _padded(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    steps = max(n // (4 * _WIDTH), 1)
    return [rng.standard_normal((steps, 4, _WIDTH), dtype=np.float32), np.maximum(steps - steps // 4 * np.arange(4), 1)]


def _packed(lib: Any, x: Any, lengths: Any) -> Any:
    return lib.nn.utils.rnn.pack_padded_sequence(x, lengths).data


def _unpacked(lib: Any, x: Any, lengths: Any) -> Any:
    rnn = lib.nn.utils.rnn
    return rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, lengths))[0]


CASES = {
    "lstm": Case(_layer(4, 2), _stack("lstm"), most=10_000),
    "gru": Case(_layer(3, 1), _stack("gru"), most=10_000),
    "rnn_tanh": Case(_layer(1, 1), _stack("rnn_tanh"), most=10_000),
    "lstm_cell": Case(_layer(4, 2), _cell("lstm_cell"), most=10_000),
    "gru_cell": Case(_layer(3, 1), _cell("gru_cell"), most=10_000),
    "rnn_relu_cell": Case(_layer(1, 1), _cell("rnn_relu_cell"), most=10_000),
    "pack_padded_sequence": Case(_padded, _packed, most=10_000),
    "pad_packed_sequence": Case(_padded, _unpacked, most=10_000),
}
