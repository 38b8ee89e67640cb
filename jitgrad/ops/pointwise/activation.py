"""Activation functions under the names and arguments of ``torch.nn.functional``."""

from __future__ import annotations

from typing import Any

from jitgrad.core.errors import scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.ops.pointwise.arithmetic import apply, published
from jitgrad.ops.pointwise.complex import Complex

__all__ = [
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid",
    "mish", "relu", "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink", "threshold",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(input, 0)``; the gradient at 0 is 0."""
    return apply(table.relu, input, inplace=inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``negative_slope * input``."""
    return apply(table.leaky_relu, input, negative_slope, inplace=inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input) - 1)``."""
    return apply(table.elu, input, alpha, inplace=inplace)


# With these, standard normals keep mean 0 and variance 1 (Klambauer et al., Self-Normalizing Neural Networks, 2017).
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``elu`` scaled so that layers keep mean 0 and variance 1."""
    return apply(table.elu, input, _SELU_ALPHA, _SELU_SCALE, inplace=inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return apply(table.celu, input, alpha, inplace=inplace)


@takes_out
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """``input`` times the normal distribution function of it, or tanh's ``approximate`` of that."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return (table.gelu if approximate == "none" else table.gelu_tanh)(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``."""
    return apply(table.silu, input, inplace=inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(softplus(input))``."""
    return apply(table.mish, input, inplace=inplace)


@takes_out
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """``log(1 + exp(beta * input)) / beta``; ``input`` itself where ``beta * input > threshold``."""
    return table.softplus(input, beta, threshold)


def softsign(input: Tensor) -> Tensor:
    """``input / (1 + abs(input))``."""
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``."""
    return input - input.tanh()


@takes_out
def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(input))``, without overflow."""
    return table.logsigmoid(input)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """``input`` kept between ``min_val`` and ``max_val``; no gradient flows at the bounds."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if input._layout.numpy_dtype.kind == "u" and int(min_val) < 0:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return apply(table.hardtanh, input, min_val, max_val, inplace=inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(input, 0), 6)``."""
    return apply(table.hardtanh, input, 0, 6, inplace=inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``input / 6 + 1 / 2`` kept between 0 and 1."""
    return apply(table.hardsigmoid, input, inplace=inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * hardsigmoid(input)``."""
    return apply(table.hardswish, input, inplace=inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``input`` where it is above ``threshold``, else ``value``."""
    return apply(table.threshold, input, threshold, value, inplace=inplace)


@takes_out
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input`` moved towards 0 by ``lambd``, and 0 within that distance of it."""
    if lambd < 0:
        dtype = input._layout.dtype
        raise RuntimeError(
            f"lambda must be in range [0, {float(dtype.limits.max):g}] for input dtype {scalar_type(dtype)}, "
            f"but found {lambd:g}"
        )
    return apply(table.softshrink, input, lambd)


@takes_out
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """``input``, but 0 within ``lambd`` of 0."""
    return apply(table.hardshrink, input, lambd)


# -- what PyTorch also has at its top level ---------------------------------------------------------

for _function in (selu, celu, threshold):
    public(_function, method_too=False)
for _function in (selu, celu, threshold):
    _name = f"{_function.__name__}_"
    _in_place: Any = lambda *args, _function=_function, **named: _function(*args, **named, inplace=True)
    _in_place.__name__ = _in_place.__qualname__ = _name
    _in_place.__doc__ = f"In-place version of ``{_function.__name__}``."
    public(_in_place, method_too=False)


@published("logit", inplace_function=True)
def logit(input: Tensor, eps: float | None = None, *, inplace: bool = False) -> Tensor:
    """``log(input / (1 - input))``, of ``input`` kept between ``eps`` and ``1 - eps`` if given."""
    if eps is None:
        return apply(table.logit, input, inplace=inplace)
    return apply(table.logit_eps, input, eps, inplace=inplace)


@published("nan_to_num", inplace_function=True)
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None, *,
    inplace: bool = False,
) -> Tensor:
    """``input`` with NaN replaced (by 0), and infinities (by the dtype's largest numbers)."""
    if input._layout.dtype.category < 2:
        return input if inplace else input.clone()  # integers are never NaN
    if input._layout.dtype.is_complex:
        return _complex_nan_to_num(input, nan, posinf, neginf, inplace)
    largest = float(input._layout.dtype.limits.max)
    above, below = largest if posinf is None else posinf, -largest if neginf is None else neginf
    numbers = (0.0 if nan is None else nan, above, below)
    return apply(table.nan_to_num, input, *numbers, inplace=inplace)


def _complex_nan_to_num(x: Tensor, nan: Any, posinf: Any, neginf: Any, inplace: bool) -> Tensor:
    if x._requires_grad and grad_state.enabled:
        raise RuntimeError("nan_to_num does not support automatic differentiation for outputs with complex dtype.")
    result = Complex.apply(*(nan_to_num(part, nan, posinf, neginf) for part in (x.real, x.imag)))
    return result if not inplace else x.copy_(result)
