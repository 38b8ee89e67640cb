"""What rewritten functions ask for where they assign: to attributes and items, and in place."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jitgrad.compiler.accesses import Accesses
from jitgrad.compiler.counts import place_of
from jitgrad.compiler.numbers import plain
from jitgrad.compiler.trust import CONTAINERS, has_special, is_users
from jitgrad.core.tensor import Tensor

__all__ = ["Stores"]

_INPLACE = {
    "add": operator.iadd, "sub": operator.isub, "mul": operator.imul, "truediv": operator.itruediv,
    "floordiv": operator.ifloordiv, "mod": operator.imod, "pow": operator.ipow, "matmul": operator.imatmul,
    "lshift": operator.ilshift, "rshift": operator.irshift, "and_": operator.iand, "or_": operator.ior,
    "xor": operator.ixor,
}  # fmt: skip


class Stores(Accesses):
    """The part of a Watch that assigns."""

    def inplace(self, what: str, left: Any, right: Any) -> Any:
        """``left += right``: the new value of ``left``."""
        if isinstance(left, CONTAINERS) and self.notes.is_known(left):
            self.notes.fail(f"it changes a {type(left).__name__} from outside in place")
        return _INPLACE[what](self.operand(left), self.operand(right))

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
            if isinstance(value, np.ndarray):
                notes.fail("it writes a NumPy array into a tensor")
            value = self.operand(value)
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

    _target: tuple[Stores, Any]

    def __init__(self, watch: Stores, obj: Any):
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
