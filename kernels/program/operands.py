"""What an elementwise launch computes, on which arrays, for loops that do several such launches.

Broadcast operands are told apart as what they are to a matrix: one of its rows, one of its columns, or a number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.cuda.provider import CudaElementwise
from jitgrad.kernels.elementwise.declaration import ElementwiseKernel, StridedKernel
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.loops.matmul import add_row
from jitgrad.kernels.program.device_operands import ALL, COLUMN, ONCE, ROW, device_operands

__all__ = ["ALL", "COLUMN", "ONCE", "ROW", "Form", "form_of", "full_operands"]


def _sum(x, row):
    return x + row


_ADD_ROW = ((Rule("add_row", _sum), "out"),)
_ADDED = Argument("x", "array"), Argument("row", "array")
# Elements from which places on a device need 64 bits.
_WIDE = 1 << 32


class Form(NamedTuple):
    """A launch as a step of a loop.

    inputs: the arrays that the rules' arguments are read from, and the role of each; outputs: vectors, as are arrays
    of the role ALL. width: elements of a row, None where there are no rows. The others are those of an
    ElementwiseKernel.
    """

    rules: tuple[tuple[Rule, str], ...]
    arguments: tuple[Argument, ...]
    out_dtypes: tuple[str, ...]
    dtype: str
    conjugate: bool
    inputs: tuple[tuple[Any, str], ...]
    outputs: tuple[Any, ...]
    numbers: tuple[Any, ...]
    width: int | None


def form_of(kernel: Kernel, args: tuple[Any, ...]) -> Form | None:
    """The form of a launch; None where it has none, as that of kernels that are not elementwise."""
    if kernel is add_row:
        row, out = args
        if out.dtype != row.dtype or out.dtype.name not in ("float32", "float64") or not out.flags.c_contiguous:
            return None
        kind, whole = out.dtype.name, out.reshape(-1)
        return Form(_ADD_ROW, _ADDED, (kind,), kind, False, ((whole, ALL), (row, ROW)), (whole,), (), row.size)
    if isinstance(kernel, CudaElementwise):
        return _device_form(kernel, args)
    if not isinstance(kernel, ElementwiseKernel) or kernel.halves:
        return None
    once = [a.once for a in kernel.arguments if a.kind == "array"]
    count = len(once) + len(kernel.rules)
    given: list[tuple[np.ndarray[Any, Any], str]] = []
    if not isinstance(kernel, StridedKernel):
        given = [(a, ONCE if o else ALL) for a, o in zip(args, [*once, *(False for _ in kernel.rules)], strict=False)]
        numbers, width = args[count:], None
    else:
        for k, role in enumerate(_roles(args, count)):
            array = None if role is None else _whole(args[k], role, *args[-4].tolist())
            if array is None or role is None:
                return None
            given.append((array, role))
        numbers, width = args[count:-4], int(args[-4][1])
        if any(role != ALL for _, role in given[len(once) :]):
            return None
    return Form(
        kernel.rules, kernel.arguments, kernel.out_dtypes, kernel.dtype, kernel.conjugate, tuple(given[: len(once)]),
        tuple(a for a, _ in given[len(once) :]), tuple(numbers), width,
    )  # fmt: skip


def _device_form(kernel: CudaElementwise, args: tuple[Any, ...]) -> Form | None:
    """The form of a launch on a device, of the dtypes that its loops are emitted for."""
    found = [o for o in device_operands(kernel, args) if o is not None]
    inputs, outputs = found[: kernel.writes[0]], found[kernel.writes[0] :]
    widths = {o.width for o in found} - {None}
    kinds = {np.dtype(kernel.dtype), *(a.dtype for a in args[: kernel.arrays])}
    if (
        len(found) < kernel.arrays or len(widths) > 1 or any(o.role != ALL for o in outputs)
        or any(kind.kind not in "biuf" or (kind.itemsize == 2 and kind.kind == "f") for kind in kinds)
        or outputs[0].array.size >= _WIDE
    ):  # fmt: skip
        return None
    return Form(
        kernel.rules, kernel.arguments, kernel.out_dtypes, kernel.dtype, kernel.conjugate,
        tuple((o.array, o.role) for o in inputs), tuple(o.array for o in outputs),
        args[kernel.arrays : len(args) - kernel.tail], widths.pop() if widths else None,
    )  # fmt: skip


def full_operands(args: tuple[Any, ...], count: int) -> dict[int, int]:
    """Of a strided launch's first ``count`` arrays, by position, the elements of those that it visits in order."""
    size = int(np.prod(args[-4]))
    return {k: size for k, role in enumerate(_roles(args, count)) if role == ALL}


def _roles(args: tuple[Any, ...], count: int) -> list[str | None]:
    """The roles of a strided launch's arrays, None for other strides; all None unless it goes through a matrix."""
    shape, strides, begin, end = args[-4:]
    if len(shape) != 2 or begin != 0 or end != shape[0] or 1 in shape:
        return [None] * count
    known = {(int(shape[1]), 1): ALL, (0, 1): ROW, (1, 0): COLUMN, (0, 0): ONCE}
    return [known.get(tuple(steps)) for steps in strides.tolist()]


def _whole(first: np.ndarray[Any, Any], role: str, rows: int, width: int) -> np.ndarray[Any, Any] | None:
    """The vector that begins with an array's first element, on the memory that the array is a view of."""
    size = {ALL: rows * width, ROW: width, COLUMN: rows, ONCE: 1}[role]
    root = first
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not root.flags.c_contiguous:
        root = root.T
    offset = first.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    if not root.flags.c_contiguous or offset < 0 or offset + size * first.itemsize > root.nbytes:
        return None
    return np.ndarray((size,), first.dtype, root, offset)
