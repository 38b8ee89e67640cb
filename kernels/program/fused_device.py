"""The form that fused loops have on a device: each thread computes all values of some elements, one after another.

There are no tiles: what the others need stays in a thread's registers, and threads that are neighbours read
neighbours. A matrix is a vector as well, in which the place in a row and the number of the row are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgrad.kernels.codegen.emit_cpu import fill
from jitgrad.kernels.cuda.provider import CudaFused
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.program.fused_kernel import Fused
from jitgrad.kernels.program.fused_text import NAME, FusedLoop, statements

__all__ = ["FusedDeviceKernel", "device_text", "fused_device_kernel"]

# Lines that are one {name} become the lines of that piece; names that end in an underscore are the template's.
_LOOP = """\
def {name}({parameters}, width_, n_):
    {constants}
    for i_ in range(cuda.grid(1), n_, cuda.gridsize(1)):
        {loads}
        {body}
        {stores}
"""


class FusedDeviceKernel(Fused):
    """A fused kernel of a device. Its arguments are vectors, then numbers, then how many elements a row has."""

    __slots__ = ()

    def text(self) -> str:
        """The text that is compiled."""
        return self.call.text  # type: ignore[attr-defined]


_kernels: dict[FusedLoop, CudaFused] = {}


def fused_device_kernel(loop: FusedLoop, kernels: Sequence[Kernel]) -> FusedDeviceKernel:
    """The kernel of a loop, without sums, that does what these kernels do."""
    if loop not in _kernels:
        _kernels[loop] = CudaFused(NAME, *device_text(loop), loop.dtype)
    return FusedDeviceKernel(loop, _kernels[loop], [k.name for k in kernels])


def device_text(loop: FusedLoop) -> tuple[str, set[str]]:
    """(the text of the loop, the words that it calls)."""
    body, words = [], set[str]()
    for number, step in enumerate(loop.steps):
        lines, called = statements(step, number, loop.dtype)
        body += lines
        words |= called
    # Indices of 32 bits where they suffice: 64-bit division takes a GPU several times as long.
    at, row = "np.uint32(np.uint32(i_) % np.uint32(width_))", "np.uint32(np.uint32(i_) // np.uint32(width_))"
    pieces = {
        "constants": [f"{v} = {a}[0]" for a, v in loop.once] + [f"{v} = T({n})" for n, v in loop.scalars] or ["pass"],
        "loads": [f"{v} = {a}[i_]" for a, v in loop.arrays]
        + [f"{v} = {a}[{at}]" for a, v in loop.rows] + [f"{v} = {a}[{row}]" for a, v in loop.columns],
        "body": body,
        "stores": [f"{a}[i_] = {v}" for a, v, _ in loop.stored],
    }  # fmt: skip
    return fill(_LOOP, pieces, name=NAME, parameters=", ".join(loop.parameters)), words
