"""jitgrad: PyTorch's autograd over pairs of Numba kernels.

``import jitgrad as torch`` runs PyTorch code: the names here are PyTorch's.
"""

import os as _os
import typing as _typing
from math import e, inf, nan, pi

from jitgrad.kernels.collector import paused_collector as _paused_collector
from jitgrad.kernels.compile_ahead import begin_at_import as _begin_at_import

# Passes over an import's objects, and the hundred thousand that Numba keeps, would be a quarter of its time.
with _paused_collector(lasting=True):
    _begin_at_import()
    from jitgrad import autograd, cpu, cuda, ops
from jitgrad.core import dtypes, return_types
from jitgrad.core.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from jitgrad.core.inference import inference_mode, is_inference_mode_enabled
from jitgrad.core.dtypes import (
    bfloat16, bool_, complex128, complex64, dtype, float16, float32, float64, get_default_dtype, int16, int32, int64,
    int8, uint16, uint32, uint64, uint8,
)  # fmt: skip
from jitgrad.kernels.elementwise.declaration import Elementwise
from jitgrad.kernels.threads import get_num_threads
from jitgrad.core.layout import Size
from jitgrad.core.lazy_import import lazy_attributes as _lazy_attributes
from jitgrad.dispatch.registry import FUNCTIONS as _FUNCTIONS, LATER as _LATER, published as _published
from jitgrad.core.settings import finfo, iinfo, set_default_dtype, set_num_threads
from jitgrad.core.tensor import Tensor

if _typing.TYPE_CHECKING:
    from jitgrad.random import default_generator  # for the stub: unlike a function, it does not know where it is from

__version__ = "0.1.0"

bool = bool_
float, double, int, long, short = float32, float64, int32, int64, int16
half, cfloat, cdouble = float16, complex64, complex128
newaxis = None

# Every op by its public name. Functions come after submodules: ``jitgrad.tensor`` is the function.
globals().update({name: function for name, function in _FUNCTIONS.items() if "." not in name})


# Imported when a program first asks for them, since none of it is needed by the rest.
_LAZY = {
    "datasets": "jitgrad.datasets", "debug": "jitgrad.debug",
    "distributions": "jitgrad.distributions", "fft": "jitgrad.fft", "func": "jitgrad.func",
    "linalg": "jitgrad.linalg", "masked": "jitgrad.masked", "multiprocessing": "jitgrad.multiprocessing",
    "nn": "jitgrad.nn", "notebook": "jitgrad.notebook",
    "optim": "jitgrad.optim", "profiler": "jitgrad.profiler", "random": "jitgrad.random",
    "serialization": "jitgrad.serialization", "signal": "jitgrad.signal", "sparse": "jitgrad.sparse",
    "special": "jitgrad.special",
    "_utils": "jitgrad._utils", "safetensors": "jitgrad.safetensors", "storage": "jitgrad.storage",
    "testing": "jitgrad.testing", "utils": "jitgrad.utils",
    "is_anomaly_check_nan_enabled": "jitgrad.autograd.anomaly", "is_anomaly_enabled": "jitgrad.autograd.anomaly",
    "vmap": "jitgrad.func", "amp": "jitgrad.amp", "backends": "jitgrad.backends", "types": "jitgrad.types",
    "DisableTorchFunctionSubclass": "jitgrad.overrides",
    **{
        name: f"jitgrad.{name}"
        for name in (
            "_C", "__config__", "__future__", "_dynamo", "_functorch", "_inductor", "_jit_internal", "_ops",
            "_subclasses", "_tensor", "_vmap_internals", "accelerator", "classes", "compat", "distributed", "export",
            "functional", "futures", "fx", "hub", "jit", "library", "mps", "mtia", "nested", "onnx", "overrides",
            "package", "storage", "torch_version", "version", "xpu",
        )
    },
    **dict.fromkeys(
        ("_assert", "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all",
         "_check_type", "_check_value", "_check_with", "_constrain_as_size", "_sym_sqrt", "sym_float",
         "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum"),
        "jitgrad.core.assertions",
    ),
    **dict.fromkeys(
        ("AcceleratorError", "Event", "OutOfMemoryError", "Stream", "SymBool", "SymFloat", "SymInt", "Tag",
         "cond", "detach", "eig", "get_device", "has_lapack", "has_mkl", "has_openmp", "has_spectral", "is_distributed",
         "is_vulkan_available", "lstsq", "matrix_rank", "set_anomaly_enabled", "solve", "symeig"),
        "jitgrad.core.stand_ins",
    ),
    "Future": "jitgrad.futures", "ScriptModule": "jitgrad.jit", "ScriptFunction": "jitgrad.jit",
    "fork": "jitgrad.jit", "wait": "jitgrad.jit", "get_device_module": "jitgrad.core.device",
    "get_default_device": "jitgrad.core.device",
    "set_default_device": "jitgrad.core.device", "typename": "jitgrad.core.tensor",
    "autocast": "jitgrad.amp", "GradScaler": "jitgrad.amp",
    **dict.fromkeys(
        ("autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "get_autocast_cpu_dtype",
         "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
         "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
         "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype"),
        "jitgrad.amp.autocast_mode",
    ),
    **dict.fromkeys(
        ("are_deterministic_algorithms_enabled", "compiled_with_cxx11_abi", "get_deterministic_debug_mode",
         "get_float32_matmul_precision", "get_num_interop_threads", "is_deterministic_algorithms_warn_only_enabled",
         "is_warn_always_enabled", "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
         "set_num_interop_threads", "set_warn_always", "use_deterministic_algorithms"),
        "jitgrad.core.program_flags",
    ),
    **dict.fromkeys(("get_printoptions", "printoptions", "set_printoptions"), "jitgrad.core.formatting"),
    **dict.fromkeys(
        ("Generator", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"),
        "jitgrad.random",
    ),
    "_VF": "jitgrad._VF", "compile": "jitgrad.compiler", "compiler": "jitgrad.compiler",
    "differentiable": "jitgrad.extend.differentiable", "kernel_pair": "jitgrad.extend.kernel_pair",
    "numba_grad": "jitgrad.extend.numba_grad", "load": "jitgrad.serialization", "save": "jitgrad.serialization",
}  # fmt: skip
# Submodules become attributes of the package once something imports them. These are no names for users.
_INTERNAL = {"commands", "core", "dispatch", "engine", "extend", "kernels", "transforms"}
_lazy_attribute, _all_names = _lazy_attributes(__name__, _LAZY)




def __getattr__(name):  # untyped on purpose: mypy reads the type too late in a circle of imports
    """What is imported on first access, and ops that were declared after the import."""
    if name == "__all__":  # a star import wants all names, those that are not imported yet too
        return [n for n in __dir__() if n[0] != "_"]
    if name.startswith("_foreach_"):
        _LAZY[name] = "jitgrad.ops.foreach"
    if name not in _LAZY and (function := _published(name)) is not None:
        if name in _LATER:  # a user's op may be declared again under its name, these may not
            globals()[name] = function
        return function
    return _lazy_attribute(name)


def __dir__():
    """The names that users may use, imported or not, and Python's own (``__doc__``, ...)."""
    later = [n for n in _LATER if "." not in n]
    return [n for n in {*_all_names(), *later} if n not in _INTERNAL and (n[0] != "_" or n.endswith("__"))]


if "JITGRAD_DEBUG" in _os.environ:
    _lazy_attribute("debug")  # prints launches from its import on, as the variable says
if "JITGRAD_CHECK" in _os.environ:
    _lazy_attribute("testing")  # checks pairs of loops that are declared from its import on
