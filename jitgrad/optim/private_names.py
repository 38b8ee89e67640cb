"""Private names of ``torch.optim.optimizer`` that optimisers of libraries import.

They are the plain path: one device, no graphs of CUDA, every flag a hint.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jitgrad
from jitgrad.core.dtypes import float32, float64, get_default_dtype
from jitgrad.core.grad_mode import set_grad_enabled
from jitgrad.core.tensor import Tensor

__all__ = ["ParamsT"]

ParamsT = Any
_params_t = Any
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
StateDict = dict[str, Any]
DeviceDict = dict[Any, Tensor]
DeviceDtypeDict = dict[Any, Tensor]

_params_doc = "params (iterable): parameters, (name, parameter) pairs, or dicts that define groups of them"
_foreach_doc = "foreach (bool, optional): kept for PyTorch's sake (default: None)"
_fused_doc = "fused (bool, optional): kept for PyTorch's sake (default: None)"
_capturable_doc = "capturable (bool, optional): whether the step can be captured in a CUDA graph (default: False)"
_differentiable_doc = "differentiable (bool, optional): whether gradients flow through the step (default: False)"
_maximize_doc = "maximize (bool, optional): maximize the objective instead of minimizing it (default: False)"


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` in the grad mode that the option "differentiable" asks for."""

    @functools.wraps(func)
    def _use_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return _use_grad


def _get_value(x: Any) -> Any:
    """A tensor's number."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _dispatch_sqrt(x: Any) -> Any:
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _to_scalar(x: Any) -> Any:
    """A tensor of one element without dims."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _get_scalar_dtype(is_fused: Any = None) -> Any:
    """The dtype of step counters."""
    return float64 if get_default_dtype() is float64 and not is_fused else float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone", *["xla"] * supports_xla]


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    """(fused, foreach): on the CPU PyTorch takes neither unless asked."""
    plain = use_fused and not differentiable and all(p is None or p.is_floating_point() for p in params)
    return plain, False


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[Any], Any]:
    """A decorator that changes nothing."""
    return lambda function: function


def _view_as_real(params: list[Tensor], *state_and_grads: list[Any]) -> None:
    """Replace complex parameters in a list, and what goes with them in others, by views of their parts."""
    for k, param in enumerate(params):
        if param.is_complex():
            for column in (params, *state_and_grads):
                column[k] = jitgrad.view_as_real(column[k])

