"""Kernels whose loop does what several launches do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.elementwise.declaration import split_size
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.program.fused_text import NAME, FusedLoop, fused_text
from jitgrad.kernels.split_call import CUT, SplitCall

__all__ = ["Fused", "FusedKernel", "fused_kernel"]


class Fused(Kernel):
    """A kernel that does what several launches do; ``loop`` says what that is, ``of`` are their kernels' names."""

    __slots__ = ("loop", "of")

    def __init__(self, loop: FusedLoop, call: Any, of: Sequence[str]):
        stored, summed = [a for a, _, _ in loop.stored], [a for a, _, _ in loop.summed]
        writes = tuple(k for k, p in enumerate(loop.parameters) if p in stored or p in summed)
        super().__init__(f"fused({', '.join(of)})", call, writes)
        self.loop, self.of = loop, tuple(of)

    @property
    def only_writes(self) -> tuple[int, ...]:
        """Positions of arrays that are not read."""
        read = {a for a, _ in (*self.loop.arrays, *self.loop.once, *self.loop.rows, *self.loop.columns)}
        return tuple(k for k in self.writes if self.loop.parameters[k] not in read)

    @property
    def in_order(self) -> tuple[int, ...]:
        """Positions of arrays that are visited from the first element to the last."""
        return tuple(range(len(self.loop.walked)))


class FusedKernel(Fused):
    """A fused kernel of the CPU."""

    __slots__ = ()

    def text(self) -> str:
        """The text that is compiled."""
        return fused_text(self.loop)


_kernels: dict[FusedLoop, Any] = {}


def fused_kernel(loop: FusedLoop, kernels: Sequence[Kernel]) -> FusedKernel:
    """The kernel of a loop that does what these kernels do."""
    if loop not in _kernels:
        run = compile_text(NAME, fused_text(loop), allocates=False)
        cut = {*loop.walked, *(a for a, _ in loop.columns), *(s for s, _, _ in loop.summed)}
        roles = {k: CUT for k, p in enumerate(loop.parameters) if p in cut}
        grain = min(split_size(step.rules) for step in loop.steps) // 2
        # 16 elements of float32 are a cache line, into which two threads should not write.
        _kernels[loop] = SplitCall(run, roles, lambda args: args[0].size, grain, 1 if loop.by_rows else 16)
    return FusedKernel(loop, _kernels[loop], [k.name for k in kernels])
