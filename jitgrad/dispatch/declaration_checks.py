"""Checks of declarations of structured ops, whose errors name class, file, line and remedy.

A declaration is checked when its class is made, which for jitgrad's own is during import: several hundred times.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

__all__ = [
    "ARGUMENT", "LIST_INPUT", "OPTIONAL", "REQUIRED", "TENSOR_INPUT", "VALUE", "Rule", "check_declaration",
    "check_rules", "parameters_of", "refuse", "roles_of", "rules_of", "snake_case",
]  # fmt: skip

REQUIRED = inspect.Parameter.empty
# The roles of a planned op's parameters: a tensor, one that may be None, a list of tensors, an argument that the plan
# is made for, one that it is not.
TENSOR_INPUT, OPTIONAL, LIST_INPUT, ARGUMENT, VALUE = "tolav"
Rule = tuple[Callable[..., Any], tuple[str, ...]]  # a function and its parameters


def snake_case(name: str) -> str:
    """``LogSoftmax`` as ``log_softmax``, ``NLLLoss`` as ``nll_loss``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def parameters_of(function: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[Any, ...], int]:
    """A function's parameters, their defaults (REQUIRED where there is none), and how many may be given by position.

    Read from the function's code object: ``inspect.signature`` takes 20 times as long, for each of several hundred
    rules at import. A function that stands for another one has that one as ``__wrapped__``, as functools.wraps sets it.
    """
    while hasattr(function, "__wrapped__") and not hasattr(function, "__signature__"):
        function = function.__wrapped__
    if hasattr(function, "__signature__") or not isinstance(function, FunctionType):  # a bound method, a partial
        parameters = inspect.signature(function).parameters
        positional = sum(p.kind is not p.KEYWORD_ONLY for p in parameters.values())
        return tuple(parameters), tuple(p.default for p in parameters.values()), positional
    code, defaults, named = function.__code__, function.__defaults__ or (), function.__kwdefaults__ or {}
    positional = code.co_argcount
    names = code.co_varnames[: positional + code.co_kwonlyargcount]
    required = (REQUIRED,) * (positional - len(defaults))
    return names, (*required, *defaults, *(named.get(n, REQUIRED) for n in names[positional:])), positional


def roles_of(cls: Any) -> tuple[str, tuple[tuple[str, ...], tuple[Any, ...], int]]:
    """(roles, what ``parameters_of`` would return of forward) of a planned op, from its ``plan`` and ``values``."""
    names, defaults, positional = parameters_of(cls.plan)
    lists, roles = cls.plan.__annotations__, ""
    for name, default in zip(names, defaults, strict=True):
        if not name.endswith("_layout"):
            roles += ARGUMENT
        else:
            roles += LIST_INPUT if name in lists else OPTIONAL if default is None else TENSOR_INPUT
    names = (*[n.removesuffix("_layout") for n in names], *cls.values)
    count = len(cls.values)
    return roles + VALUE * count, (names, (*defaults, *(REQUIRED,) * count), positional + count)


def rules_of(cls: type, prefix: str) -> dict[str, Rule]:
    """A declaration's rules, those of its bases included, whose names are ``prefix`` and an input; by the input."""
    # From base to subclass, so that the order of the inputs is that in which they were declared first.
    bases, length = reversed(cls.__mro__[:-2]), len(prefix)  # but for Structured and object, which have no rules
    # Some 20,000 names at import, so no method is called for each.
    names = dict.fromkeys([n for base in bases for n in base.__dict__ if n[:length] == prefix and n != "grad_name"])
    found = {n.removeprefix(prefix): getattr(cls, n) for n in names}
    return {n: (rule, parameters_of(rule)[0]) for n, rule in found.items() if callable(rule)}


def refuse(cls: type, what: str, remedy: str) -> TypeError:
    """The error for a declaration: class, file and line, ``what`` is wrong, and the remedy."""
    functions = [getattr(f, "__func__", f) for f in vars(cls).values()]
    codes = [f.__code__ for f in functions if hasattr(f, "__code__")]  # a class knows no line, its functions do
    place = f"{codes[0].co_filename}:{codes[0].co_firstlineno}" if codes else cls.__module__
    return TypeError(f"{cls.__qualname__} ({place}): {what}; {remedy}")


def check_declaration(cls: Any) -> None:
    """TypeError if docstring, or both forward and plan, are missing."""
    if not cls.__dict__.get("__doc__"):
        raise refuse(cls, "an op needs a docstring", "write one: it documents the public function")
    if not callable(getattr(cls, "forward", None)) and cls.plan is None:
        remedy = "define forward(x, ...), which launches kernels and returns a tensor"
        raise refuse(cls, "an op needs a forward", remedy)


def check_rules(cls: Any) -> None:
    """TypeError if a gradient rule is for, or has as a parameter, something that is no parameter of forward."""
    taken = cls.parameters
    rules = {f"grad_{n}": (n, rule) for n, rule in cls.grads.items()}
    rules |= {f"kernel_{n}": (n, rule) for n, rule in cls.backward_kernels.items()}
    for title, (target, _) in rules.items():
        if target not in taken:
            remedy = f"name one of forward's parameters: {', '.join(taken)}"
            raise refuse(cls, f"{title} is a rule for {target!r}, which forward does not take", remedy)
    allowed = {*taken, *(f"{p}_layout" for p in (*taken, "out")), "g", "out", "wants", *cls.results}
    all_rules = {title: rule for title, (_, rule) in rules.items()}
    if cls.joint_kernel:
        all_rules["kernels"] = cls.joint_kernel
    for title, (_, parameters) in all_rules.items():
        for p in parameters:
            if p not in allowed:
                known = ", ".join(["g", "out", *cls.results, *taken])
                remedy = f"name some of: {known}, or NAME_layout of one of these"
                raise refuse(cls, f"{title} takes {p!r}, which is neither g, out nor an argument of forward", remedy)
