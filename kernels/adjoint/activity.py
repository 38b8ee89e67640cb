"""Which values have derivatives that matter: they depend on a wanted input, and an output depends on them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from jitgrad.kernels.adjoint.derivatives import partials
from jitgrad.kernels.adjoint.ssa import Branch, Define, Loop, New, Values, Write, loaded, names

__all__ = ["active_names", "sources"]

# An edge of the graph of dependences: what is computed, and what from. Arrays go by the names of their families.
Edge = tuple[str, str]


def sources(e: ast.expr) -> Iterator[str]:
    """The values in which an expression has a derivative that is not zero everywhere."""
    if isinstance(e, ast.Name):
        yield e.id
    elif isinstance(e, ast.IfExp):
        yield from sources(e.body)
        yield from sources(e.orelse)
    elif isinstance(e, (ast.BinOp, ast.Call)) or (isinstance(e, ast.UnaryOp) and not isinstance(e.op, ast.Not)):
        for argument, _ in partials(e, e):
            yield from sources(argument)


def active_names(values: Values, wanted: Collection[str]) -> set[str]:
    """The names of active values, and of the active arrays' families.

    wanted: the parameters whose derivatives are asked for.
    """
    floating = {n for n, v in values.by_name.items() if v.kind.floating}
    floating |= {values.family(n) for n, k in values.program.kinds.items() if k.ndim is not None and k.floating}
    edges = [(a, b) for a, b in _edges(values) if a in floating and b in floating]
    inputs = {values.by_name[n].name if n in values.by_name else values.family(n) for n in wanted}
    outputs = {v.name for v in values.results.values()}
    outputs |= {values.family(n) for n in values.program.outputs if values.program.kinds[n].ndim is not None}
    varied = _reached(inputs & floating, [(b, a) for a, b in edges])
    return varied & _reached(outputs & floating, edges)


def _edges(values: Values) -> Iterator[Edge]:
    for node in values.nodes():
        if isinstance(node, Define):
            element = loaded(node.value)
            if element is not None:
                yield node.value.name, values.family(element.value.id)  # type: ignore[attr-defined]
            elif node.value.expression is not None:
                yield from ((node.value.name, n) for n in sources(node.value.expression))
        elif isinstance(node, Write):
            yield from ((values.family(node.array), n) for n in sources(node.amount))
        elif isinstance(node, New) and node.fill is not None:
            yield from ((values.family(node.array), n) for n in names(node.fill))
        elif isinstance(node, Branch):
            for m in node.merges:
                yield from ((m.value.name, side.name) for side in (m.yes, m.no) if side is not None)
        elif isinstance(node, Loop):
            for c in node.carried:
                for one in (c.first, c.end):
                    if one is not None:
                        yield c.start.name, one.name
                        yield c.final.name, one.name


def _reached(start: Collection[str], edges: list[Edge]) -> set[str]:
    """The names that edges lead to from ``start``, itself included."""
    following: dict[str, list[str]] = {}
    for a, b in edges:
        following.setdefault(a, []).append(b)
    found, waiting = set(start), list(start)
    while waiting:
        for n in following.get(waiting.pop(), ()):
            if n not in found:
                found.add(n)
                waiting.append(n)
    return found
