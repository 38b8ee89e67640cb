"""Modules of PyTorch's first versions, which warn when one is made."""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.nn.modules.loss import NLLLoss
from jitgrad.nn.modules.module import Module

__all__ = ["Container", "NLLLoss2d"]


class NLLLoss2d(NLLLoss):
    """``NLLLoss`` under its name for images."""

    def __init__(self, *args: Any, **kwargs: Any):
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class Container(Module):
    """A module with the given children, for subclasses to define ``forward``."""

    def __init__(self, **kwargs: Any):
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)
