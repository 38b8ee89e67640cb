"""What is wrong with an elementwise declaration, found when its class is made.

The checks read names only (class attributes and parameters), so that they cost an import nothing worth counting: the
rules' syntax trees are checked by `Rule`, when they are first used.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from types import FunctionType
from typing import Any, NoReturn

from jitgrad.kernels.codegen.rules import RuleError

__all__ = ["check_attributes", "check_gradients", "check_names", "check_parameters"]

_KINDS = ("float", "same", "bool", "real")
_CATEGORIES = ("bool", "int", "float", "complex")
_DIFFERENTIABLE = frozenset({"float", "complex"})


def _refuse(what: str, remedy: str) -> NoReturn:
    """RuleError with the line of the class statement: the innermost frame outside of this folder's machinery."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"] in (__name__, f"{__package__}.declaration"):
        frame = frame.f_back
    raise RuleError(f"{what} (declared at {frame.f_code.co_filename}:{frame.f_lineno}); {remedy}")


@functools.cache
def _unknown_categories(accepts: str) -> list[str]:
    return sorted(set(accepts.split()) - set(_CATEGORIES))


def check_attributes(cls: Any, known: Collection[str]) -> None:
    """RuleError for what ``cls`` lacks, and for attributes of its body that are not ``known``."""
    op, own = cls.__name__, cls.__dict__
    if not own.get("__doc__"):
        _refuse(f"{op}: an op needs a docstring", f"it becomes jitgrad.{cls.name}'s")
    if not isinstance(getattr(cls, "forward", None), FunctionType):
        _refuse(f"{op}: an op needs a rule for its result", "add `def forward(x): return ...`")
    for key, value in own.items():
        if key in known or key == "forward" or key[0] == "_":
            continue
        if not key.startswith("grad_"):
            _refuse(f"{op}.{key}: a declaration has no such attribute", _nearest(key, known))
        if value is not None and not isinstance(value, FunctionType):
            _refuse(f"{op}.{key}: a gradient rule must be a function", "write it with def, or None to drop it")
    if cls.kind not in _KINDS:
        _refuse(f"{op}.kind: {cls.kind!r} is no kind of result", f"use one of {', '.join(_KINDS)}")
    if unknown := _unknown_categories(cls.accepts):
        _refuse(f"{op}.accepts: {unknown} are no dtype categories", f"use some of {' '.join(_CATEGORIES)}")


def _nearest(key: str, known: Collection[str]) -> str:
    import difflib  # 2 ms, for an error only

    near = difflib.get_close_matches(key, [*known, "forward", "grad_x", "grad_y"], 1)
    every = f"attributes are {', '.join(known)}; rules are forward and grad_INPUT"
    return f"did you mean {near[0]}?" if near else every


def check_parameters(cls: Any) -> None:
    """RuleError for rules and attributes that name what ``forward`` does not take."""
    op, inputs = cls.__name__, cls.inputs
    taken = (*inputs, *cls.scalars)
    if reserved := {"g", "out"}.intersection(taken):
        _refuse(f"{op}.forward: the parameter names {sorted(reserved)} are taken by gradient and result", "rename them")
    for name, rule in cls.grads.items():
        if name not in inputs:
            _refuse(f"{op}.grad_{name}: forward has no input {name!r}; it has {inputs}", f"rename grad_{name}")
        if unknown := set(rule.parameters) - {"g", "out", *taken}:
            _refuse(f"{op}.grad_{name}: unknown parameters {unknown}", f"known are {sorted({'g', 'out', *taken})}")
    for attribute in ("conditions", "literals", "numbers"):
        if unknown := set(getattr(cls, attribute) or ()) - set(taken):
            _refuse(f"{op}.{attribute}: forward has no parameters {unknown}", f"it has {taken}")
    if isinstance(cls.domain[0], tuple) and len(cls.domain) != len(inputs):
        _refuse(f"{op}.domain: {len(cls.domain)} pairs for {len(inputs)} inputs", "give one pair, or as many")


def check_gradients(cls: Any) -> None:
    """RuleError for an input that is differentiable and has no gradient rule: it would be a constant in silence.

    Integers, and results that are bools, have no gradient anyway.
    """
    if cls.kind == "bool" or _DIFFERENTIABLE.isdisjoint(cls.accepts.split()):
        return
    for name in cls.inputs[:1] if cls.numbers_only else cls.inputs:
        if name not in cls.conditions and not hasattr(cls, f"grad_{name}"):  # None states that there is none
            remedy = f"write it, or `grad_{name} = None` if gradients are not to reach {name!r}"
            _refuse(f"{cls.__name__}: the input {name!r} has no gradient rule grad_{name}", remedy)


def check_names(cls: Any, owners: Mapping[str, Any], taken: Iterable[Callable[[Any, str], str]]) -> None:
    """RuleError where another op owns a name of ``cls``, or something else is published under it.

    The same class may come again: a notebook's cell is run twice.
    """
    for name in (cls.name, *cls.aliases):
        owner = owners.get(name)
        if owner is None:
            for what in filter(None, (find(cls, name) for find in taken)):
                _refuse(f"{cls.__name__}: the name {name!r} is taken by {what}", "choose another name")
        elif (owner.__module__, owner.__qualname__) != (cls.__module__, cls.__qualname__):
            code = owner.rule.function.__code__
            place = f"{code.co_filename}:{code.co_firstlineno}"
            _refuse(f"{cls.__name__}: the name {name!r} belongs to {owner.__name__} at {place}", "choose another name")
