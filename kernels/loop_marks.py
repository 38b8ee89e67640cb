"""What LLVM is told of loops whose first lines end with a mark.

`ANY_ORDER`: no iteration reads or writes what another one writes. Arrays of a user's loop are many, and LLVM doesn't
know that none overlaps another. It compares the ends of all pairs ahead of each run of a loop; where that costs more
than a tenth of the loop, the loop isn't made a vector. With the mark it is, and nothing is compared.

`ONE_VECTOR`: the loop is vectorised without interleaving. By default LLVM handles up to four vectors in an iteration,
and a row that is shorter than these is left to the scalar loop behind: without, rows of 8 to 24 float32 are copied in
0.6 to 0.8 of the time, rows of 100 in 1.05.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from llvmlite.ir.values import MDValue
from numba.core import ir as numba_ir

from jitgrad.kernels.brief_lowering import BriefLower
from jitgrad.kernels.codegen.source import ANY_ORDER, ONE_VECTOR
from jitgrad.kernels.gathers import avoid_gathers
from jitgrad.kernels.vector_width import widen

__all__ = ["MarkingLower"]


class _Distinct(MDValue):
    """A node of LLVM's that is equal to no other."""

    def descr(self, buf: list[str]) -> None:
        found: list[str] = []
        super().descr(found)
        buf += ["distinct ", *found]

    __hash__ = object.__hash__
    __eq__ = object.__eq__
    __ne__ = object.__ne__


class MarkingLower(BriefLower):
    """Numba's step to LLVM's code, which marks loops by the lines of their text."""

    def post_lower(self) -> None:
        super().post_lower()
        widen(self.function, self.func_ir.func_id.func.__code__.co_filename)
        avoid_gathers(self.function, getattr(self.context.codegen(), "_tm_features", ""))
        for header, mark in self._marked_headers():
            _MARKS[mark](self.function, header)

    def _marked_headers(self) -> Iterator[tuple[Any, str]]:
        file = self.func_ir.func_id.func.__code__.co_filename
        for label, block in self.blocks.items():
            for s in block.body:
                value = getattr(s, "value", None)
                if isinstance(value, numba_ir.Expr) and value.op == "iternext":
                    line = linecache.getline(file, s.loc.line).rstrip()
                    for mark in (m for m in _MARKS if line.endswith(m)):
                        yield self.blkmap[label], mark


def _mark_parallel(function: Any, header: Any) -> None:
    """Tell LLVM that no iteration of the loop depends on memory that another one writes."""
    module = function.module
    group = _Distinct(module, (), str(len(module.metadata)))
    inside = _add_metadata(function, header, ["llvm.loop.parallel_accesses", group])
    for block in inside:
        for instruction in block.instructions:
            if isinstance(instruction, (ir.LoadInstr, ir.StoreInstr)):
                instruction.set_metadata("llvm.access.group", group)


def _mark_without_interleaving(function: Any, header: Any) -> None:
    """Tell LLVM to handle one vector in an iteration."""
    _add_metadata(function, header, ["llvm.loop.interleave.count", ir.Constant(ir.IntType(32), 1)])


_MARKS = {ANY_ORDER: _mark_parallel, ONE_VECTOR: _mark_without_interleaving}


def _add_metadata(function: Any, header: Any, operands: list[Any]) -> set[Any]:
    """Attach a metadata node to the loop whose header block is given; returns the loop's blocks."""
    before: dict[Any, list[Any]] = {block: [] for block in function.blocks}
    for block in function.blocks:
        for after in _successors(block):
            before[after].append(block)
    outside = _reached(function.entry_basic_block, header)
    ends = [block for block in before[header] if block not in outside]
    inside, waiting = {header}, list(ends)
    while waiting:
        block = waiting.pop()
        if block not in inside:
            inside.add(block)
            waiting += before[block]
    module = function.module
    node = module.add_metadata(operands)
    loop = _Distinct(module, (), str(len(module.metadata)))
    loop.operands = (loop, node)
    for block in ends:
        block.terminator.set_metadata("llvm.loop", loop)
    return inside


def _successors(block: Any) -> list[Any]:
    end = block.terminator
    return [b for b in getattr(end, "operands", ()) if isinstance(b, ir.Block)]


def _reached(entry: Any, barrier: Any) -> set[Any]:
    """The blocks that can be reached without going through one."""
    found, waiting = {barrier}, [entry]
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += _successors(block)
    return found
