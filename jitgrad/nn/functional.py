"""Functions of layers and losses, under the names and arguments of ``torch.nn.functional``.

Many are the ops themselves. Others check what PyTorch checks in Python, or choose an op, and then call it.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.lazy_import import lazy_attributes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import explaining_form, module_names, named_in, published
from jitgrad.ops.linalg.matmul import linear
from jitgrad.ops.nn import batch_norm as _batch_norm_ops
from jitgrad.ops.nn import dropout as _dropout_ops
from jitgrad.ops.nn.binary_loss import binary_cross_entropy, binary_cross_entropy_with_logits
from jitgrad.ops.nn.embedding import Embedding, one_hot
from jitgrad.ops.nn.loss import huber_loss, kl_div, l1_loss, mse_loss, smooth_l1_loss
from jitgrad.ops.nn.nll_loss import cross_entropy, nll_loss
from jitgrad.ops.nn.norm import group_norm as _group_norm
from jitgrad.ops.nn.norm import layer_norm, rms_norm
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
__getattr__ = lambda name: _part(name) if name in _SOURCES else _published(name)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))."""
    return input.sigmoid()


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, set each element to 0 with probability ``p`` and scale the rest by 1 / (1 - p)."""
    _check_probability(p)
    return (_dropout_ops.dropout_ if inplace else _dropout_ops.dropout)(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """While training, bring each element to SELU's saturation with probability ``p``, then keep mean and variance."""
    _check_probability(p)
    return (_dropout_ops.alpha_dropout_ if inplace else _dropout_ops.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels, dim 1 of the input."""
    _check_probability(p)
    return (_dropout_ops.feature_alpha_dropout_ if inplace else _dropout_ops.feature_alpha_dropout)(input, p, training)


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Set channels, dim 1 of an input with a batch dim, to 0 with probability ``p``, and scale the rest."""
    return (_dropout_ops.feature_dropout_ if inplace else _dropout_ops.feature_dropout)(input, p, training)


def _drop_channels_unbatched(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """``_drop_channels`` of an input without a batch dim, whose channels are dim 0."""
    input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _drop_channels(input, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)


_CHANNELS = (
    "{0}d: Received a {1}-D input to {0}d, which is deprecated and will result in an error in a future release. To "
    "retain the behavior and silence this warning, please use dropout instead. Note that {0}d exists to provide "
    "channel-wise dropout on inputs with {2} spatial dimensions, a channel dimension, and an optional batch dimension "
    "(i.e. {3}D or {4}D inputs)."
)
_NO_BATCH = (
    "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - input "
    "is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future release to "
    "interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
    "dropout behavior, please switch to using dropout1d instead."
)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, set each channel of (N, C, L) or (C, L) to 0 with probability ``p``, scale the rest."""
    _check_probability(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. Note that dropout1d exists to "
            "provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional "
            "batch dimension (i.e. 2D or 3D inputs)."
        )
    return (_drop_channels_unbatched if input.ndim == 2 else _drop_channels)(input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, set each channel of (N, C, H, W) or (N, C, L) to 0 with probability ``p``, scale the rest."""
    _check_probability(p)
    if input.ndim not in (3, 4):
        warnings.warn(_CHANNELS.format("dropout2", input.ndim, 2, 3, 4), stacklevel=2)
    if input.ndim == 3:
        warnings.warn(_NO_BATCH, stacklevel=2)
    return _drop_channels(input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, set each channel of (N, C, D, H, W) or (C, D, H, W) to 0 with probability ``p``, scale the
    rest."""
    _check_probability(p)
    if input.ndim not in (4, 5):
        warnings.warn(_CHANNELS.format("dropout3", input.ndim, 3, 4, 5), stacklevel=2)
    return (_drop_channels if input.ndim == 5 else _drop_channels_unbatched)(input, p, training, inplace)


# Their errors count arguments as these functions do, which have them in another order.
_batch_norm, _instance_norm = map(explaining_form, (_batch_norm_ops.batch_norm, _batch_norm_ops.instance_norm))


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(input - mean) / sqrt(variance + eps) * weight + bias for each channel, dim 1.

    Training: by the batch's mean and variance, towards which the running ones move. Else by the running ones.
    """
    if training:  # the variance of one value says nothing: its output would be the bias alone
        _check_several(input.shape)
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _check_several(shape: Any) -> None:
    """ValueError unless each channel, dim 1, has more than one value."""
    if len(shape) > 1 and shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """(input - mean) / sqrt(variance + eps) over each group of channels, dim 1, * weight + bias of each channel."""
    if input.ndim > 1 and num_groups > 0:
        # The groups as channels, and the channels of a group beside the samples: PyTorch's message shows that shape.
        _check_several([input.shape[0] * input.shape[1] // num_groups, num_groups, *input.shape[2:]])
    return _group_norm(input, num_groups, weight, bias, eps)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """``batch_norm`` in which each channel of each sample counts as a channel."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return _instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps)


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


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` (n, d) that ``input`` (*) names, as (*, d); row ``padding_idx`` gets no gradient.

    ``max_norm``: these rows are scaled to this norm first, in place, where theirs, of order ``norm_type``, is larger.
    """
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")
    if max_norm is not None:
        input = input.contiguous()
        with no_grad():
            renormalize: Any = published("embedding_renorm_")  # imported now
            renormalize(weight.detach(), input, max_norm, norm_type)
    number = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return Embedding.apply(weight, input, number, scale_grad_by_freq, sparse)


# Modules and users call these alike, so errors of both name the argument that is wrong. Those that are left out warn,
# and warnings count callers.
_WARNING = {"dropout1d", "dropout2d", "dropout3d", "softmax", "softmin", "log_softmax"}
for _name in __all__:
    _function = globals()[_name]
    globals()[_name] = named_in(__name__, _function if _name in _WARNING else explaining_form(_function), _name)
