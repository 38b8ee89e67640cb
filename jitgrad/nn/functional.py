"""Functions of layers and losses, under the names and arguments of ``torch.nn.functional``.

Many are the ops themselves. Others check what PyTorch checks in Python, or choose an op, and then call it.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from jitgrad.core.lazy_import import lazy_attributes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.overriding import is_active, register_methods
from jitgrad.dispatch.registry import explaining_form, module_names, named_in
from jitgrad.ops.linalg.matmul import linear
from jitgrad.ops.nn.loss import huber_loss, kl_div, l1_loss, mse_loss, smooth_l1_loss
from jitgrad.ops.nn.nll_loss import cross_entropy, nll_loss
from jitgrad.ops.pointwise.activation import (
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
from jitgrad.ops.reduction import softmax as _softmax_ops

if TYPE_CHECKING:  # what is imported at its first use
    from jitgrad.nn.functional_dropout import (
        alpha_dropout,
        dropout,
        dropout1d,
        dropout2d,
        dropout3d,
        feature_alpha_dropout,
    )
    from jitgrad.nn.functional_embedding import embedding
    from jitgrad.nn.functional_norm import batch_norm, group_norm, instance_norm
    from jitgrad.ops.nn.binary_loss import binary_cross_entropy, binary_cross_entropy_with_logits
    from jitgrad.ops.nn.embedding import one_hot
    from jitgrad.ops.nn.norm import layer_norm, rms_norm

__all__ = [
    "alpha_dropout", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "cross_entropy",
    "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "embedding", "feature_alpha_dropout", "gelu", "group_norm",
    "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "huber_loss", "instance_norm", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "mish", "mse_loss", "nll_loss", "one_hot",
    "relu", "relu6", "rms_norm", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip

_published, __dir__ = module_names("nn.functional")
_PARTS = (
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "_Reduction", "_canonical_mask",
    "_get_softmax_dim", "_in_projection", "_in_projection_packed", "_list_with_default", "_none_or_dtype", "_pair",
    "_single", "_triple", "_verify_batch_size",
)  # fmt: skip
_SOURCES = {**dict.fromkeys(_PARTS, "jitgrad.nn.functional_parts"), "grad": "jitgrad.nn"}
_part, _ = lazy_attributes(__name__, _SOURCES)
# {name of a function: the module that has it}, imported at its first use.
_LATER = {
    name: module
    for module, names in {
        "jitgrad.nn.functional_dropout": "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
        "jitgrad.nn.functional_embedding": "embedding",
        "jitgrad.nn.functional_norm": "batch_norm group_norm instance_norm",
        "jitgrad.ops.nn.binary_loss": "binary_cross_entropy binary_cross_entropy_with_logits",
        "jitgrad.ops.nn.embedding": "one_hot",
        "jitgrad.ops.nn.norm": "layer_norm rms_norm",
    }.items()
    for name in names.split()
}
_later, _ = lazy_attributes(__name__, _LATER)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        found = globals()[name] = _own_form(_later(name), name)
        if is_active():
            register_methods()
        return found
    return _part(name) if name in _SOURCES else _published(name)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))."""
    return input.sigmoid()


def _implicit_dim(name: str, input: Tensor, stacklevel: int) -> int:
    """The dim that softmax and its kin took before they had the argument: that of classes, after one of samples."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """exp(input) / sum(exp(input)) along ``dim``."""
    dim = _implicit_dim("softmax", input, _stacklevel) if dim is None else dim
    return _softmax_ops.softmax(input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """input - log(sum(exp(input))) along ``dim``."""
    dim = _implicit_dim("log_softmax", input, _stacklevel) if dim is None else dim
    return _softmax_ops.log_softmax(input, dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """Softmax of -input along ``dim``."""
    dim = _implicit_dim("softmin", input, _stacklevel) if dim is None else dim
    return _softmax_ops.softmax(-input, dim, dtype)


_WARNING = {"dropout1d", "dropout2d", "dropout3d", "softmax", "softmin", "log_softmax"}


def _own_form(function: Any, name: str) -> Any:
    """A function as this module has it.

    Modules and users call these alike, so errors of both name the argument that is wrong. Those that are left out warn,
    and warnings count callers.
    """
    return named_in(__name__, function if name in _WARNING else explaining_form(function), name)


for _name in __all__:
    if _name not in _LATER:
        globals()[_name] = _own_form(globals()[_name], _name)
