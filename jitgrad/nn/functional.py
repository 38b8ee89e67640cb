"""Functions of layers and losses, under the names and arguments of ``torch.nn.functional``."""

from __future__ import annotations

import warnings
from typing import Any

from ..ops.activation import (
    celu, elu, gelu, hardshrink, hardsigmoid, hardswish, hardtanh, leaky_relu, logsigmoid, mish, relu, relu6, selu,
    silu, softplus, softshrink, softsign, tanhshrink, threshold,
)  # fmt: skip
from ..ops.products import linear
from ..ops.registry import FUNCTIONS
from ..tensor import Tensor

__all__ = [
    "celu", "dropout", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "linear",
    "log_softmax", "logsigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip

tanh, sigmoid = FUNCTIONS["tanh"], FUNCTIONS["sigmoid"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, set each element to 0 with probability ``p`` and scale the rest by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return FUNCTIONS["dropout_" if inplace else "dropout"](input, p, training)


def _implicit_dim(name: str, input: Tensor, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along ``dim``."""
    dim = _implicit_dim("softmax", input, _stacklevel) if dim is None else dim
    return FUNCTIONS["softmax"](input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """input - log(sum(exp(input))) along ``dim``."""
    dim = _implicit_dim("log_softmax", input, _stacklevel) if dim is None else dim
    return FUNCTIONS["log_softmax"](input, dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax of -input along ``dim``."""
    dim = _implicit_dim("softmin", input, _stacklevel) if dim is None else dim
    return FUNCTIONS["softmax"](-input, dim, dtype)


def __getattr__(name: str) -> Any:
    """Losses and the like, as they are declared."""
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError(f"module 'jitgrad.nn.functional' has no attribute {name!r}") from None
