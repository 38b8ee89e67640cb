"""A loop of a kernel_pair on tensors: what it is given, and when its indices are checked.

What a launch needs is planned once for each combination of the arguments' layouts and whole numbers, since those decide
which indices a loop computes. The first call of a combination runs the checked kernel; only if it succeeds is the
combination remembered, with the unchecked kernel. So checks cost the later calls nothing: these look up the plan that
they need anyway. Indices that are computed from elements or from floats may differ from call to call: a loop whose text
has such indices keeps the checked kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import cache
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.codegen.loop_faults import refuse_faults, refuse_hidden_writes
from jitgrad.kernels.codegen.source import LoopSource
from jitgrad.kernels.cuda.provider import user_kernel
from jitgrad.kernels.device_array import DeviceArray, check_one_device
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
    """The forward or backward loop of the pair ``name``. check: whether indices are; None for first calls only.

    cuda: the same loop for tensors on a GPU, if there is one; it names the same parameters, in any order.
    """

    def __init__(self, name: str, loop: UserLoop, check: bool | None, cuda: Callable[..., None] | None = None):
        self.name, self.loop, self.check, self.cuda = name, loop, check, cuda
        self.parameters = loop.parameters
        if check is False:
            refuse_hidden_writes(loop.source, [self.parameters[k] for k in loop.writes])
        if cuda is not None:
            self._check_cuda(LoopSource(cuda, also={"cuda"}))

    def launch(self, arguments: Sequence[Any], dtype: dtypes.dtype) -> None:
        """Run the loop on tensors and numbers in the order of its parameters, floats that it reads cast to ``dtype``.

        Real numbers beside complex ones stay real, of the same precision.
        """
        key = (self, *[a._layout if isinstance(a, Tensor) else a if isinstance(a, (int, np.integer)) else type(a)
                       for a in arguments])  # fmt: skip
        plan = _plans.get(key)
        if plan is None:
            _plans[key] = self._first_launch(arguments, dtype)
            return
        kernel, ways = plan
        launch(kernel, *[a if way == _NUMBER else a._data if way == _ARRAY else _loop_argument(a, dtype)
                         for a, way in zip(arguments, ways, strict=True)])  # fmt: skip

    def _first_launch(self, arguments: Sequence[Any], dtype: dtypes.dtype) -> Any:
        """Run the loop with its checks; returns the plan for later launches."""
        writes = self.loop.writes
        # What a loop writes is contiguous, and of the dtype that it was declared with.
        given = [a._data if k in writes else _loop_argument(a, dtype) for k, a in enumerate(arguments)]
        ways = tuple(_NUMBER if v is a else _ARRAY if getattr(a, "_data", None) is v else _CONVERTED
                     for a, v in zip(arguments, given, strict=True))  # fmt: skip
        check_one_device(given)
        # A complex literal could not be stored into a real output.
        real = dtype.is_complex and any(arguments[k].dtype.is_floating_point for k in writes)
        literals = (dtype.to_real() if real else dtype).numpy
        if any(isinstance(v, DeviceArray) for v in given):
            kernel = self._cuda_kernel(literals)
            launch(kernel, *given)
            return kernel, ways
        self.loop.check_ranks(given)
        always = self.check or always_checked()
        if self.check is None and not always:
            always = self.loop.decided_by_data(given)
        launch(self.loop.kernel(literals, always or self.check is None), *given)
        return self.loop.kernel(literals, always), ways

    def _cuda_kernel(self, dtype: np.dtype[Any]) -> Kernel:
        if self.cuda is None:
            raise NotImplementedError(
                f"{self.name}: has no CUDA loop beside {self.loop.name}; pass kernel_pair(..., cuda=(forward, "
                "backward))"
            )
        return user_kernel(self.cuda, tuple(self.parameters), self.loop.writes, dtype)

    def _check_cuda(self, source: LoopSource) -> None:
        if sorted(source.parameters) != sorted(self.parameters):
            raise TypeError(
                f"{self.name}: the CUDA loop {source.name} has the parameters {source.parameters}, but "
                f"{self.loop.name} has {self.parameters}; name the same ones, in any order"
            )
        refuse_faults(source, [self.parameters[k] for k in self.loop.writes])


def _loop_argument(value: Any, dtype: dtypes.dtype) -> Any:
    """A loop's argument: the contiguous array of a tensor, cast if floating-point or complex, or a Python number."""
    if isinstance(value, Tensor):
        wanted = value.dtype
        if wanted.category >= 2 and dtype.category >= 2:
            wanted = dtype if wanted.is_complex else dtype.to_real()
        return contiguous(cast(value.detach(), wanted))._data
    if isinstance(value, (int, float, bool, complex, np.generic)):
        return value.item() if isinstance(value, np.generic) else value
    raise TypeError(f"a loop takes tensors and numbers, but got {type(value).__name__}")
