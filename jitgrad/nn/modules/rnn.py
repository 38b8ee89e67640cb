"""Recurrent layers: plain ones, LSTM and GRU; their cells, which are in ``rnn_cells.py``, too.

Parameters are drawn uniform between -1 / sqrt(hidden_size) and 1 / sqrt(hidden_size).
"""

from __future__ import annotations

import math
import numbers
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.core.lazy_import import offer
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.nn import init
from jitgrad.nn.modules.module import Module
from jitgrad.nn.modules.rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from jitgrad.nn.parameter import Parameter
from jitgrad.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

offer(__name__, GRUCell, LSTMCell, RNNCell, RNNCellBase)
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The tensor with its elements along ``dim`` in another order; deprecated."""
    warnings.warn(
        "`apply_permutation` is deprecated, please use `tensor.index_select(dim, permutation)` instead", FutureWarning,
        stacklevel=user_level(),
    )  # fmt: skip
    return _apply_permutation(tensor, permutation, dim)


def _check_options(options: dict[str, Any]) -> None:
    """TypeError or ValueError for what a stack of layers can't be made of."""
    rate, layers = options["dropout"], options["num_layers"]
    if not isinstance(rate, numbers.Number) or isinstance(rate, bool) or not 0 <= rate <= 1:  # type: ignore[operator]
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if rate > 0 and layers == 1:  # type: ignore[operator]
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={rate} and num_layers={layers}",
            stacklevel=user_level(),
        )
    for name, kind in (("bias", bool), ("batch_first", bool), ("input_size", int), ("hidden_size", int)):
        value = options[name]
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
        if kind is int and value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if options["proj_size"] < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if options["proj_size"] >= options["hidden_size"]:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """Base of stacks of recurrent layers: their parameters, and the checks of inputs.

    Layer k has weight_ih_lk (gates * hidden_size, inputs), weight_hh_lk (gates * hidden_size, states), and unless
    ``bias`` is False bias_ih_lk and bias_hh_lk; with ``proj_size`` weight_hr_lk (proj_size, hidden_size). Names of the
    other direction end in "_reverse".
    """

    __constants__ = [
        "mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
        "proj_size",
    ]  # fmt: skip
    _flat_weights: list[Any]
    _flat_weights_names: list[str]
    _flat_weight_refs: list[Any]
    _all_weights: list[list[str]]

    def __init__(
        self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        _check_options(vars(self) | {"dropout": dropout})
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self._flat_weight_refs, self._flat_weights_names, self._all_weights = [], [], []
        rows, shown = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else shown * (2 if bidirectional else 1)
            sizes = [(rows, inputs), (rows, shown), (rows,), (rows,), (proj_size, hidden_size)]
            for suffix in ("", "_reverse") if bidirectional else ("",):
                names = self._names(layer, suffix)
                kept = sizes[: 4 if bias else 2] + sizes[4:] * (proj_size > 0)
                for name, size in zip(names, kept, strict=True):
                    setattr(self, name, Parameter(jitgrad.empty(size, device=device, dtype=dtype)))
                self._flat_weights_names.extend(names)
                self._all_weights.append(names)
        self._init_flat_weights()
        self.reset_parameters()

    def _names(self, layer: int, suffix: str) -> list[str]:
        stems = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        return [f"{stem}_l{layer}{suffix}" for stem in (*stems, *(["weight_hr"] if self.proj_size > 0 else []))]

    def _init_flat_weights(self) -> None:
        """List the parameters anew."""
        self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]
        self.flatten_parameters()

    def __setattr__(self, attr: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names", ())
        if attr in names and "_flat_weights" in self.__dict__:
            self._flat_weights[names.index(attr)] = value  # so that the list is up to date
        super().__setattr__(attr, value)

    def flatten_parameters(self) -> None:
        """Do nothing: there is no order of memory that is better here."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._flat_weight_refs = []
        found = super()._apply(fn, recurse)
        self._init_flat_weights()
        return found

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """ValueError for another dtype than the weights', RuntimeError for sizes that do not fit."""
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not jitgrad.is_autocast_enabled("cpu"):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: "
                f"input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _state_size(self, input: Tensor, batch_sizes: Tensor | None, width: int) -> tuple[int, int, int]:
        samples = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (2 if self.bidirectional else 1), samples, width

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of the hidden states that go with an input."""
        return self._state_size(input, batch_sizes, self.proj_size if self.proj_size > 0 else self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:  # fmt: skip
        """RuntimeError unless the states have that shape."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def _weights_have_changed(self) -> bool:
        """Whether parameters were replaced since they were listed, as ``func.functional_call`` does."""
        own = self._parameters
        for listed, name in zip(self._flat_weights, self._flat_weights_names, strict=True):
            weight = own.get(name)
            weight = getattr(self, name, None) if weight is None else weight
            if weight is not None and listed is not None and listed is not weight:
                return True
        return False

    def _update_flat_weights(self) -> None:
        if self._weights_have_changed():
            self._init_flat_weights()

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """RuntimeError or ValueError unless input and states fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States of samples in another order."""
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        """Sizes, and the options that differ from their defaults."""
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False
        }  # fmt: skip
        shown = [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join([str(self.input_size), str(self.hidden_size), *shown])

    def __getstate__(self) -> dict[str, Any]:
        self._update_flat_weights()
        state = self.__dict__.copy()
        del state["_flat_weight_refs"]
        return state

    def __setstate__(self, d: dict[str, Any]) -> None:
        super().__setstate__(d)
        if "all_weights" in d:
            self._all_weights = d["all_weights"]
        if "proj_size" not in d:  # of a file from before there were projections
            self.proj_size = 0
        if not isinstance(self._all_weights[0][0], str):
            suffixes = ("", "_reverse") if self.bidirectional else ("",)
            self._all_weights = [self._names(k, suffix) for k in range(self.num_layers) for suffix in suffixes]
            self._flat_weights_names = [name for names in self._all_weights for name in names]
            self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    # -- running ------------------------------------------------------------------------------------------

    def _zeros(self, input: Tensor, samples: int) -> Any:
        """The states to begin with where none are given."""
        layers, shown = self.num_layers * (2 if self.bidirectional else 1), self.proj_size or self.hidden_size
        return jitgrad.zeros((layers, samples, shown), dtype=input.dtype, device=input.device)

    def _check_dims(self, hx: Any, batched: bool) -> None:
        """RuntimeError unless states have as many dims as the input."""
        if hx.dim() != 2 + batched:
            kind, n = ("batched", 3) if batched else ("unbatched", 2)
            raise RuntimeError(f"For {kind} {n}-D input, hx should also be {n}-D but got {hx.dim()}-D tensor")

    def _each(self, function: Callable[[Tensor], Tensor], hx: Any) -> Any:
        """A function of each of the states."""
        return function(hx)

    def _function(self) -> Callable[..., Any]:
        """What computes all layers."""
        return getattr(jitgrad, self.mode.lower())

    def _run(self, *args: Any) -> tuple[Tensor, Any]:
        train, layers = self.training, self.num_layers
        out, *states = self._function()(
            *args[:-1], self._flat_weights, self.bias, layers, self.dropout, train, self.bidirectional, *args[-1]
        )
        return out, states[0] if len(states) == 1 else tuple(states)

    def _run_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = input
        hx = self._zeros(data, int(batch_sizes[0])) if hx is None else self.permute_hidden(hx, order)
        self._check_packed(data, hx, batch_sizes)
        out, states = self._run(data, batch_sizes, hx, ())
        return PackedSequence(out, batch_sizes, order, back), self.permute_hidden(states, back)

    def _check_packed(self, data: Tensor, hx: Any, batch_sizes: Tensor) -> None:
        self.check_forward_args(data, hx, batch_sizes)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(outputs of the last layer, last states), of (steps, n, inputs), (steps, inputs) or a packed sequence."""
        if self.mode not in _GATES:
            raise AssertionError(f"mode must be RNN_TANH or RNN_RELU, got {self.mode}")
        self._update_flat_weights()
        if isinstance(input, PackedSequence):
            return self._run_packed(input, hx)
        if input.dim() not in (2, 3):
            noun = "D tensor" if self.mode.startswith("RNN") else "D"
            raise ValueError(
                f"{self.mode.partition('_')[0]}: Expected input to be 2D or 3D, got {input.dim()}{noun} instead"
            )
        batched, dim = input.dim() == 3, 0 if self.batch_first else 1
        if hx is not None:
            self._check_dims(hx, batched)
            hx = hx if batched else self._each(lambda t: t.unsqueeze(1), hx)
        if not batched:
            input = input.unsqueeze(dim)
        if hx is None:
            hx = self._zeros(input, input.size(dim))
        self.check_forward_args(input, hx, None)
        out, states = self._run(input, hx, (self.batch_first,))
        if not batched:
            out, states = out.squeeze(dim), self._each(lambda t: t.squeeze(1), states)
        return out, self.permute_hidden(states, None)


def _without_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Layers h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it; arguments as those of ``RNNBase`` after mode.

    ``nonlinearity``, "tanh" or "relu", is the fourth, after num_layers.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        _without_projection(kwargs)
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        self.nonlinearity = nonlinearity
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory: c' = f c + i g, h' = o tanh(c'), the gates i, f, g, o from input and state.

    Arguments are those of ``RNNBase`` after mode. States are pairs (h, c).
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape of c that goes with an input."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """RuntimeError or ValueError unless input and states fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes), self.get_expected_cell_size(input, batch_sizes)
        for k, size in enumerate(expected):
            self.check_hidden_size(hidden[k], size, f"Expected hidden[{k}] size {{}}, got {{}}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States of samples in another order."""
        return hx if permutation is None else tuple([_apply_permutation(hx[k], permutation) for k in (0, 1)])

    def _zeros(self, input: Tensor, samples: int) -> Any:
        sizes, h = (self.num_layers * (2 if self.bidirectional else 1), samples), super()._zeros(input, samples)
        return h, jitgrad.zeros((*sizes, self.hidden_size), dtype=input.dtype, device=input.device)

    def _check_dims(self, hx: Any, batched: bool) -> None:
        if hx[0].dim() != 2 + batched or hx[1].dim() != 2 + batched:
            kind, n = ("batched", 3) if batched else ("unbatched", 2)
            raise RuntimeError(f"For {kind} {n}-D input, hx and cx should also be {n}-D but got ({hx[0].dim()}-D, "
                               f"{hx[1].dim()}-D) tensors")  # fmt: skip

    def _each(self, function: Callable[[Tensor], Tensor], hx: Any) -> Any:
        return function(hx[0]), function(hx[1])

    def _check_packed(self, data: Tensor, hx: Any, batch_sizes: Tensor) -> None:
        """Left to the function, as in PyTorch."""


class GRU(RNNBase):
    """Gated recurrent units: h' = n + z (h - n), n = tanh(x_n + r h_n), with gates r, z from input and state.

    Arguments are those of ``RNNBase`` after mode.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        _without_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)
