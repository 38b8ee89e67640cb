"""What rewritten functions ask for but calls and stores: loads, tests and operators."""

from __future__ import annotations

import contextlib
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jitgrad.compiler.attributes import AttributeReads
from jitgrad.compiler.numbers import is_live
from jitgrad.compiler.trust import (
    COMPARING,
    CONTAINERS,
    HASHING,
    ITERATORS,
    OPERATING,
    PLAIN,
    SHOWING,
    has_special,
    is_ours,
    is_watched,
    restores,
)
from jitgrad.core.tensor import Tensor

__all__ = ["Accesses", "items_of"]

_COMPARISONS = {name.strip("_") for name in COMPARING}


def items_of(value: Any, around: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The items of a container and of those in it, keys and values of a dictionary; nothing for other objects."""
    if isinstance(value, CONTAINERS) and not any(value is outer for outer in around):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            yield item
            yield from items_of(item, (*around, value))


class Accesses(AttributeReads):
    """The part of a Watch that reads objects; ``call`` and ``given`` are the other's."""

    # -- loads ----------------------------------------------------------------------------------------

    def item(self, obj: Any, key: Any) -> Any:
        """``obj[key]``."""
        notes = self.notes
        if notes.reason is not None:
            return obj[key]
        key = self.key(key)
        if isinstance(obj, Tensor):
            notes.tensor_argument(obj)
            return obj[key]
        if isinstance(obj, CONTAINERS) and not self.special(obj, "__getitem__"):
            called = HASHING if isinstance(obj, dict) else ("__index__",)
            self.refuse_special((key, *items_of(key)), called, "an index")
            return self._item_of_container(obj, key)
        special = self.special(obj, "__getitem__")
        if special is not None and is_watched(special):
            return self.call(special, obj, key)
        if not (isinstance(obj, (str, bytes, range, np.generic, type)) or is_ours(type(obj))):
            notes.fail(f"it reads an item of a {type(obj).__name__}")
        return self.given(obj)[key]

    def _item_of_container(self, obj: Any, key: Any) -> Any:
        notes = self.notes
        if not notes.is_known(obj):
            return obj[key]
        if isinstance(obj, defaultdict) and key not in obj:
            notes.fail("it adds an entry to a defaultdict from outside")
            return obj[key]
        if isinstance(obj, dict) and key not in obj and (missing := self.special(obj, "__missing__")):
            notes.has(obj, key)
            return self.call(missing, obj, key)
        try:
            value = obj[key]
        except LookupError:  # which the function may catch
            self._lacks_item(obj, key)
            raise
        if isinstance(key, slice):
            notes.contents(obj)
        else:
            notes.item(obj, key, value)
        return value

    def _lacks_item(self, obj: Any, key: Any) -> None:
        if isinstance(obj, dict):
            self.notes.has(obj, key)
        else:
            self.notes.contents(obj)

    def key(self, key: Any) -> Any:
        """An index, a dictionary's key or an end of a slice, with numbers of tensors as plain numbers.

        The recording depends on its value, since that decides which items are read or stored.
        """
        if self.notes.reason is not None:
            return key
        if type(key) is tuple:
            return tuple(map(self.key, key))
        if isinstance(key, Tensor):
            self.notes.tensor_argument(key)
        elif isinstance(key, np.ndarray):
            self.notes.fail("it indexes by a NumPy array")
        elif isinstance(key, CONTAINERS):
            self.given(key)
        self.refuse_special((key,), ("__index__",), "an index")
        return self.settled(key)

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        """``start:stop:step`` between brackets."""
        return slice(self.key(start), self.key(stop), self.key(step))

    def settled(self, value: Any) -> Any:
        """A number as it is now, which the recording then depends on; anything else as it is."""
        return self.notes.settled(value) if is_live(value) else value

    def iter(self, obj: Any) -> Any:
        """What ``for`` goes through."""
        notes = self.notes
        if notes.reason is not None:
            return obj
        if isinstance(obj, CONTAINERS) and not self.special(obj, "__iter__"):
            if notes.is_known(obj):
                notes.contents(obj)
            return obj
        if isinstance(obj, (Tensor, str, bytes, range, *ITERATORS)):
            return self.given(obj)
        if special := self.special(obj, "__iter__"):
            made = self.call(special, obj)
            following = self.special(made, "__next__")
            return self._each(following, made) if following else made
        if not is_ours(type(obj)):
            notes.fail(f"it goes through a {type(obj).__name__}")
        return self.given(obj)

    def unpacked(self, value: Any, shape: tuple[Any, ...]) -> Any:
        """What is assigned to several targets. shape: of each None, "*", or the same where it is several itself."""
        found = self.iter(value)
        nested = [k for k, inner in enumerate(shape) if isinstance(inner, tuple)]
        if not nested or self.notes.reason is not None:
            return found
        items, star = list(found), shape.index("*") if "*" in shape else len(shape)
        for k in nested:
            at = k if k < star else k + len(items) - len(shape)
            if 0 <= at < len(items):  # else Python raises what is to be raised
                items[at] = self.unpacked(items[at], shape[k])
        return items

    def each(self, obj: Any, shape: tuple[Any, ...]) -> Any:
        """What ``for`` goes through where it assigns to several targets each time."""
        return (self.unpacked(item, shape) for item in self.iter(obj))

    def _each(self, following: Any, iterator: Any) -> Iterator[Any]:
        """The items of an iterator whose class has a ``__next__`` of its own, which is called watched."""
        while True:
            try:
                found = self.call(following, iterator)
            except StopIteration:
                return
            yield found

    def mapping(self, obj: Any) -> Any:
        """What ``**`` unpacks."""
        return self.iter(obj)

    def contains(self, obj: Any, item: Any) -> Any:
        """``item in obj``."""
        notes = self.notes
        if isinstance(obj, ITERATORS):
            obj = self.plain(obj)
        elif notes.reason is None and not isinstance(obj, PLAIN):
            if isinstance(obj, dict) and notes.is_known(obj):
                self.refuse_special((item, *items_of(item)), HASHING, "a dictionary")
                notes.has(obj, item)
            elif isinstance(obj, CONTAINERS):
                self.given(obj)
                self.refuse_special((item, *items_of(obj)), COMPARING, "a comparison")
            elif special := self.special(obj, "__contains__"):
                return self.call(special, obj, item)
            elif not isinstance(obj, Tensor):
                notes.fail(f"it searches a {type(obj).__name__}")
        return self.plain(item) in obj

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """Around what is done in ``try``: where an error is caught, or something done in spite of it."""
        self.notes.trying += 1
        try:
            yield
        finally:
            self.notes.trying -= 1

    def context(self, manager: Any) -> Any:
        """What ``with`` enters."""
        if isinstance(manager, contextlib.nullcontext):
            self.attr(manager, "enter_result")
        elif self.notes.reason is None and not (is_ours(type(manager)) or restores(manager)):
            self.notes.fail(f"it enters a {type(manager).__name__} by with")
        return self.given(manager) if self.notes.reason is None else manager

    def shown(self, value: Any) -> Any:
        """What an f-string shows."""
        if self.notes.reason is None and not isinstance(value, (*PLAIN, Tensor)):
            self.notes.fail(f"it formats a {type(value).__name__}")
        return self.plain(value)

    def plain(self, value: Any) -> Any:
        """What is looked for in a container, or shown."""
        return self.given(value) if self.notes.reason is None else self.settled(value)

    def compared(self, value: Any) -> Any:
        """An operand of a comparison of three or more."""
        value = self.operand(value)
        self.refuse_special(items_of(value), COMPARING, "a comparison")
        return value

    def tested(self, value: Any) -> Any:
        """What ``if``, ``while``, ``and``, ``or`` and ``not`` test."""
        notes = self.notes
        if is_live(value):
            return notes.settled(value)
        if notes.reason is None:
            if isinstance(value, CONTAINERS):
                if notes.is_known(value):
                    notes.emptiness(value)
            elif not isinstance(value, (*PLAIN, Tensor)):
                if special := self.special(value, "__bool__") or self.special(value, "__len__"):
                    self.call(special, value)
        return value

    # -- operators --------------------------------------------------------------------------------------

    def binary(self, what: str, left: Any, right: Any) -> Any:
        """``left + right`` and other operators."""
        left, right = self.operand(left), self.operand(right)
        if what in _COMPARISONS:
            self.refuse_special((*items_of(left), *items_of(right)), COMPARING, "a comparison")
        if what == "mod" and isinstance(left, (str, bytes)):
            self.refuse_special((right, *items_of(right)), SHOWING, "a text")
        return getattr(operator, what)(left, right)

    def refuse_special(self, values: Iterable[Any], names: Iterable[str], where: str) -> None:
        """Note that a program's objects are given to what would call one of these methods of their classes."""
        if self.notes.reason is None:
            for value in [v for v in values if has_special(v, names)]:
                self.notes.fail(f"it gives a {type(value).__name__} to {where}, where it isn't followed")

    def unary(self, what: str, value: Any) -> Any:
        """``-value`` and others."""
        return getattr(operator, what)(self.operand(value))

    def operand(self, value: Any) -> Any:
        """What an operator computes with."""
        notes = self.notes
        if notes.reason is not None:
            return value
        if isinstance(value, Tensor):
            notes.tensor_argument(value)
        elif is_live(value):
            return notes.settled(value)
        elif isinstance(value, CONTAINERS):
            return self.given(value)
        elif isinstance(value, np.ndarray):
            notes.fail("it computes with a NumPy array")
        elif has_special(value, OPERATING):
            notes.fail(f"it computes with a {type(value).__name__}")
        elif not isinstance(value, PLAIN):
            if not is_ours(type(value)):
                notes.fail(f"it computes with a {type(value).__name__}")
            return self.given(value)
        return value
