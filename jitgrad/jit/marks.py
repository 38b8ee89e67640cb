"""What marks functions for TorchScript, and leaves them as they are."""

from __future__ import annotations

import builtins
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin

__all__ = [
    "Attribute", "Final", "annotate", "export", "ignore", "interface", "is_scripting", "is_tracing", "isinstance",
    "script", "script_if_tracing", "script_method", "strict_fusion", "unused",
]  # fmt: skip

T = TypeVar("T")


def is_scripting() -> bool:
    """Whether TorchScript runs this code: never."""
    return False


def is_tracing() -> bool:
    """Whether a tracer records this code: never."""
    return False


def script(
    obj: T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> T:  # fmt: skip
    """``obj`` itself, a function, class or module: Python runs it."""
    return obj


def script_if_tracing(fn: T) -> T:
    """``fn`` itself."""
    return fn


def script_method(fn: T) -> T:
    """``fn`` itself: a method of a ScriptModule is one of Python's."""
    return fn


def export(fn: T) -> T:
    """``fn`` itself, which TorchScript would compile too."""
    return fn


def unused(fn: T) -> T:
    """``fn`` itself, which TorchScript would leave out."""
    return fn


def interface(obj: T) -> T:
    """``obj`` itself, a class of methods that modules share."""
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """``@ignore`` and ``@ignore(drop=True)``: the function itself."""
    return drop if callable(drop) else lambda fn: fn


def annotate(the_type: Any, the_value: T) -> T:
    """``the_value``; its type is of no matter to Python."""
    return the_value


class Attribute(NamedTuple):
    """A value and its type. A ScriptModule that is assigned one has the value."""

    value: Any
    type: Any


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a type that may say what a container holds: ``list[int]``, ``dict[str, Tensor]``."""
    kinds = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return any(_fits(obj, kind) for kind in kinds)


def _fits(obj: Any, kind: Any) -> bool:
    origin: Any = get_origin(kind)
    items = get_args(kind)
    if origin is None:
        return builtins.isinstance(obj, kind) if builtins.isinstance(kind, type) else kind is Any
    if not builtins.isinstance(origin, type) or origin.__name__ == "UnionType":  # Union, Optional
        return any(_fits(obj, item if item is not None else type(None)) for item in items)
    if not builtins.isinstance(obj, origin):
        return False
    held: Any = obj
    if issubclass(origin, dict):
        return all(_fits(k, items[0]) and _fits(v, items[1]) for k, v in held.items())
    if issubclass(origin, tuple) and items[-1:] != (...,):
        return len(held) == len(items) and all(map(_fits, held, items))
    return all(_fits(x, items[0]) for x in held)


class strict_fusion:
    """A block in which TorchScript would fuse everything or complain; it has no effect."""

    def __enter__(self) -> None:
        """Nothing is switched."""

    def __exit__(self, *error: Any) -> None:
        """Nothing was switched."""
