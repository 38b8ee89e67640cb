"""Whether to put memory back or to keep what was computed from it.

What a segment computes again from an array's elements needs these elements back: a number is kept for each time that
one is overwritten. Where the segment's derivatives need no more numbers than that, those are kept instead, and neither
is memory put back nor are they computed again: of a stencil the sum over the neighbours.
"""

from __future__ import annotations

from jitgrad.kernels.adjoint.plan import Plan, is_lazy
from jitgrad.kernels.adjoint.pullback import Step, read_by
from jitgrad.kernels.adjoint.ssa import Block, Node, Value, Values, loaded

__all__ = ["chosen_plan"]

_RUNS = 30.0  # iterations that a loop is taken to have
_MORE = 1.1  # so much more may be kept: it saves putting back and computing again


def chosen_plan(
    values: Values, active: set[str], steps: dict[Node, list[Step]], divisors: dict[Node, dict[Value, None]]
) -> Plan:
    """The plan that keeps less."""
    plan = Plan(values, active, steps, divisors)
    for family in sorted({values.family(w.array) for w in plan.undone if w.block.loops()}):
        instead = _computed_from(plan, family)
        if not instead or any(is_lazy(v.block) for v in instead):
            continue
        if sum(_runs(v.block) for v in instead) > _MORE * _put_back(plan):
            continue
        other = Plan(values, active, steps, divisors, {*plan.asked, *instead})
        if _put_back(other) < _put_back(plan) and _size(other) <= _MORE * _size(plan):
            plan = other
    return plan


def _runs(block: Block) -> float:
    return float(_RUNS ** len(block.loops()))


def _put_back(plan: Plan) -> float:
    return sum(_runs(w.block) for w in plan.undone)


def _size(plan: Plan) -> float:
    """How many numbers are kept."""
    return _put_back(plan) + sum(_runs(b) for v, b in plan.kept.items())


def _computed_from(plan: Plan, family: str) -> set[Value]:
    """The values that derivatives are made of, and that segments compute from an array's elements."""
    found = set()
    for node, steps in plan.steps.items():
        item = plan.place[node]
        for name in read_by(steps):
            value = plan.values.by_name.get(name)
            if value is not None and value in plan.within.get(item, ()):
                parts = [loaded(v) for v in plan.closure(value, item)]  # type: ignore[arg-type]
                if any(e is not None and plan.values.family(e.value.id) == family for e in parts):  # type: ignore[attr-defined]
                    found.add(value)
    return found
