"""Functions of layers and losses, under the names and arguments of ``torch.nn.functional``."""

from __future__ import annotations

import warnings
from typing import Any

from ..ops.activation import (
    celu,
    elu,
    gelu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    relu,
    relu6,
    selu,
    silu,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)  # fmt: skip
from ..ops.binary_loss import binary_cross_entropy, binary_cross_entropy_with_logits
from ..ops.dropout import dropout as _drop
from ..ops.dropout import dropout_ as _drop_in_place
from ..ops.embedding import Embedding
from ..ops.loss import huber_loss, kl_div, l1_loss, mse_loss, smooth_l1_loss
from ..ops.nll import cross_entropy, nll_loss
from ..ops.products import linear
from ..ops.registry import FUNCTIONS
from ..tensor import Tensor

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "cross_entropy", "dropout", "elu",
    "embedding", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "kl_div", "l1_loss",
    "leaky_relu", "linear", "log_softmax", "logsigmoid", "mish", "mse_loss", "nll_loss", "relu", "relu6", "selu",
    "sigmoid", "silu", "smooth_l1_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold",
]  # fmt: skip

tanh, sigmoid = FUNCTIONS["tanh"], FUNCTIONS["sigmoid"]
_softmax, _log_softmax = FUNCTIONS["softmax"], FUNCTIONS["log_softmax"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, set each element to 0 with probability ``p`` and scale the rest by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return (_drop_in_place if inplace else _drop)(input, p, training)


def _implicit_dim(name: str, input: Tensor, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along ``dim``."""
    return _softmax(input, _implicit_dim("softmax", input, _stacklevel) if dim is None else dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """input - log(sum(exp(input))) along ``dim``."""
    return _log_softmax(input, _implicit_dim("log_softmax", input, _stacklevel) if dim is None else dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax of -input along ``dim``."""
    return _softmax(-input, _implicit_dim("softmin", input, _stacklevel) if dim is None else dim, dtype)


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` (n, d) that ``input`` (*) names, as (*, d); none flows to ``padding_idx``."""
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if max_norm is not None:
        raise NotImplementedError("embedding: max_norm is not there; normalise the rows of weight yourself")
    number = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return Embedding.apply(weight, input, number, scale_grad_by_freq, sparse)
