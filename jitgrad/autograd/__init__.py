"""The recorder: nodes, the engine, grad modes, functions."""

from . import forward_ad, tensor_hooks, views  # the last two give Tensor hooks and in-place history
from . import function, functional, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .backward import backward, grad
from .gradcheck import gradcheck, gradgradcheck
from .function import Function
from .grad_mode import (
    enable_grad, is_multithreading_enabled, no_grad, set_grad_enabled, set_multithreading_enabled,
)  # fmt: skip
from .saved import SavedTensor
from .variable import Variable
from .inference import inference_mode

__all__ = [
    "Function", "SavedTensor", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function",
    "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_multithreading_enabled", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip


def _profiler_enabled() -> bool:
    """Return True while a profiler takes notes."""
    from ..profiler.recording import is_on

    return is_on()
