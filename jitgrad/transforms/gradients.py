"""Gradients of wrapped tensors, and what reverse mode needs of them: new variables, aliases, the plain tensors inside.

The graph is recorded on plain tensors. ``gradients`` therefore takes wrappers off, outermost first: the wrapper's
class says what a gradient means at its level in terms of gradients of what it wraps, down to a run of the engine.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jitgrad.core.grad_mode import state
from jitgrad.core.node import edge_of
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import Wrapped, outermost_wrapped
from jitgrad.engine import engine
from jitgrad.ops.shape.view import Alias

__all__ = ["alias", "gradients", "new_variable", "plain_tensors", "requires_grad", "without_history"]


def gradients(
    outs: Sequence[Any], ins: Sequence[Any], grads: Sequence[Any], create_graph: bool = False, keep_graph: bool = True
) -> list[Tensor | None]:
    """The gradients of ``outs``, weighted by ``grads``, with respect to ``ins``; None where none arrives.

    ``ins`` may be leaves or not. Where only ``grads`` are wrapped, nodes run their rules, which are ops and take
    wrapped tensors, in place of their kernels. Where ``outs`` or ``ins`` are wrapped, the graph is kept whatever
    ``keep_graph`` says, since a level may need several runs.
    """
    wrapped = outermost_wrapped((*outs, *ins))
    if wrapped is not None:
        run = functools.partial(gradients, create_graph=create_graph)
        found: list[Tensor | None] = wrapped.gradients(wrapped._level, list(outs), list(ins), list(grads), run)
        return found
    roots = [(edge_of(o), g) for o, g in zip(outs, grads, strict=True)]
    edges, seeds = [e for e, _ in roots if e is not None], [g for e, g in roots if e is not None]
    targets = [edge_of(i) for i in ins]
    wanted = [t for t in targets if t is not None]
    if not edges or not wanted:
        return [None] * len(ins)
    rules = bool(state.levels) and outermost_wrapped(seeds) is not None
    each = iter(engine.run(edges, seeds, keep_graph, create_graph, wanted, accumulate=False, rules=rules))
    return [None if t is None else next(each) for t in targets]


def new_variable(x: Any) -> Any:
    """A tensor of the same values to differentiate by: a leaf, or an alias of ``x`` if the history of ``x`` goes on."""
    if isinstance(x, Wrapped) and x._level.open:
        return x.map_graph(new_variable)
    if x._requires_grad and state.enabled:
        return Alias.apply(x)
    result = x.detach()
    result._requires_grad = True
    return result


def alias(x: Any) -> Any:
    """Another tensor with the memory and history of ``x``: an inplace op on it gives ``x`` no new history."""
    if isinstance(x, Wrapped) and x._level.open:
        return x.map_graph(alias)
    result = x.detach()
    if x._requires_grad:
        result._requires_grad, result._edge = True, x._edge
        result._leaf_edge = edge_of(x) if x._edge is None else None
    return result


def without_history(x: Any) -> Any:
    """``x`` outside the graph, wrapped as before, tangents kept."""
    if isinstance(x, Wrapped) and x._level.open:
        return x.map(without_history)
    return x.detach()


def plain_tensors(x: Any) -> list[Tensor]:
    """The plain tensors inside a wrapped one: one, or for each dual wrapper primal and tangent; ``[x]`` if plain."""
    if not (isinstance(x, Wrapped) and x._level.open):
        return [x]
    found: list[Tensor] = []
    x.map(lambda v: found.extend(plain_tensors(v)))
    return found


def requires_grad(x: Any) -> bool:
    """Whether any plain tensor inside ``x`` requires grad, tangents included."""
    return any(t._requires_grad for t in plain_tensors(x))
