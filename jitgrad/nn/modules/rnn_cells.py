"""Recurrent cells: a step of a layer of ``rnn.py``."""

from __future__ import annotations

import math
from typing import Any

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.nn import init
from jitgrad.nn.modules.module import Module
from jitgrad.nn.parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base of cells: weight_ih (num_chunks * hidden_size, input_size), weight_hh, and bias_ih, bias_hh or None.

    They start uniform between -1 / sqrt(hidden_size) and 1 / sqrt(hidden_size).
    """

    __constants__ = ["input_size", "hidden_size", "bias"]
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ):  # fmt: skip
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        sizes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        sizes |= dict.fromkeys(("bias_ih", "bias_hh"), (rows,))  # type: ignore[arg-type]
        for name, size in sizes.items():
            wanted = bias or name.startswith("weight")
            made = Parameter(jitgrad.empty(size, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Sizes, and the options that differ from their defaults."""
        own, shown = self.__dict__, f"{self.input_size}, {self.hidden_size}"
        if own.get("bias", True) is not True:
            shown += f", bias={self.bias}"
        if own.get("nonlinearity", "tanh") != "tanh":
            shown += f", nonlinearity={own['nonlinearity']}"
        return shown

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check(self, name: str, x: Tensor) -> None:
        """ValueError unless a tensor is of one sample or of several."""
        if x.dim() not in (1, 2):
            title = type(self).__name__ if type(self).__name__ in __all__ else type(self).__mro__[1].__name__
            raise ValueError(f"{title}: Expected {name} to be 1D or 2D, got {x.dim()}D instead")

    def _step(self, function: Any, input: Tensor, hx: Tensor | None) -> Tensor:
        """A step of a cell with one state, zeros by default."""
        self._check("input", input)
        if hx is not None:
            self._check("hidden", hx)
        x = input if input.dim() == 2 else input.unsqueeze(0)
        if hx is None:
            hx = jitgrad.zeros((x.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
        elif x is not input:
            hx = hx.unsqueeze(0)
        out: Tensor = function(x, hx, *self._weights())
        return out if x is input else out.squeeze(0)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it: of x (n, input_size) and h (n, hidden_size)."""

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """h', from zeros where there is no ``hx``; RuntimeError for an unknown nonlinearity."""
        functions = {"tanh": "rnn_tanh_cell", "relu": "rnn_relu_cell"}
        if self.nonlinearity not in functions:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(getattr(jitgrad, functions[self.nonlinearity]), input, hx)


class LSTMCell(RNNCellBase):
    """c' = f c + i g and h' = o tanh(c'), the gates i, f, g, o from x (n, input_size) and h (n, hidden_size)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """(h', c') of ``hx`` = (h, c), by default zeros."""
        self._check("input", input)
        if hx is not None:
            for k, value in enumerate(hx):
                self._check(f"hx[{k}]", value)
        x = input if input.dim() == 2 else input.unsqueeze(0)
        if hx is None:
            zeros = jitgrad.zeros((x.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
            hx = (zeros, zeros)
        elif x is not input:
            hx = hx[0].unsqueeze(0), hx[1].unsqueeze(0)
        h, c = jitgrad.lstm_cell(x, hx, *self._weights())
        return (h, c) if x is input else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """h' = n + z (h - n), n = tanh(x_n + r h_n), the gates r, z from x (n, input_size) and h (n, hidden_size)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """h', from zeros where there is no ``hx``."""
        return self._step(jitgrad.gru_cell, input, hx)
