"""What Numba's simulator of CUDA does otherwise than a GPU, put right: mathematics, warnings, shared arrays.

The simulator runs a kernel's Python text once for each of CUDA's threads, in a thread of the operating system.
"""

from __future__ import annotations

import math
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["correct", "names", "quiet"]


def names() -> dict[str, Any]:
    """What kernels' texts call ``math`` and ``libdevice``: precision and special values as on the device."""
    numpys = {
        "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
        "atan2": "arctan2", "atanh": "arctanh", "pow": "power",
    }  # fmt: skip
    known = {n: getattr(np, numpys.get(n, n), None) or _rounded(f) for n, f in vars(math).items() if callable(f)}
    known["lgamma"] = _rounded(lambda x: math.inf if x <= 0 and x == int(x) else math.lgamma(x))
    libdevice = {n + f: getattr(np, n) for n in ("rint", "trunc", "exp2") for f in ("", "f")}
    return {"math": types.SimpleNamespace(**known), "libdevice": types.SimpleNamespace(**libdevice)}


def _rounded(function: Callable[..., float]) -> Callable[..., Any]:
    """A function of Python's ``math`` whose result has its argument's dtype, and that never raises."""

    def rounded(*args: Any) -> Any:
        kind = np.result_type(*args).type
        try:
            return kind(function(*args))
        except ValueError:
            return kind(math.nan)
        except OverflowError:
            return kind(math.inf)

    return rounded


def quiet(function: Callable[..., None]) -> Callable[..., None]:
    """The kernel without NumPy's warnings of overflow: in the simulator scalars are NumPy's."""

    def quiet(*args: Any) -> None:
        with np.errstate(all="ignore"):
            function(*args)

    # The simulator replaces the module ``cuda`` in the globals of the function that it runs.
    return types.FunctionType(quiet.__code__, function.__globals__, function.__name__, None, quiet.__closure__)


# -- shared arrays ---------------------------------------------------------------------------------

_making = threading.Lock()


def correct(cuda: Any) -> None:
    """Let threads of a block that come to ``cuda.shared.array`` at the same time get one array.

    The simulator (Numba 0.68) looks whether the array is there, and makes it if not, without a lock: now and then a
    thread is left with an array that no other one sees, and its part of a sum is lost. Dynamic shared memory, of shape
    0, is made before threads start.
    """
    api = cuda.simulator.kernelapi
    dynamic = api.FakeCUDAShared.array

    def array(self: Any, shape: Any, dtype: Any) -> Any:
        if shape == 0:
            return dynamic(self, shape, dtype)
        frame = sys._getframe(1)
        place = frame.f_code, frame.f_lasti
        with _making:
            if place not in self._allocations:
                numpys = api.numpy_support.as_dtype(dtype) if isinstance(dtype, api.types.Type) else dtype
                self._allocations[place] = np.empty(shape, numpys)
            return self._allocations[place]

    api.FakeCUDAShared.array = array
