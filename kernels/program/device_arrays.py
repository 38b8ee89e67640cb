"""Arrays on a device that lie elsewhere in each run of a program: those of arguments, of results and of gradients.

Python launches kernels on a device, so what is bound are the array objects that it gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["DeviceArrays"]


class DeviceArrays:
    """Binds arrays of launches to the memory that they are to have in the next run.

    cells: for each slot the arrays of launches that lie in it, and how many bytes behind its first element. pairs:
    which parts of the slots must not share memory, as `Beginning.refuse_overlap` takes them.
    """

    def __init__(
        self, cells: Sequence[Sequence[tuple[Any, int]]], pairs: Sequence[tuple[int, int, int, int, int, int]]
    ):  # fmt: skip
        self._cells, self._pairs = cells, pairs

    def bind(self, given: Sequence[Any]) -> bool:
        """Let launches have the memory of these arrays, one for each slot. False, if some share memory unexpectedly."""
        if self._pairs and self._overlap([a.address for a in given]):
            return False
        for data, cells in zip(given, self._cells, strict=True):
            allocation, start = data.allocation, data.offset
            for array, offset in cells:
                array.allocation, array.offset = allocation, start + offset
        return True

    def release(self) -> None:
        """Let go of all memory: it is the tensors' alone."""
        for cells in self._cells:
            for array, _ in cells:
                array.allocation = array._flat = None

    def _overlap(self, starts: Sequence[int]) -> bool:
        for one, low, high, other, other_low, other_high in self._pairs:
            further = starts[other] if other >= 0 else 0
            if starts[one] + low < further + other_high and further + other_low < starts[one] + high:
                return True
        return False
