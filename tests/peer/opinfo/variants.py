"""The ways to call an op of PyTorch's list that both libraries have: function, method, operator, in place."""

from functools import partial
from typing import Any, NamedTuple

import torch

from .libraries import OURS, THEIRS, is_harness


class Variant(NamedTuple):
    """One way to call an op: the two libraries' callables, and whether the first operand is written to."""

    name: str
    ours: Any
    theirs: Any
    inplace: bool = False


def has(op: Any) -> bool:
    """Whether jitgrad has an entry of the list of ops: as a function, as a method, or as one in place."""
    return any(OURS.named(name) is not None for name in (*names_of(op), f"Tensor.{op.name}_"))


def names_of(op: Any) -> tuple[str, ...]:
    """The names under which jitgrad may have an entry; that of some in PyTorch is no more than one of ``ops.aten``."""
    inner = (f"ops.aten.{op.name}",) if isinstance(op.op, torch._ops.OpOverload) else ()
    return op.name, f"Tensor.{op.name}", *inner


def ours_for(theirs: Any, *names: str) -> Any:
    """jitgrad's callable for PyTorch's: the same steps for a function of the harness, else the first name it has."""
    if isinstance(theirs, partial):
        found = ours_for(theirs.func, *names)
        return found and partial(found, *theirs.args, **theirs.keywords)
    if is_harness(theirs):
        return OURS.rebound(theirs)
    return next((f for f in map(OURS.named, names) if callable(f)), None)


def variants(op: Any) -> list[Variant]:
    """All ways to call ``op`` that both have."""
    in_place = op.get_inplace()
    ways = [
        Variant("function", ours_for(op.op, *names_of(op)), op.op),
        Variant("method", ours_for(op.get_method(), f"Tensor.{op.name}"), op.get_method()),
        Variant("in place", ours_for(in_place, f"Tensor.{op.name}_", f"Tensor.{op.name}"), in_place, True),
        Variant("operator", op.get_operator(), op.get_operator()),
        Variant("operator in place", op.get_inplace_operator(), op.get_inplace_operator(), True),
    ]
    return [
        way._replace(theirs=THEIRS.rebound(way.theirs) if is_harness(way.theirs) else way.theirs)
        for way in ways
        if way.ours is not None and way.theirs is not None
    ]
