"""``TorchVersion``: a version's text that compares as a version, under PyTorch's name for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]

_PHASES = {"dev": -4, "a": -3, "b": -2, "rc": -1}  # before the release itself, which is 0


def _key(version: Any) -> tuple[Any, ...]:
    """What versions are compared by: (numbers of the release without zeros at its end, phase, number of the phase)."""
    if isinstance(version, Iterable) and not isinstance(version, str):
        version = ".".join(map(str, version))
    found = re.match(r"v?(\d+(?:\.\d+)*)[-_.]?(?:(a|b|rc|dev)[-_.]?(\d*))?", str(version).strip().lower())
    if found is None:
        raise ValueError(f"Invalid version: {str(version)!r}")
    numbers = [int(n) for n in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), _PHASES.get(found[2], 0), int(found[3] or 0)


class TorchVersion(str):
    """A version as text, which compares with texts, tuples of numbers and ``packaging``'s versions by its numbers.

    ``TorchVersion("2.13.0") > "2.9"`` and ``TorchVersion("2.13.0") >= (2, 0)`` hold. What follows a ``+`` does not
    count. Text that is no version is compared as text.
    """

    def _compare(self, other: Any, compare: str) -> Any:
        try:
            mine, theirs = _key(str(self)), _key(other)
        except ValueError:
            return getattr(str, compare)(self, other)
        return getattr(mine, compare)(theirs)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __eq__(self, other: Any) -> Any:
        return str.__eq__(self, other) is True or self._compare(other, "__eq__")

    def __ne__(self, other: Any) -> Any:
        return not self == other

    __hash__ = str.__hash__
