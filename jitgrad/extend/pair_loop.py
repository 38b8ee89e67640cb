"""A loop of a kernel_pair on tensors: what it is given, and when its indices are checked.

What a launch needs is planned once for each combination of the arguments' layouts and whole numbers, since those decide
which indices a loop computes. The first call of a combination runs the checked kernel; only if it succeeds is the
combination remembered, with the unchecked kernel. So checks cost the later calls nothing: these look up the plan that
they need anyway. Indices that are computed from elements or from floats may differ from call to call: for those is
``check=True``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import cache
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.cuda.provider import user_kernel
from jitgrad.kernels.device_array import check_one_device
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.user_loop import UserLoop, always_checked
from jitgrad.ops.shape.copy import cast, contiguous

__all__ = ["PairLoop"]

# How an argument is handed to a loop: a number as it is, a tensor's array as it is, what `_loop_argument` makes of it.
_NUMBER, _ARRAY, _CONVERTED = range(3)
# {(loop, layout or whole number or type of each argument): (kernel, one of the three for each argument)}. Bounded: a
# loop with a counter among its arguments makes an entry at each call.
_plans: dict[tuple[Any, ...], tuple[Kernel, tuple[int, ...]]] = cache()


class PairLoop:
    """The forward or backward loop of the pair ``name``. check: whether indices are; None for first calls only."""

    def __init__(self, name: str, loop: UserLoop, check: bool | None):
        self.name, self.loop, self.check = name, loop, check
        self.parameters = loop.parameters

    def launch(self, arguments: Sequence[Any], dtype: dtypes.dtype, cuda: Callable[..., None] | None) -> None:
        """Run the loop on tensors and numbers in the order of its parameters, floats cast to ``dtype``.

        cuda: the loop for tensors on a GPU.
        """
        key = (self, *[a._layout if isinstance(a, Tensor) else a if isinstance(a, (int, np.integer)) else type(a)
                       for a in arguments])  # fmt: skip
        plan = _plans.get(key)
        if plan is None:
            _plans[key] = self._first_launch(arguments, dtype, cuda)
            return
        kernel, ways = plan
        launch(kernel, *[a if way == _NUMBER else a._data if way == _ARRAY else _loop_argument(a, dtype)
                         for a, way in zip(arguments, ways, strict=True)])  # fmt: skip

    def _first_launch(self, arguments: Sequence[Any], dtype: dtypes.dtype, cuda: Any) -> Any:
        """Run the loop with its checks; returns the plan for later launches."""
        given = [_loop_argument(a, dtype) for a in arguments]
        ways = tuple(_NUMBER if v is a else _ARRAY if getattr(a, "_data", None) is v else _CONVERTED
                     for a, v in zip(arguments, given, strict=True))  # fmt: skip
        check_one_device(given)
        tensors = [a for a in arguments if isinstance(a, Tensor)]
        if tensors[0]._layout.device != "cpu":
            kernel = self._cuda_kernel(cuda)
            launch(kernel, *given)
            return kernel, ways
        self.loop.check_ranks(given)
        # Literals have the dtype of the floats, also where the output or the first argument is of integers.
        common = dtype if dtype.category >= 2 else dtypes.promote([t.dtype for t in tensors], [], [])
        always = self.check or always_checked()
        launch(self.loop.kernel(common.numpy, always or self.check is None), *given)
        return self.loop.kernel(common.numpy, always), ways

    def _cuda_kernel(self, function: Callable[..., None] | None) -> Kernel:
        if function is None:
            raise NotImplementedError(
                f"{self.name}: has no CUDA loops; pass kernel_pair(..., cuda=(forward, backward))"
            )
        return user_kernel(function)


def _loop_argument(value: Any, dtype: dtypes.dtype) -> Any:
    """A loop's argument: the contiguous array of a tensor, cast if floating-point or complex, or a Python number."""
    if isinstance(value, Tensor):
        floats = value.dtype.category >= 2 and dtype.category >= 2
        return contiguous(cast(value.detach(), dtype) if floats else value.detach())._data
    if isinstance(value, (int, float, bool, complex, np.generic)):
        return value.item() if isinstance(value, np.generic) else value
    raise TypeError(f"a loop takes tensors and numbers, but got {type(value).__name__}")
