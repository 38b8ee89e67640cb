"""Checks of operands that many ops share, in PyTorch's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import TITLES
from ..tensor import Tensor

__all__ = ["check_category", "check_devices", "check_inplace_target", "check_result_cast", "number"]

_NUMBERS = (bool, int, float, complex, np.generic)
_CATEGORY_NAMES = ("bool", "int", "float", "complex")


def number(op: str, name: str, value: Any) -> int:
    """Return the category of a Python number; TypeError for anything else."""
    if not isinstance(value, _NUMBERS):
        raise TypeError(
            f"{op}(): argument '{name}' must be Tensor or Number, not {type(value).__name__}"
        )
    return dtypes.category_of(value)


def check_devices(op: str, tensors: Sequence[Tensor]) -> None:
    """All tensors with dimensions must be on one device."""
    devices = list(dict.fromkeys(str(t._layout.device) for t in tensors))
    if len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices[0]} and {devices[1]}! (in {op})"
        )


def check_category(op: Any, common: dtypes.dtype) -> None:
    """The op must be defined for operands of this category."""
    if _CATEGORY_NAMES[common.category] not in op.accepts.split():
        raise RuntimeError(f'"{op.name}_cpu" not implemented for \'{TITLES[common.name]}\'')


def check_result_cast(result: dtypes.dtype, target: dtypes.dtype) -> None:
    """An in-place result must not lose its category."""
    if result.category > target.category:
        raise RuntimeError(
            f"result type {TITLES[result.name]} can't be cast to the desired output type {TITLES[target.name]}"
        )


def check_inplace_target(target: Tensor, record: bool) -> None:
    """A leaf that requires grad must not be written to while recording; nor must expanded memory."""
    if record and target._edge is None and target._requires_grad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if record and target._base is not None and target._base._edge is None and target._base._requires_grad:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    layout = target._layout
    if any(s == 0 and n > 1 for s, n in zip(layout.strides, layout.shape, strict=True)):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
