"""jitgrad: PyTorch's autograd over pairs of Numba kernels."""

from . import ops  # noqa: F401
from .autograd import backward as _b
from .autograd.grad_mode import *
from .ops.registry import FUNCTIONS
from .dtypes import *
from .dtypes import float32, float64, complex64, int64
__version__ = "0.1.0"
globals().update(FUNCTIONS)
def __getattr__(name):
    try: return FUNCTIONS[name]
    except KeyError: raise AttributeError(f"module 'jitgrad' has no attribute {name!r}")
