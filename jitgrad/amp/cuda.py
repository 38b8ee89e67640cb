"""``jitgrad.cuda.amp``: autocast and GradScaler of one device type, deprecated in PyTorch."""

from __future__ import annotations

import functools
import warnings
from typing import Any

from jitgrad.amp import autocast_mode, grad_scaler
from jitgrad.core import dtypes
from jitgrad.core.user_frame import user_level

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

_USE = "`torch.cuda.amp.{0}(args...)` is deprecated. Please use `torch.amp.{0}('cuda', args...)` instead."
custom_fwd = functools.partial(autocast_mode.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(autocast_mode.custom_bwd, device_type="cuda")


class autocast(autocast_mode.autocast):
    """``jitgrad.autocast("cuda", ...)``."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True):
        warnings.warn(_USE.format("autocast"), FutureWarning, stacklevel=user_level())
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """``jitgrad.amp.GradScaler("cuda", ...)``."""

    def __init__(self, *args: Any, **settings: Any):
        warnings.warn(_USE.format("GradScaler"), FutureWarning, stacklevel=user_level())
        super().__init__("cuda", *args, **settings)
