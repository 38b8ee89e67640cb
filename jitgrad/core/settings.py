"""Settings that plans depend on: changing one empties every cache of plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import must_be
from jitgrad.core.layout import forget_plans
from jitgrad.kernels import threads

__all__ = ["finfo", "iinfo", "set_default_dtype", "set_num_threads"]


def set_num_threads(count: int) -> None:
    """Spread large kernels, products of matrices among them, over ``count`` threads (at least 1).

    By default as many as ``JITGRAD_NUM_THREADS``, else ``OMP_NUM_THREADS`` says, else there are cores. The program's
    own NumPy and SciPy code is held to the number too: their BLAS gets so many threads, but no more than it had before.
    """
    threads.set_num_threads(count)
    forget_plans()


def set_default_dtype(d: dtypes.dtype) -> None:
    """Make ``d`` (float32 or float64) the dtype of new floating-point tensors."""
    dtypes.set_default_dtype(d)
    forget_plans()


def _dtype_argument(name: str, value: Any) -> dtypes.dtype:
    found = dtypes.from_argument(value)
    if found is None:
        raise must_be(name, "type", 1, "torch.dtype", value)
    return found


# NumPy's numbers as Python's, and dtypes by name: PyTorch's attributes have these types.
class finfo:
    """Numerical limits of a floating-point dtype: ``eps``, ``max``, ``min``, ``tiny``, ``resolution``, ``bits``."""

    def __init__(self, type: dtypes.dtype = ...):  # type: ignore[assignment]
        dtype = dtypes.get_default_dtype() if type is ... else _dtype_argument("finfo", type)
        if dtype.category < 2:
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'"  # sic
            )
        dtype = dtype.to_real()
        info = dtype.limits
        self.bits, self.dtype = int(info.bits), dtype.name
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(f"1e-{info.precision}")

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """Numerical limits of an integer dtype: ``max``, ``min``, ``bits``."""

    def __init__(self, type: dtypes.dtype):
        dtype = _dtype_argument("iinfo", type)
        if dtype.category == 0:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        if dtype.category != 1:
            raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
        info = np.iinfo(dtype.numpy)
        self.bits, self.max, self.min, self.dtype = int(info.bits), int(info.max), int(info.min), dtype.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
