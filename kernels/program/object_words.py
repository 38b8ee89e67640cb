"""Whether objects of Python are as they were, by words of memory: dictionaries, lists, cells, classes, counts.

To compare an attribute takes Python 20 to 30 ns, and a training step depends on hundreds. CPython gives a dictionary
another version with every change (PEP 509, up to 3.13), a class too, and lays out lists and cells in a way that its
headers publish, so compiled code compares all of them in the time of one attribute. The addresses are those of objects
that the caller keeps alive, and the words are read while it holds the GIL. Each layout is tried before it is relied
upon: where Python has another one, ``words_of_dict`` and the others return None.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types
from array import array
from collections.abc import Sequence
from typing import Any

from jitgrad.kernels.program.executor import functions

__all__ = [
    "Row", "Rows", "words_of_cell", "words_of_class", "words_of_dict", "words_of_list", "words_of_own_dict",
    "words_of_references", "words_of_type",
]  # fmt: skip

Row = tuple[int, int, int]  # (address, offset, word), see `executor.first_changed`
_HEAD = object.__basicsize__
_CLASS_VERSION = 384  # where ``tp_version_tag`` is in a class: 0 from each change to the next lookup
_MANAGED_DICT = 1 << 4  # Py_TPFLAGS_MANAGED_DICT: ``__dict__`` is referred to three words in front of the object


def _word(address: int) -> int:
    return ctypes.c_ssize_t.from_address(address).value


@functools.cache
def _dicts_have_versions() -> bool:
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return False
    tried, found = {"a": 1.5}, []
    for change in (lambda: None, lambda: tried.update(a=2.5), lambda: tried.update(b=1), lambda: tried.pop("a")):
        change()
        found.append(_word(id(tried) + _HEAD + 8))

    class Tried:
        pass

    owner = Tried()
    owner.x = 1.5  # type: ignore[attr-defined]
    values = vars(owner)
    before = _word(id(values) + _HEAD + 8)
    owner.x = 2.5  # type: ignore[attr-defined]
    return len(set(found)) == 4 and _word(id(values) + _HEAD + 8) != before


@functools.cache
def _lists_are_known() -> bool:
    first, second = object(), object()
    tried = [first, second]
    items = _word(id(tried) + _HEAD + 8)
    cell = types.CellType(first)
    return (
        sys.implementation.name == "cpython" and _word(id(tried) + _HEAD) == 2
        and (_word(items), _word(items + 8)) == (id(first), id(second)) and _word(id(cell) + _HEAD) == id(first)
    )  # fmt: skip


@functools.cache
def _classes_have_versions() -> bool:
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return False

    class Base:
        pass

    class Tried(Base):
        pass

    found = []
    for change in (lambda: None, lambda: setattr(Base, "x", 1), lambda: setattr(Base, "x", 2), lambda: None):
        change()
        found.append(_class_version(Tried))
    return 0 not in found and len(set(found)) == 3 and found[2] == found[3]


def _class_version(kind: type) -> int:
    hasattr(kind, "__init__")  # a lookup in the class, which gives it its version
    return ctypes.c_uint32.from_address(id(kind) + _CLASS_VERSION).value


def words_of_dict(obj: dict[Any, Any]) -> list[Row] | None:
    """What stays as it is while nothing is assigned in a dictionary or deleted from it."""
    if not isinstance(obj, dict) or not _dicts_have_versions():
        return None
    place = id(obj) + _HEAD + 8
    return [(place, -1, _word(place))]


def words_of_own_dict(owner: Any) -> list[Row] | None:
    """What stays as it is while an object has the same ``__dict__``, and nothing is assigned in that or deleted."""
    own, kind = vars(owner), type(owner)
    inside, distance = words_of_dict(own), -3 * 8 if kind.__flags__ & _MANAGED_DICT else kind.__dictoffset__
    place = id(owner) + distance
    if inside is None or -3 * 8 != distance <= 0 or _word(place) != id(own):
        return None
    return [*inside, (place, -1, id(own))]


def words_of_type(obj: Any) -> list[Row] | None:
    """What stays as it is while an object is of the same class, which the caller keeps alive as well."""
    place = id(obj) + _HEAD - 8
    return [(place, -1, _word(place))] if _word(place) == id(type(obj)) else None


def words_of_list(obj: list[Any], items: Sequence[Any]) -> list[Row] | None:
    """What stays as it is while a list has these items, which the caller keeps alive: they are told by address."""
    if type(obj) is not list or not _lists_are_known():
        return None
    place = id(obj) + _HEAD + 8
    return [(id(obj) + _HEAD, -1, len(items)), *((place, 8 * k, id(item)) for k, item in enumerate(items))]


def words_of_cell(obj: Any, value: Any) -> list[Row] | None:
    """What stays as it is while a variable of a function has this value, which the caller keeps alive."""
    return [(id(obj) + _HEAD, -1, id(value))] if _lists_are_known() else None


def words_of_class(kind: type) -> list[Row] | None:
    """What stays as it is while nothing is assigned in a class or a base of it; None for one that changed too often."""
    if not _classes_have_versions() or not _class_version(kind):
        return None
    place = id(kind) + _CLASS_VERSION
    return [(place, -1, _word(place))]


def words_of_references(obj: Any, count: int) -> list[Row] | None:
    """What holds while there are so many references to an object; None where they are not counted in one word."""
    tried = [object()]
    counted = sys.implementation.name == "cpython" and _word(id(tried[0])) == 1 and hasattr(sys, "getrefcount")
    return [(id(obj), -1, count)] if counted else None


class Rows:
    """Rows that are compared together, in groups; ``unlike(first)`` is the first group whose words have changed.

    ``address``, ``count``: where they are, how many, for `executor.begin`.
    """

    def __init__(self, groups: Sequence[Sequence[Row]]):
        self._words = array("q", [w for g in groups for row in g for w in row])
        self._group_of = [k for k, g in enumerate(groups) for _ in g]
        self._starts, count = [], 0
        for g in groups:
            self._starts.append(count)
            count += len(g)
        self._starts.append(count)
        self.address, self.count = self._words.buffer_info()[0], count
        self._compare = functools.partial(functions()[0], self.address)

    def unlike(self, first: int = 0) -> int:
        """The number of the first group, from ``first`` on, whose words are not as expected; -1 if there is none."""
        row = self._compare(self._starts[first], self.count)
        return -1 if row < 0 else self._group_of[row]

    def length(self, group: int) -> int:
        """How many rows a group has."""
        return self._starts[group + 1] - self._starts[group]

    def expect(self, group: int, rows: Sequence[Row]) -> None:
        """Let a group, of as many rows as before, expect other words."""
        start = 3 * self._starts[group]
        for k, row in enumerate(rows):
            self._words[start + 3 * k : start + 3 * k + 3] = array("q", row)
