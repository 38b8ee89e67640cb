"""The older home of ``torch.func.functional_call``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.func.modules import functional_call as _call

__all__ = ["functional_call"]

explain_missing_names(__name__)


def functional_call(
    module: Any, parameters_and_buffers: dict[str, Any], args: Any = None, kwargs: Mapping[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """``jitgrad.func.functional_call``, for one dictionary."""
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a future "
        "version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning, stacklevel=2,
    )  # fmt: skip
    return _call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


_functional_call = _call
