"""jitgrad.autograd, PyTorch's torch.autograd: what users call to run backward, write Functions and check gradients.

``backward.py`` (read it first) checks arguments and starts the engine. ``function*.py`` are a user's own nodes,
``forward_ad.py`` and ``functional.py`` older ways to derivatives, ``gradcheck*.py`` compares with differences,
``graph.py``, ``saved_mutation.py`` and ``checkpoint_regions.py`` deal with saved tensors, ``anomaly.py`` finds the op
behind an error. Nothing that a lower floor needs lives here: no node of an op, no engine, no mode.

- A Function's node is its ctx (``function_node.py``). A ctx that was kept still has its saved tensors after the graph
  is gone, where PyTorch's raises.
- What a Function's backward returns becomes ``.grad`` without a copy where CPython's reference counts, of tensor and
  array, say that nobody else holds it (150 ns a call).
- Function and functional know better than PyTorch in this: a view written to in place may be any of a Function's
  inputs (PyTorch takes the first one for it, and returns wrong gradients); a complex gradient of a real input is
  refused in words; strict mode names the input, not the number of the output; forward-mode jacobians are tuples, not
  lists.
- Hooks know less than PyTorch's: ``_saved_*`` are named as there for operands, results, options and shapes, but what
  PyTorch saves besides (the indices of ``max``) is missing; numbers come in the compute dtype (``2.0``); there is no
  ``_input_metadata``. A saved tensor may be detached in place: the graph has what it needs, where PyTorch's refuses.
"""

from typing import TYPE_CHECKING

from jitgrad.engine import hooks, view_history  # they give Tensor hooks and the history of writes in place
from jitgrad.autograd.backward import backward, grad
from jitgrad.autograd.gradcheck import gradcheck, gradgradcheck  # not lazily: the file has the function's name
from jitgrad.core.grad_mode import (
    enable_grad, is_multithreading_enabled, no_grad, set_grad_enabled, set_multithreading_enabled,
)  # fmt: skip
from jitgrad.core.inference import inference_mode
from jitgrad.core.lazy_import import lazy_attributes
from jitgrad.core.saved_tensors import SavedTensor
from jitgrad.dispatch.registry import publish_later

if TYPE_CHECKING:
    from jitgrad.autograd import forward_ad, function, functional, grad_mode, graph, profiler, profiler_util
    from jitgrad.autograd.anomaly import detect_anomaly, set_detect_anomaly
    from jitgrad.autograd.function import Function
    from jitgrad.autograd.variable import Variable

__all__ = [
    "Function", "SavedTensor", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "function",
    "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_multithreading_enabled", "no_grad",
    "set_detect_anomaly", "set_grad_enabled", "set_multithreading_enabled",
]  # fmt: skip

publish_later("jitgrad.transforms.printing", methods="__repr__")
_SUBMODULES = (
    "anomaly", "forward_ad", "function", "functional", "grad_mode", "graph", "profiler", "profiler_util", "variable",
)  # fmt: skip
__getattr__, __dir__ = lazy_attributes(
    __name__,
    {name: f"jitgrad.autograd.{name}" for name in _SUBMODULES}
    | dict.fromkeys(("detect_anomaly", "set_detect_anomaly"), "jitgrad.autograd.anomaly")
    | {"_profiler_enabled": "jitgrad.autograd.profiler"}
    | {"Function": "jitgrad.autograd.function", "Variable": "jitgrad.autograd.variable"},
)
