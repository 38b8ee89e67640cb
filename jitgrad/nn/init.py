"""Initial values for parameters, drawn as PyTorch draws them; each function fills its tensor in place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch import table

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
    "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse",
    "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform",
    "xavier_uniform_", "zeros_",
]  # fmt: skip

explain_missing_names(__name__)

_NO_OP = "Initializing zero-element tensors is a no-op"
# Functions whose gain is 1.
_LINEAR = ("linear", "sigmoid", *(f"conv{t}{d}d" for t in ("", "_transpose") for d in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor on a layer's standard deviation that makes up for what ``nonlinearity`` takes off it.

    1 for linear functions and sigmoid, 5/3 for tanh, sqrt(2) for relu, 3/4 for selu; for leaky_relu, of negative slope
    ``param``, sqrt(2 / (1 + param^2)). ValueError for other names.
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    try:
        return {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}[nonlinearity]
    except KeyError:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}") from None


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Numbers of inputs and outputs of one unit, for a weight of shape (out, in, *kernel)."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that ``mode``, "fan_in" or "fan_out", names."""
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform numbers from ``a`` to ``b``."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal numbers."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """The same number everywhere."""
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """The identity, for a matrix."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return jitgrad.eye(*tensor.shape, out=tensor)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with variance gain^2 * 2 / (fan_in + fan_out): Glorot and Bengio, 2010."""
    # Uniform numbers between -a and a have variance a^2 / 3.
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with variance gain^2 * 2 / (fan_in + fan_out): Glorot and Bengio, 2010."""
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform with variance gain^2 / fan: He et al., 2015. ``a`` is leaky_relu's slope."""
    if 0 in tensor.shape:
        warnings.warn(_NO_OP, stacklevel=2)
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with variance gain^2 / fan: He et al., 2015. ``a`` is leaky_relu's slope."""
    if 0 in tensor.shape:
        warnings.warn(_NO_OP, stacklevel=2)
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """gain / sqrt(fan): then a unit's output has the variance of its input, forward or backward as ``mode`` says."""
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


# -- truncated, orthogonal, sparse ----------------------------------------------------------------------------------


@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Normal numbers, of which those outside of [a, b] are drawn again.

    Where [a, b] has little of the distribution, uniform numbers in it are drawn and accepted as often as their density
    is to the largest one.
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=user_level(),
        )

    def below(x: float) -> float:
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    if below((b - mean) / std) - below((a - mean) / std) > 0.3:
        return _inside(tensor, mean, std, a, b, generator)
    return _accepted(tensor, mean, std, a, b, generator)


def _inside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Normal numbers; those outside are drawn again until none is."""
    low, high = (tensor.new_tensor(end).item() for end in (a, b))  # rounded as the numbers are
    result = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (result < low) | (result > high)
        if not outside.any():
            break
        again = jitgrad.empty_like(result).normal_(mean, std, generator=generator)
        result = table.where(outside, again, result)
    return tensor if result is tensor else tensor.copy_(result)


def _accepted(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any) -> Tensor:
    """Uniform numbers, each kept with a probability in proportion to its normal density."""
    likeliest = max(a, min(mean, b))
    peak = -0.5 * ((likeliest - mean) / std) ** 2
    chance = jitgrad.empty_like(tensor)

    def refused(numbers: Tensor) -> Tensor:
        """Which are drawn again; the numbers are overwritten by the logarithms of their densities."""
        numbers.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return chance.uniform_(generator=generator).log_().gt(numbers)

    result = tensor.uniform_(a, b, generator=generator)
    candidates = result.clone()
    pending = refused(candidates)
    while pending.any():
        candidates.uniform_(a, b, generator=generator)
        result = table.where(pending, candidates, result)
        pending = table.where(pending, refused(candidates), pending)
    return tensor if result is tensor else tensor.copy_(result)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """``gain`` times a random matrix with orthonormal rows, or columns if they are fewer: Saxe et al., 2013.

    Dims behind the first count as one. The factor Q of a normal matrix's decomposition, with signs so that R's diagonal
    is positive: that makes it uniform.
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    normal = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    wide = rows < columns
    q, r = jitgrad.linalg.qr(normal.t() if wide else normal)
    q = q * r.diagonal().sign()
    tensor.copy_((q.t() if wide else q).reshape(tensor.shape))
    return tensor.mul_(gain)


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The identity as a convolution's weight (out, in, *kernel): 1 in the middle for each channel, in each group."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    outputs = tensor.shape[0] // groups
    tensor.zero_()
    middle = [n // 2 for n in tensor.shape[2:]]
    for group in range(groups):
        for channel in range(min(outputs, tensor.shape[1])):
            tensor[(group * outputs + channel, channel, *middle)] = 1
    return tensor


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal numbers in a matrix, of which a share ``sparsity`` of each column is 0: Martens, 2010."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[jitgrad.randperm(rows)[:zeros], column] = 0  # without the generator, as in PyTorch
    return tensor


# -- names of PyTorch's first versions ------------------------------------------------------------------------------


def _older(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function under its name without the underscore, which warns."""
    name = function.__name__

    def deprecated(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.", FutureWarning, stacklevel=2
        )
        return function(*args, **kwargs)

    deprecated.__name__ = name[:-1]
    deprecated.__doc__ = f"Deprecated: use ``{name}``."
    return deprecated


uniform, normal, constant, eye, dirac = map(_older, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = map(_older, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_older, (kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_older, (orthogonal_, sparse_))
