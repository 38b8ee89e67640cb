"""The recorder: nodes, the engine, grad modes, functions."""

from jitgrad.autograd import forward_ad
from jitgrad.engine import hooks, view_history  # they give Tensor hooks and the history of writes in place
from jitgrad.transforms import printing  # gives Tensor its text
from jitgrad.autograd import function, functional, grad_mode, graph
from jitgrad.autograd.anomaly import detect_anomaly, set_detect_anomaly
from jitgrad.autograd.backward import backward, grad
from jitgrad.autograd.gradcheck import gradcheck, gradgradcheck
from jitgrad.autograd.function import Function
from jitgrad.core.grad_mode import (
    enable_grad, is_multithreading_enabled, no_grad, set_grad_enabled, set_multithreading_enabled,
)  # fmt: skip
from jitgrad.core.lazy_import import lazy_attributes
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.autograd.variable import Variable
from jitgrad.core.inference import inference_mode
from jitgrad.profiler.recording import is_on as _profiler_enabled

__all__ = [
    "Function", "SavedTensor", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function",
    "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_multithreading_enabled", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

# The older names of the profiler, imported on first access.
_LAZY = {name: f"jitgrad.autograd.{name}" for name in ("profiler", "profiler_util")}
__getattr__, __dir__ = lazy_attributes(__name__, _LAZY)
