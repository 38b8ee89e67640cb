"""The recorder: nodes, the engine, grad modes, functions."""

from . import forward_ad, tensor_hooks, views  # the last two give Tensor hooks and in-place history
from . import function, functional, graph
from .backward import backward, grad
from .gradcheck import gradcheck, gradgradcheck
from .function import Function
from .grad_mode import enable_grad, no_grad, set_grad_enabled
from .variable import Variable
from .inference import inference_mode

__all__ = [
    "Function", "Variable", "backward", "enable_grad", "forward_ad", "grad", "gradcheck", "gradgradcheck",
    "graph", "inference_mode", "no_grad", "set_grad_enabled",
]  # fmt: skip
