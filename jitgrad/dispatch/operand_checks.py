"""Checks of operands that many ops share, with PyTorch's errors: categories, devices, targets of writes, overlaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import not_implemented_for, same_device, scalar_type, type_name
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import check_write
from jitgrad.core.layout import Layout, is_dense
from jitgrad.core.storage import counter_of
from jitgrad.core.tensor import Tensor, address
from jitgrad.core.view_errors import check_view_kind
from jitgrad.kernels.lazy_array import memory_of

__all__ = [
    "NUMBERS", "check_category", "check_devices", "check_history", "check_inplace_target", "check_kernel",
    "check_memory", "check_result_cast", "check_tensors", "is_same_memory", "may_overlap", "overlapping", "overlaps",
]  # fmt: skip

NUMBERS = (bool, int, float, complex, np.number, np.bool_)  # what may stand for a number
_CATEGORY_NAMES = ("bool", "int", "float", "complex")  # by category, as declarations write them


def check_devices(op: str, layouts: Sequence[Layout]) -> None:
    """RuntimeError unless tensors are on one device; those without dimensions may be on the CPU beside another."""
    if len({x.device for x in layouts}) < 2:
        return
    devices = list(dict.fromkeys(str(x.device) for x in layouts))
    if len(devices) > 1:
        devices = list(dict.fromkeys(str(x.device) for x in layouts if x.ndim or x.device != "cpu"))
    if len(devices) > 1:
        raise same_device(op, devices[0], devices[1])


def check_tensors(given: Iterable[Any], argument: int = 0) -> None:
    """TypeError unless all elements of an op's list are tensors; ``argument`` is the list's place, from 0."""
    for k, x in enumerate(given):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument {argument}, but got {type_name(x)}")


def check_category(op: Any, common: dtypes.dtype, operands: Sequence[int] = ()) -> None:
    """What an elementwise declaration ``refuses``: a category of results, or "any bool", any boolean operand.

    operands: the categories of the operands. Each refusal has its own class and text, which are PyTorch's.
    """
    keys = [_CATEGORY_NAMES[common.category]]
    if 0 in operands:
        keys.append("any bool")
    for key in keys:
        if key in op.refuses:
            kind, text = op.refuses[key]
            raise kind(text)


def check_kernel(op: Any, common: dtypes.dtype) -> None:
    """NotImplementedError unless a declaration ``accepts`` the category of its operands' common dtype."""
    if _CATEGORY_NAMES[common.category] not in op.accepts.split():
        raise not_implemented_for(op.error_name, common)
    if common in _UNSIGNED and op.name in _NOT_UNSIGNED:
        raise not_implemented_for(_NOT_UNSIGNED[op.name], common)


# What PyTorch has no kernels for with uint16, uint32 and uint64, and the kernels that its errors name.
_UNSIGNED = frozenset([dtypes.uint16, dtypes.uint32, dtypes.uint64])
_NOT_UNSIGNED = {
    name: f"{name}_cpu" for name in
    ("abs", "bitwise_not", "ge", "gt", "le", "logical_and", "logical_not", "logical_or", "logical_xor", "lt", "maximum",
     "minimum", "neg", "sign")
} | {
    "add": "add_stub", "sub": "add_stub", "relu": "clamp_min_scalar_cpu", "fmax": "maximum_cpu", "fmin": "maximum_cpu",
    "bitwise_left_shift": "lshift_cpu", "bitwise_right_shift": "rshift_cpu", "remainder": "remainder_cpu",
    "remainder_number": "remainder_cpu", "fmod": "fmod_cpu", "fmod_number": "fmod_cpu", "pow": "pow",
    "pow_number": "pow", "number_pow": "pow", "div_floor": "div_floor_cpu", "div_trunc": "div_trunc_cpu",
}  # fmt: skip


def check_result_cast(result: dtypes.dtype, target: dtypes.dtype) -> None:
    """RuntimeError if a write would lower the category of a result: a float result into an integer tensor."""
    if result.category > target.category:
        raise RuntimeError(
            f"result type {scalar_type(result)} can't be cast to the desired output type {scalar_type(target)}"
        )


def overlaps(target: Tensor, other: Tensor) -> bool:
    """Whether writing to ``target`` could change ``other`` while it is being read, so that it has to be copied first.

    RuntimeError if both are without gaps and share part of their memory, as in PyTorch, which notices overlap in this
    case only and else computes with half-written values.
    """
    # Views of one memory share its version counter, so two counters are a proof that nothing overlaps.
    if other is target or other._counter is not counter_of(target):
        return False
    if is_same_memory(target, other):
        return False  # each element is read before it is written
    mine, theirs = target._layout, other._layout
    if mine.device != "cpu":
        return True
    if not np.may_share_memory(memory_of(target._data), memory_of(other._data)):
        return False
    if is_dense(mine) and is_dense(theirs):
        raise overlapping()
    return True


def is_same_memory(target: Tensor, other: Tensor) -> bool:
    """Whether two tensors, views of one memory, have the same elements in the same order."""
    mine, theirs = target._layout, other._layout
    return (mine is theirs or _order(mine) == _order(theirs)) and address(target) == address(other)


def overlapping() -> RuntimeError:
    """The error where what is read would be written to meanwhile."""
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
        "memory location. Please clone() the tensor before performing the operation."
    )


def _order(layout: Layout) -> list[tuple[int, int]]:
    """Sizes and strides of the dims that have several elements: strides of the others mean nothing."""
    return [(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1]


def has_internal_overlap(layout: Layout) -> bool:
    """Whether several elements have one place in memory, as those of an expanded tensor (stride 0) have."""
    if layout.contiguous:
        return False
    return any(s == 0 and n > 1 for s, n in zip(layout.strides, layout.shape, strict=True))


def may_overlap(layout: Layout) -> bool:
    """Whether two elements may have one place in memory.

    Surely not if the stride of each dim is larger than all that the dims of smaller strides span.
    """
    if layout.contiguous:
        return False
    reach = 0
    for stride, n in sorted(zip(layout.strides, layout.shape, strict=True)):
        if n > 1:
            if stride <= reach:
                return True
            reach += stride * (n - 1)
    return False


def check_inplace_target(target: Tensor, record: bool, allows_internal_overlap: bool = False) -> None:
    """RuntimeError if ``target`` must not be written to, because of its history or its memory.

    record: whether the write is recorded. allows_internal_overlap: whether several elements may have one place.
    """
    check_history(target, record)
    if not allows_internal_overlap:
        check_memory(target._layout)


def check_history(target: Tensor, record: bool) -> None:
    """RuntimeError if a write to ``target`` could not be made part of its history.

    That is so for a leaf that requires grad, because its gradient belongs to the value before the write; for a view of
    one; and for views of the kinds that core/view_errors.py names.
    """
    base = target._base
    if base is not None and grad_state.enabled:
        if target._view_kind and (record or base._requires_grad):
            check_view_kind(target)
        if base._edge is None and (base._requires_grad or (record and target._requires_grad)):
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place operation."
            )
    if record and target._requires_grad:
        if target._edge is None:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    check_write(target)


def check_memory(target: Layout) -> None:
    """RuntimeError if several elements of what is written to have one place in memory: which one wins is chance."""
    if has_internal_overlap(target):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )
