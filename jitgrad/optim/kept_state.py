"""What optimisers keep of parameters: counters, loaded state, tensors sorted by device and dtype."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jitgrad
from jitgrad.core.dtypes import float32, float64, get_default_dtype
from jitgrad.core.tensor import Tensor

__all__ = ["cast_state", "group_tensors", "new_counter"]


def cast_state(param: Tensor, value: Any, key: Any, group: dict[str, Any]) -> Any:
    """A copy of a piece of state, its tensors with the dtype and device of the parameter."""
    if isinstance(value, Tensor):
        if key == "step":  # in float16 a counter would stop at 2048
            kept = value.detach().clone()
            return kept.to(float32) if group.get("fused") or group.get("capturable") else kept
        if param.is_floating_point():
            return value.detach().to(dtype=param.dtype, device=param.device, copy=True)
        return value.detach().to(device=param.device, copy=True)
    if isinstance(value, dict):
        return {k: cast_state(param, v, k, group) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(cast_state(param, v, "", group) for v in value)  # type: ignore[call-arg]
    return value


def new_counter(value: Any = 0.0, fused: Any = False) -> Tensor:
    """A counter in a tensor without dims, as PyTorch keeps it: float32, or float64 if that is the default dtype."""
    wide = get_default_dtype() is float64 and not fused
    return jitgrad.full((), float(value), dtype=float64 if wide else float32)


def group_tensors(
    tensorlistlist: list[list[Any]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]:
    """{(device, dtype) of the first list's tensors: (the lists' parts that go with them, their places)}."""
    places: dict[tuple[Any, Any], list[int]] = {}
    for k, tensor in enumerate(tensorlistlist[0]):
        places.setdefault((tensor.device, tensor.dtype), []).append(k)
    return {
        kind: ([[column[k] for k in ks] if column else [] for column in tensorlistlist], ks if with_indices else [])
        for kind, ks in places.items()
    }
