"""Which calls of a derived loop are compared with the sizes of arrays before they run.

The first of each combination of layouts and whole numbers is, and others only where data decide on indices: see
``kernels/codegen/data_indices.py``. Targets, tables of neighbours and places of receivers are often the same in all
calls, so the contents of such arrays of whole numbers are remembered, and a call with contents that were checked is not
checked again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

__all__ = ["CheckedCalls"]

# Comparing contents takes 0.1 us for each KB: for larger arrays the checks of the loop itself do.
_LARGEST = 1 << 16  # bytes
_MOST = 64  # contents, for each combination


class CheckedCalls:
    """The calls of one combination. check: None for those that are due, True for all, False for none.

    deciding: the parameters whose values decide on indices.
    """

    def __init__(self, check: bool | None, parameters: Sequence[str], deciding: Collection[str]):
        self.check = check
        self.places = [k for k, n in enumerate(parameters) if n in deciding]
        self.seen: set[tuple[Any, ...]] = set()

    def due(self, arguments: Sequence[Any]) -> bool:
        """Whether a call with these arguments is to be checked; they are arrays and numbers for compiled code."""
        return self._contents(arguments) not in self.seen if self.check is None else self.check

    def settled(self) -> bool:
        """Whether no further call will be due, whatever its arguments."""
        return not self.places and () in self.seen if self.check is None else not self.check

    def passed(self, arguments: Sequence[Any]) -> None:
        """Such a call's indices were within the arrays."""
        contents = self._contents(arguments)
        if contents is not None and self.check is None:
            if len(self.seen) >= _MOST:
                self.seen.clear()
            self.seen.add(contents)

    def _contents(self, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """What decides on indices; None for more than is remembered, and for floats, which rarely come twice."""
        found: list[Any] = []
        for k in self.places:
            value = arguments[k]
            if isinstance(value, np.ndarray):
                if value.dtype.kind not in "biu" or value.nbytes > _LARGEST:
                    return None
                found.append(value.tobytes())
            elif isinstance(value, int):
                found.append(value)
            else:
                return None
        return tuple(found)
