"""How a Watch reads attributes, and stores them in new objects.

Each depends on an object's own, on its class, or on a function that is called. What a class has is guarded as it stands
there, whoever reads it: the object may be a new one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
import types
from typing import Any

from jitgrad.compiler.notes import Notes, is_scalar
from jitgrad.compiler.numbers import is_live
from jitgrad.compiler.trust import (
    ABSENT,
    CONTAINERS,
    OF_C,
    PLAIN,
    has_state,
    is_users,
    is_users_function,
    is_watched,
    module_of,
    special_method,
    static_attribute,
)
from jitgrad.core.node import Node
from jitgrad.core.tensor import Tensor

__all__ = ["AttributeReads"]


def _is_followed(getter: types.FunctionType) -> bool:
    """Whether a descriptor's method is followed by its text: a program's own, not jitgrad's or Python's."""
    return is_watched(getter) and not module_of(getter).startswith(("jitgrad.", "enum", "types", "functools"))


def _is_computed(static: Any) -> bool:
    """Whether a class attribute computes the value of the instance's: a property, or a descriptor written in Python."""
    return isinstance(static, property) or special_method(static, "__get__") is not None


class AttributeReads:
    """The part of a Watch that reads attributes and looks for special methods."""

    notes: Notes

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """``function(*args, **kwargs)``."""
        raise NotImplementedError

    def given(self, value: Any) -> Any:
        """An argument of a function that isn't watched."""
        raise NotImplementedError

    def special(self, value: Any, name: str) -> Any:
        """A special method of a value's class that is written in Python, None for others; that it is so is guarded."""
        self.notes.of_class(type(value), name)
        return special_method(value, name)

    def attr(self, obj: Any, name: str) -> Any:
        """``obj.name``."""
        notes = self.notes
        if notes.reason is not None:
            return getattr(obj, name)
        if is_live(obj):
            return getattr(notes.settled(obj), name)
        if isinstance(obj, Tensor):
            return self._attr_of_tensor(obj, name)
        if isinstance(obj, Node) and name == "next_functions":
            notes.fail("it goes through the graph behind a tensor")
        if isinstance(obj, types.ModuleType):
            return self._attr_of_module(obj, name)
        if isinstance(obj, type):
            return self._attr_of_class(obj, name)
        if isinstance(obj, super):
            return self._attr_of_super(obj, name)
        static = static_attribute(type(obj), name)
        if isinstance(obj, (*PLAIN, *CONTAINERS)) and self._is_of_base(obj, name, static):
            return getattr(obj, name)
        if isinstance(static, property) and isinstance(static.fget, types.FunctionType) and is_watched(static.fget):
            notes.of_class(type(obj), name)
            return self.call(static.fget, obj)
        return self._attr_of_object(obj, name, static)

    def _attr_of_object(self, obj: Any, name: str, static: Any) -> Any:
        """An attribute of an object. static: what its class has under the name."""
        notes, kind, own = self.notes, type(obj), getattr(obj, "__dict__", {})
        if static is ABSENT and name not in own:
            notes.lacks(obj, name)
            notes.of_class(kind, name)
            if (fallback := self.special(obj, "__getattr__")) is not None:
                return self.call(fallback, obj, name)
        if name not in own or hasattr(type(static), "__set__"):
            if (computed := self._computed(obj, name, static)) is not ABSENT:
                return computed
        if _is_computed(static) and has_state(obj) and notes.is_known(obj):
            return getattr(self.given(obj), name)
        try:
            value = getattr(obj, name)
        except AttributeError:
            if static is not ABSENT:  # a slot without a value
                notes.absent(obj, name)
            raise
        found_in_class = static is not ABSENT and name not in own
        if found_in_class:
            notes.of_class(kind, name)
        if not notes.is_known(obj):
            return value
        method = isinstance(value, types.MethodType)
        if found_in_class and (method or (value is static and is_users(kind))):
            notes.lacks(obj, name)
            if method:
                notes.know(value.__self__)
        else:
            notes.attribute(obj, name, value)
        return value

    def _computed(self, obj: Any, name: str, static: Any) -> Any:
        """What a descriptor that is written in Python returns, or functools' that keeps it; ABSENT for others."""
        notes, kind = self.notes, type(obj)
        if isinstance(static, functools.cached_property):
            if notes.is_known(obj):
                notes.fail(f"it computes {name} of a {kind.__name__}, which that keeps")
            notes.of_class(kind, name)
            return obj.__dict__.setdefault(name, self.call(static.func, obj))
        if (getter := special_method(static, "__get__")) is None or not _is_followed(getter):
            return ABSENT
        notes.of_class(kind, name)
        notes.of_class(type(static), "__get__")
        return self.call(getter, static, obj, kind)

    def _attr_of_tensor(self, tensor: Tensor, name: str) -> Any:
        kind = type(tensor)
        if kind is not Tensor and name not in tensor.__dict__:  # what a program's class of tensors adds
            self.notes.of_class(kind, name)
            static = static_attribute(kind, name)
            if isinstance(static, property) and isinstance(static.fget, types.FunctionType) and is_watched(static.fget):
                return self.call(static.fget, tensor)
        return self.notes.tensor_attribute(tensor, name)

    def _attr_of_module(self, module: types.ModuleType, name: str) -> Any:
        try:
            value = getattr(module, name)
        except AttributeError:
            self.notes.lacks(module, name)
            raise
        self.notes.attribute(module, name, value)
        return value

    def _attr_of_super(self, obj: Any, name: str) -> Any:
        """``super().name``."""
        kinds = obj.__self_class__.__mro__
        found = [c for c in kinds[kinds.index(obj.__thisclass__) + 1 :] if name in c.__dict__][:1]
        for cls in [c for c in found if is_users(c)]:
            static = cls.__dict__[name]
            self.notes.of_class(cls, name)
            if isinstance(static, property) and isinstance(static.fget, types.FunctionType):
                return self.call(static.fget, obj.__self__)
        return getattr(obj, name)

    def _is_of_base(self, obj: Any, name: str, static: Any) -> bool:
        """Whether an attribute of a constant or container is Python's own, not one that a program's subclass adds."""
        if name in getattr(obj, "__dict__", ()):
            return False
        field = isinstance(obj, tuple) and name in getattr(obj, "_fields", ())
        return field or isinstance(static, OF_C) or not is_users(type(obj))

    def _attr_of_class(self, cls: type, name: str) -> Any:
        computed = static_attribute(type(cls), name)
        if isinstance(computed, property) and isinstance(computed.fget, types.FunctionType):
            self.notes.of_class(type(cls), name)
            return self.call(computed.fget, cls)
        static = static_attribute(cls, name)
        if computed is ABSENT:
            self.notes.of_class(cls, name)
            if static is ABSENT and (fallback := self.special(cls, "__getattr__")) is not None:
                return self.call(fallback, cls, name)
        value = getattr(cls, name)
        # Methods that are bound are other objects each time.
        if value is not static and is_users(cls) and (is_scalar(value) or getattr(cls, name) is value):
            self.notes.attribute(cls, name, value)
        return value

    def module(self, name: str, outermost: bool = False) -> Any:
        """What ``import name`` finds; outermost: of ``a.b`` it is ``a`` that a variable gets."""
        try:
            found = importlib.import_module(name)
        except ImportError:
            self.notes.has(sys.modules, name)
            raise
        first = name.partition(".")[0]
        if first == "jitgrad":  # of which none is exchanged
            return sys.modules[first] if outermost else found
        name = first if outermost else name
        self.notes.item(sys.modules, name, sys.modules[name])
        return sys.modules[name]

    def imported(self, module: str, name: str, package: str | None) -> Any:
        """What ``from module import name`` finds: something in the module, or a module in that."""
        full = importlib.util.resolve_name(module, package) if package is not None else module
        found = self.module(full)
        try:
            return self.attr(found, name)
        except AttributeError:
            with contextlib.suppress(ModuleNotFoundError):
                return self.module(f"{full}.{name}")
        raise ImportError(f"cannot import name {name!r} from {full!r}", name=full)

    def store_in_new(self, obj: Any, name: str, value: Any) -> None:
        """``obj.name = value`` for an object that the function has made, whose class may do it by a function."""
        kind, setter, static = type(obj), self.special(obj, "__setattr__"), static_attribute(type(obj), name)
        self.notes.of_class(kind, name)
        if setter is not None and is_users_function(setter):
            self.call(setter, obj, name, value)
        elif isinstance(static, property) and isinstance(static.fset, types.FunctionType):
            self.call(static.fset, obj, value)
        elif setter is None and (assign := special_method(static, "__set__")) is not None:
            self.call(assign, static, obj, value)
        else:
            setattr(obj, name, value)
