"""What rewritten functions ask for but calls: loads, tests, operators and stores."""

from __future__ import annotations

import contextlib
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jitgrad.compiler.attributes import AttributeReads
from jitgrad.compiler.counts import place_of
from jitgrad.compiler.numbers import is_live, plain
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
    is_users,
    is_watched,
)
from jitgrad.core.tensor import Tensor

__all__ = ["Accesses", "items_of"]

_INPLACE = {
    "add": operator.iadd, "sub": operator.isub, "mul": operator.imul, "truediv": operator.itruediv,
    "floordiv": operator.ifloordiv, "mod": operator.imod, "pow": operator.ipow, "matmul": operator.imatmul,
    "lshift": operator.ilshift, "rshift": operator.irshift, "and_": operator.iand, "or_": operator.ior,
    "xor": operator.ixor,
}  # fmt: skip


_COMPARISONS = {name.strip("_") for name in COMPARING}


def items_of(value: Any, around: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The items of a container and of those in it, keys and values of a dictionary; nothing for other objects."""
    if isinstance(value, CONTAINERS) and not any(value is outer for outer in around):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            yield item
            yield from items_of(item, (*around, value))


class Accesses(AttributeReads):
    """The part of a Watch that reads and writes objects; ``call`` and ``given`` are the other's."""

    # -- loads ----------------------------------------------------------------------------------------

    def item(self, obj: Any, key: Any) -> Any:
        """``obj[key]``."""
        notes = self.notes
        if notes.reason is not None:
            return obj[key]
        if isinstance(obj, Tensor):
            notes.tensor_argument(obj)
            return obj[self._settled_key(key)]
        if isinstance(obj, CONTAINERS) and not self.special(obj, "__getitem__"):
            called = HASHING if isinstance(obj, dict) else ("__index__",)
            self.refuse_special((key, *items_of(key)), called, "an index")
            return self._item_of_container(obj, key)
        special = self.special(obj, "__getitem__")
        if special is not None and is_watched(special):
            return self.call(special, obj, key)
        if not (isinstance(obj, (str, bytes, range, np.generic, type)) or is_ours(type(obj))):
            notes.fail(f"it reads an item of a {type(obj).__name__}")
        return obj[key]

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
        except (KeyError, IndexError):  # which the function may catch
            self._note_missing(obj, key)
            raise
        if isinstance(key, slice):
            notes.contents(obj)
        else:
            notes.item(obj, key, value)
        return value

    def _note_missing(self, obj: Any, key: Any) -> None:
        """A container has no such item."""
        if isinstance(obj, dict):
            self.notes.has(obj, key)
        else:
            self.notes.contents(obj)

    def _settled_key(self, key: Any) -> Any:
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, Tensor):
                self.notes.tensor_argument(part)
            elif isinstance(part, np.ndarray):
                self.notes.fail("it indexes by a NumPy array")
            elif isinstance(part, list):
                self.given(part)
        return key

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        """``start:stop:step`` between brackets."""
        return slice(start, stop, step)

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
        return obj

    unpacked = iter

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

    def context(self, manager: Any) -> Any:
        """What ``with`` enters."""
        if isinstance(manager, contextlib.nullcontext):
            self.attr(manager, "enter_result")
        elif self.notes.reason is None and not is_ours(type(manager)):
            self.notes.fail(f"it enters a {type(manager).__name__} by with")
        return manager

    def shown(self, value: Any) -> Any:
        """What an f-string shows."""
        if self.notes.reason is None and not isinstance(value, (*PLAIN, Tensor)):
            self.notes.fail(f"it formats a {type(value).__name__}")
        return self.plain(value)

    def plain(self, value: Any) -> Any:
        """What is looked for in a container, or shown."""
        if is_live(value):
            return self.notes.settled(value)
        return self.given(value) if self.notes.reason is None else value

    def compared(self, value: Any) -> Any:
        """An operand of a comparison of three or more."""
        value = self._operand(value)
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
        left, right = self._operand(left), self._operand(right)
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
        return getattr(operator, what)(self._operand(value))

    def inplace(self, what: str, left: Any, right: Any) -> Any:
        """``left += right``: the new value of ``left``."""
        if isinstance(left, CONTAINERS) and self.notes.is_known(left):
            self.notes.fail(f"it changes a {type(left).__name__} from outside in place")
        return _INPLACE[what](self._operand(left), self._operand(right))

    def augment_attr(self, what: str, obj: Any, name: str, value: Any) -> None:
        """``obj.name += value``."""
        notes = self.notes
        known = notes.reason is None and notes.is_known(obj) and not isinstance(obj, Tensor)
        if known and place_of(obj, name) is not None:
            old = getattr(obj, name)
            if isinstance(old, (int, float)) and type(value) in (int, float):
                notes.count(obj, name, what, value)
                return
        place = self.at(obj)
        setattr(place, name, self.inplace(what, self.attr(obj, name), value))

    def augment_item(self, what: str, obj: Any, key: Any, value: Any) -> None:
        """``obj[key] += value``."""
        self.at(obj)[key] = self.inplace(what, self.item(obj, key), value)

    def _operand(self, value: Any) -> Any:
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
        elif has_special(value, OPERATING) or not (isinstance(value, PLAIN) or is_ours(type(value))):
            notes.fail(f"it computes with a {type(value).__name__}")
        return value

    # -- stores -----------------------------------------------------------------------------------------

    def at(self, obj: Any) -> Any:
        """``obj`` where an attribute or item of it is assigned or deleted."""
        if self.notes.reason is not None:
            return obj
        known = self.notes.is_known(obj) or isinstance(obj, Tensor)
        return _Target(self, obj) if known or is_users(type(obj)) else obj

    def store_attr(self, obj: Any, name: str, value: Any) -> None:
        """``obj.name = value`` for a known object or a tensor."""
        notes = self.notes
        if isinstance(obj, Tensor):
            notes.store_tensor_attribute(obj, name, value)
        elif not notes.is_known(obj):
            self.store_in_new(obj, name, value)
            return
        elif not notes.same_attribute(obj, name, value):
            notes.fail(f"it assigns {name} of a {type(obj).__name__} from outside")
        setattr(obj, name, plain(value))

    def store_item(self, obj: Any, key: Any, value: Any) -> None:
        """``obj[key] = value`` for a known object or a tensor."""
        notes = self.notes
        if isinstance(obj, Tensor):
            notes.tensor_argument(obj)
            self._settled_key(key)
            if isinstance(value, np.ndarray):
                notes.fail("it writes a NumPy array into a tensor")
            value = self._operand(value)
        elif special := self.special(obj, "__setitem__"):
            self.call(special, obj, key, value)
            return
        elif not notes.is_known(obj):
            obj[key] = value
            return
        elif isinstance(obj, (list, dict)):
            if not notes.same_item(obj, key, value):
                notes.fail(f"it assigns an item of a {type(obj).__name__} from outside")
        else:
            notes.fail(f"it assigns an item of a {type(obj).__name__} from outside")
        obj[key] = plain(value)

    def delete(self, obj: Any, what: str) -> None:
        """Something of a known object, or one of a program's class, is about to be deleted."""
        if self.notes.is_known(obj) or has_special(obj, ("__delattr__", "__delitem__")):
            self.notes.fail(f"it deletes {what} of a {type(obj).__name__} from outside")



class _Target:
    """Stands for a known object, or one of a program's class, where it is assigned to."""

    __slots__ = ("_target",)

    _target: tuple[Accesses, Any]

    def __init__(self, watch: Accesses, obj: Any):
        object.__setattr__(self, "_target", (watch, obj))

    def __setattr__(self, name: str, value: Any) -> None:
        watch, obj = self._target
        watch.store_attr(obj, name, value)

    def __setitem__(self, key: Any, value: Any) -> None:
        watch, obj = self._target
        watch.store_item(obj, key, value)

    def __delattr__(self, name: str) -> None:
        watch, obj = self._target
        if isinstance(obj, Tensor) and name == "grad":
            watch.store_attr(obj, name, None)
            return
        watch.delete(obj, name)
        delattr(obj, name)

    def __delitem__(self, key: Any) -> None:
        watch, obj = self._target
        watch.delete(obj, "an item")
        del obj[key]


