"""A module trained by several processes, which there are not: the class is there for programs that test for it."""

from __future__ import annotations

from typing import Any

from jitgrad.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Can't be made: ValueError, as in PyTorch before a process group is initialised."""

    def __init__(self, module: Any, *args: Any, **kwargs: Any):
        super().__init__()
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
