"""A module whose batches would be split over devices."""

from __future__ import annotations

from typing import Any

from jitgrad.nn.modules.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls ``module``, under whose name its state is saved; the other arguments are accepted."""

    def __init__(self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0):
        super().__init__()
        self.dim = dim
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Any, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0, module_kwargs: Any = None
) -> Any:  # fmt: skip
    """Call ``module`` on ``inputs``, a tuple of arguments or a single one."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
