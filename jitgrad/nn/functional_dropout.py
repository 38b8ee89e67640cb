"""Functions of ``nn.functional`` that drop elements or channels."""

from __future__ import annotations

import warnings

from jitgrad.core.tensor import Tensor
from jitgrad.ops.nn import dropout as ops

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """While training, set each element to 0 with probability ``p`` and scale the rest by 1 / (1 - p)."""
    _check_probability(p)
    return (ops.dropout_ if inplace else ops.dropout)(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """While training, bring each element to SELU's saturation with probability ``p``, then keep mean and variance."""
    _check_probability(p)
    return (ops.alpha_dropout_ if inplace else ops.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels, dim 1 of the input."""
    _check_probability(p)
    return (ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout)(input, p, training)


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Set channels, dim 1 of an input with a batch dim, to 0 with probability ``p``, and scale the rest."""
    return (ops.feature_dropout_ if inplace else ops.feature_dropout)(input, p, training)


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
