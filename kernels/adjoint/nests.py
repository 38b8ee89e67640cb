"""Two loops of which one is all that the other runs, and whose reverse may go through both in any order.

Its reverse goes upwards then: what the forward sweep kept is read in the order in which it lies in memory, which
processors fetch ahead of time, and what is added to neighbouring elements is added row by row.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitgrad.kernels.adjoint.plan import Plan, Segment
from jitgrad.kernels.adjoint.pullback import Add, Let, Step
from jitgrad.kernels.adjoint.ssa import Loop, Value, Write, index_of, loaded, names

__all__ = ["in_any_order", "outer_of", "steady"]

Index = tuple[ast.expr, ...]


def outer_of(plan: Plan, inner: Loop, steps: Sequence[Step], again: Sequence[Value]) -> Loop | None:
    """The loop around ``inner`` that may run upwards with it in the reverse sweep.

    steps: the reverse of what the inner loop runs; again: the values that it computes again.
    """
    outer = inner.block.owner
    if not isinstance(outer, Loop) or not _runs_only(plan, outer, inner):
        return None
    writes = [n for n in plan.values.nodes(inner.body) if isinstance(n, Write)]
    both = [inner, outer]
    undone = [w for w in writes if w in plan.undone]
    if any(not _one_iteration(plan, w.index, w.index, both) for w in undone):
        return None
    for element in filter(None, map(loaded, again)):
        same = [w for w in undone if plan.values.family(w.array) == plan.values.family(element.value.id)]  # type: ignore[attr-defined]
        if any(not _apart_or_one(plan, index_of(element), w.index, both) for w in same):
            return None
    # Derivatives of what the loop writes are read, and set to zero, by one iteration each; none is added by another.
    active = [w for w in writes if plan.values.family(w.array) in plan.active]
    if len({w.array for w in active}) != len(active):
        return None
    for write in active:
        added = [s for s in steps if isinstance(s, Add) and s.index is not None and s.target == write.array]
        if not _one_iteration(plan, write.index, write.index, both):
            return None
        if any(not _one_iteration(plan, s.index or (), write.index, both) for s in added):
            return None
    return outer


def _runs_only(plan: Plan, outer: Loop, inner: Loop) -> bool:
    """Whether a loop keeps nothing, hands nothing on, and runs another as often in each iteration."""
    if outer.index is None or outer.counted or ast.unparse(outer.bounds[2]) != "1":
        return False
    if ast.unparse(inner.bounds[2]) != "1" or inner.counted:
        return False
    for item in plan.parts[outer.body]:
        if isinstance(item, Segment):
            if any(n in plan.steps or n in plan.undone for n in item):
                return False
        elif item is not inner:
            return False
    if any(block is outer.body for block in plan.kept.values()):
        return False
    if any({c.start.name, c.final.name} & plan.active for c in (*outer.carried, *inner.carried)):
        return False
    bounds = [plan.values.by_name[n] for e in inner.bounds for n in names(e)]
    return all(outer.body not in v.block.ancestors() for v in bounds)


def _one_iteration(plan: Plan, first: Index, second: Index, loops: Sequence[Loop]) -> bool:
    """Whether two elements are the same one in the same iteration of all loops, and in no other."""
    far = plan.overlap.distances(first, second, loops)
    return far is not None and all(x.index is not None and far.get(x.index.name) == 0 for x in loops)


def _apart_or_one(plan: Plan, first: Index, second: Index, loops: Sequence[Loop]) -> bool:
    return plan.overlap.distances(first, second, loops) is None or _one_iteration(plan, first, second, loops)


def steady(plan: Plan, index: Index) -> bool:
    """Whether an index surely counts from an array's beginning."""
    sums = [plan.overlap.sum_of(e) for e in index]
    return all(s is not None and plan.overlap.natural_sum(s) for s in sums)


def in_any_order(plan: Plan, steps: Sequence[Step], writes: Sequence[Write]) -> bool:
    """Whether no iteration of a loop's reverse needs what another one leaves in memory, even if they run at once."""
    if any(w in plan.redone for w in writes):
        return False
    indices = [s.index for s in steps if not isinstance(s, Let) and s.index is not None]
    return all(steady(plan, i) for i in [*indices, *(w.index for w in writes)])
