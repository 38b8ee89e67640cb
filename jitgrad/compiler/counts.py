"""Counters: attributes from outside that a function adds to, now and in every run, and may not read afterwards."""

from __future__ import annotations

import operator
import types
from collections.abc import Iterator
from typing import Any

from jitgrad.compiler.trust import is_users_function, static_attribute

__all__ = ["count", "place_of", "places"]


def place_of(obj: Any, name: str) -> Any:
    """What ``obj.name = value`` stores in: a dictionary, a class or an object with slots.

    None where assigning calls something, which may do anything.
    """
    setter, static = static_attribute(type(obj), "__setattr__"), static_attribute(type(obj), name)
    if isinstance(setter, types.FunctionType) and is_users_function(setter):
        return None
    if isinstance(static, types.MemberDescriptorType):
        return obj
    if hasattr(type(static), "__set__"):
        return None
    return obj if isinstance(obj, type) else getattr(obj, "__dict__", None)


def places(obj: Any) -> Iterator[Any]:
    """What an attribute or item of an object may stand in."""
    yield obj
    yield getattr(obj, "__dict__", None)
    yield from obj.__mro__ if isinstance(obj, type) else type(obj).__mro__


def count(obj: Any, name: str, what: str, value: Any) -> None:
    """``obj.name += value``, or another operator."""
    setattr(obj, name, getattr(operator, what)(getattr(obj, name), value))
