"""jitgrad: PyTorch's autograd over pairs of Numba kernels.

``import jitgrad as torch`` runs PyTorch code: the names here are PyTorch's.
"""

from math import e, inf, nan, pi

from . import autograd, cuda, debug, dtypes, func, nn, ops, optim, profiler, random, testing, utils
from .autograd.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled
from .autograd.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .autograd.inference import inference_mode, is_inference_mode_enabled
from .dtypes import (
    bool_, complex64, complex128, dtype, float32, float64, get_default_dtype, int8, int16, int32, int64,
    promote_types, uint8,
)  # fmt: skip
from .func import vmap
from .formatting import get_printoptions, printoptions, set_printoptions
from .kernels.declaration import Elementwise
from .kernels.threads import get_num_threads
from .layout import Size
from .ops.kernel_pair import kernel_pair
from .ops.registry import FUNCTIONS
from .random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from .serialization import load, save
from .settings import finfo, iinfo, set_default_dtype, set_num_threads
from .tensor import Tensor

__version__ = "0.1.0"

bool = bool_
float, double, int, long, short = float32, float64, int32, int64, int16
cfloat, cdouble = complex64, complex128
newaxis = None

# Every op by its public name. Functions come after submodules: ``jitgrad.tensor`` is the function.
globals().update(FUNCTIONS)


def __getattr__(name):  # untyped on purpose: mypy reads the type too late in a circle of imports
    """Ops that were declared after the import are found here."""
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError(f"module 'jitgrad' has no attribute {name!r}") from None
