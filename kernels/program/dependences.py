"""What launches read and write, as ranges of addresses, and which of them have to follow which.

A launch depends on an earlier one where one of them writes memory that the other reads or writes. Ranges are compared,
not the elements in them: two columns of one matrix count as overlapping.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels.cuda.provider import CudaElementwise
from jitgrad.kernels.elementwise.declaration import ElementwiseKernel, StridedKernel
from jitgrad.kernels.launch import Kernel, Loop
from jitgrad.kernels.program.addresses import address_of, extent_of, extent_of_strides, is_array
from jitgrad.kernels.program.device_operands import ALL, ONCE, device_operands
from jitgrad.kernels.program.fused_kernel import Fused
from jitgrad.kernels.program.operands import full_operands

__all__ = ["Access", "Launch", "Span", "accesses", "dependences", "span_of", "written_elements"]


class Launch(NamedTuple):
    """A launch, and the checks that follow it: (array, what raises, arguments), see `kernels.launch.check`."""

    kernel: Kernel
    args: tuple[Any, ...]
    checks: list[tuple[Any, Callable[..., Any], tuple[Any, ...]]]


class Span(NamedTuple):
    """Contiguous memory that is visited from ``low`` on, element after element."""

    low: int
    size: int
    dtype: Any


class Access(NamedTuple):
    """A range of bytes that a launch reads, writes or, where it may do either, both.

    span: the memory as a vector, None unless the launch visits all of it in order, by elements or by rows.
    """

    low: int
    high: int
    reads: bool
    writes: bool
    span: Span | None


def span_of(array: Any) -> Span:
    """A contiguous array's memory as a vector."""
    return Span(address_of(array), array.size, array.dtype)


def accesses(launch: Launch) -> list[Access]:
    """What a launch touches, an access for each of its arrays."""
    kernel, args = launch.kernel, launch.args
    if isinstance(kernel, CudaElementwise):
        return _device_accesses(kernel, args)
    in_order, only_writes = _known(kernel, len(args))
    strided = isinstance(kernel, StridedKernel)
    ranges = _strided_extents(args) if strided else {}
    whole = full_operands(args, len(args[-3])) if strided else {}
    written = set(kernel.writes)
    found = []
    for k, a in enumerate(args):
        if isinstance(a, np.ndarray) and a.ndim <= 1 and k in ranges:
            span = Span(address_of(a), whole[k], a.dtype) if k in whole else None
            found.append(Access(*ranges[k], k not in written, k in written, span))
        elif is_array(a) and a.size:
            span = span_of(a) if k in in_order and a.flags.c_contiguous else None
            found.append(Access(*extent_of(a), k not in only_writes, k in written, span))
    found += [Access(*extent_of(flag), True, False, None) for flag, *_ in launch.checks]
    return found


def _device_accesses(kernel: CudaElementwise, args: Sequence[Any]) -> list[Access]:
    """The same for an elementwise launch on a device, whose arrays are those of tensors."""
    found = []
    for k, (a, operand) in enumerate(zip(args, device_operands(kernel, args), strict=False)):
        in_order = operand is not None and operand.role in (ALL, ONCE)
        span = span_of(operand.array) if operand is not None and in_order else None
        found.append(Access(*extent_of(a), k not in kernel.writes, k in kernel.writes, span))
    return found


def _known(kernel: Kernel, count: int) -> tuple[Collection[int], Collection[int]]:
    """Positions, of so many arguments, of arrays that a kernel visits in order, and of those that it never reads."""
    if isinstance(kernel, StridedKernel):
        return (), kernel.writes
    if isinstance(kernel, ElementwiseKernel):
        return range(count), kernel.writes
    if isinstance(kernel, Fused):
        return kernel.in_order, kernel.only_writes
    return kernel.split if isinstance(kernel, Loop) else (), ()


def written_elements(kernel: Kernel, args: Sequence[Any], position: int) -> tuple[Sequence[int], Sequence[int]] | None:
    """Shape and strides in bytes of the elements that a launch on the CPU writes, from an argument's first one on.

    None for kernels of which that isn't known, or that leave elements as they were.
    """
    array = args[position]
    if not isinstance(kernel, StridedKernel):
        return (array.shape, array.strides) if position in _known(kernel, len(args))[1] else None
    shape, strides, begin, end = args[-4:]
    if begin != 0 or end != shape[0]:
        return None
    return shape.tolist(), [s * array.itemsize for s in strides[position].tolist()]


def _strided_extents(args: Sequence[Any]) -> dict[int, tuple[int, int]]:
    """By position, what a strided kernel visits: it is given first elements, then sizes and strides in elements."""
    shape, strides = args[-4].tolist(), args[-3].astype(np.int64).tolist()
    return {
        k: extent_of_strides(address_of(args[k]), shape, [s * args[k].itemsize for s in steps], args[k].itemsize)
        for k, steps in enumerate(strides)
    }


def dependences(every: Sequence[Sequence[Access]]) -> list[dict[int, bool]]:
    """For each launch, given what each touches, the earlier ones that it has to follow.

    The value is True where both visit the same memory in order, so that one loop, of elements or of rows, may do both.
    """
    found: list[dict[int, bool]] = [{} for _ in every]
    for together in _connected(every):
        for at, (number, one) in enumerate(together):
            for before, other in together[:at]:
                if before != number and (one.writes or other.writes) and one.low < other.high and other.low < one.high:
                    same = one.span is not None and one.span == other.span
                    found[number][before] = found[number].get(before, True) and same
    return found


def _connected(every: Iterable[Sequence[Access]]) -> list[list[tuple[int, Access]]]:
    """Accesses, with the numbers of their launches, in groups between which nothing overlaps; in order in each."""
    ordered = sorted(((n, a) for n, found in enumerate(every) for a in found), key=lambda pair: pair[1].low)
    groups: list[list[tuple[int, Access]]] = []
    end = 0
    for number, access in ordered:
        if not groups or access.low >= end:
            groups.append([])
            end = access.high
        end = max(end, access.high)
        groups[-1].append((number, access))
    return [sorted(g, key=lambda pair: pair[0]) for g in groups]
