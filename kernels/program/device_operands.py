"""The arrays of an elementwise launch on a device as vectors, and how a loop goes through each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.kernels.cuda.provider import CudaElementwise
from jitgrad.kernels.device_array import DeviceArray

__all__ = ["ALL", "COLUMN", "ONCE", "ROW", "Operand", "device_operands"]

# How a loop goes through an array: from its first element to its last; for each row of a matrix again; element by
# element with the rows; or it stays at one element.
ALL, ROW, COLUMN, ONCE = "all", "row", "column", "once"


class Operand(NamedTuple):
    """An array as a vector, its role, and for rows and columns how many elements a row of the matrix has."""

    array: DeviceArray
    role: str
    width: int | None


def device_operands(kernel: CudaElementwise, args: Sequence[Any]) -> list[Operand | None]:
    """The operands of a launch, inputs and then outputs; None for an array that the loop goes through otherwise."""
    arrays = args[: kernel.arrays]
    if not kernel.strided:
        return [Operand(a.ravel("K"), ALL, None) for a in arrays]
    out = arrays[-1]
    # In the order in which the kernel goes through the memory of its results; dims of one element change nothing.
    order = sorted((d for d in range(out.ndim) if out.shape[d] != 1), key=lambda d: -out.strides[d])
    sizes = [out.shape[d] for d in order]
    return [_operand(a, sizes, _steps(a, out, order)) for a in arrays]


def _steps(array: DeviceArray, out: DeviceArray, order: Sequence[int]) -> list[int]:
    """The strides of an array, in elements, in the loop: 0 where its elements are repeated."""
    lead = out.ndim - array.ndim
    return [
        0 if d < lead or array.shape[d - lead] == 1 else array.strides[d - lead] // array.itemsize for d in order
    ]  # fmt: skip


def _operand(array: DeviceArray, sizes: list[int], steps: list[int]) -> Operand | None:
    inner = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]  # the strides of a vector of all elements
    if steps == inner:
        return Operand(_vector(array, math.prod(sizes)), ALL, None)
    if not any(steps):
        return Operand(_vector(array, 1), ONCE, None)
    split = next((d for d, step in enumerate(steps) if bool(step) != bool(steps[0])), 0)
    width = math.prod(sizes[split:])
    if split and not any(steps[:split]) and steps[split:] == inner[split:]:
        return Operand(_vector(array, width), ROW, width)
    if split and not any(steps[split:]) and steps[:split] == [n // width for n in inner[:split]]:
        return Operand(_vector(array, math.prod(sizes[:split])), COLUMN, width)
    return None


def _vector(array: DeviceArray, size: int) -> DeviceArray:
    return array.restrided((size,), (1,))
