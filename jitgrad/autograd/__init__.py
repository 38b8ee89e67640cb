"""The recorder: nodes, the engine, grad modes, functions."""

from jitgrad.autograd import forward_ad
from jitgrad.engine import hooks, view_history  # they give Tensor hooks and the history of writes in place
from jitgrad.transforms import printing  # gives Tensor its text
from jitgrad.autograd import function, functional, grad_mode, graph, profiler, profiler_util
from jitgrad.autograd.anomaly import detect_anomaly, set_detect_anomaly
from jitgrad.autograd.backward import backward, grad
from jitgrad.autograd.gradcheck import gradcheck, gradgradcheck
from jitgrad.autograd.function import Function
from jitgrad.core.grad_mode import (
    enable_grad, is_multithreading_enabled, no_grad, set_grad_enabled, set_multithreading_enabled,
)  # fmt: skip
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.autograd.variable import Variable
from jitgrad.core.inference import inference_mode

__all__ = [
    "Function", "SavedTensor", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function",
    "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_multithreading_enabled", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip


def _profiler_enabled() -> bool:
    """Return True while a profiler takes notes."""
    from jitgrad.profiler.recording import is_on

    return is_on()
