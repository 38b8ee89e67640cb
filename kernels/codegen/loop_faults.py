"""What the text of a user's loop shows to be wrong before it runs.

`refuse_faults` is for the declaration: a value that is returned and would be lost, an output that is never written, an
input that is. `Rank` is for the first call with arrays of new ranks: how many dimensions the text asks of a parameter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jitgrad.kernels.codegen.source import LoopSource, SourceError, bases

__all__ = ["Rank", "fault", "ranks", "refuse_faults", "refuse_hidden_writes", "root", "stores"]


class Rank(NamedTuple):
    """The dimensions that an expression asks of a parameter: at least ``least`` of them, or just so many."""

    parameter: str
    least: int
    exact: bool
    expression: str
    line: int

    def fits(self, ndim: int) -> bool:
        """Whether an array of ``ndim`` dimensions may be used so."""
        return ndim == self.least if self.exact else ndim >= self.least


def refuse_faults(source: LoopSource, outputs: Sequence[str]) -> None:
    """SourceError for a loop whose results are lost, or that writes to an input. ``outputs``: what it is to write."""
    results = " and ".join(outputs)
    for node in _own_nodes(source.tree):
        if isinstance(node, ast.Return) and not (node.value is None or _is_none(node.value)):
            raise fault(source, node, f"returns a value, which would be lost; a loop writes into {results}")
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            raise fault(source, node, f"yields a value, which would be lost; a loop writes into {results}")
        if isinstance(node, ast.Assign) and (lost := _names(node.targets) & set(outputs) - bases(node.value)):
            name = min(lost)
            raise fault(source, node, f"gives the name {name} to another value; write {name}[...] = to fill the array")
    # ``out += x`` adds to an array in place.
    added = [n.target for n in ast.walk(source.tree) if isinstance(n, ast.AugAssign)]
    used = _names(source.tree.body, ast.Load) | _names(added)
    for name in outputs:
        if name not in used:
            raise fault(source, source.tree, f"never writes into {name}")
    _refuse_writes(source, outputs)


def _refuse_writes(source: LoopSource, outputs: Sequence[str]) -> None:
    # A name that is assigned to may be a copy of the input by then.
    inputs = set(source.parameters) - set(outputs) - _names(source.tree.body, ast.Store)
    for store in stores(source.tree.body):
        if (name := root(store)) in inputs:
            what = f"writes into its input {name}: {ast.unparse(store)}; write into {outputs[0]}, or into a copy"
            raise fault(source, store, what)


def refuse_hidden_writes(source: LoopSource, outputs: Sequence[str]) -> None:
    """SourceError for a loop that writes to an input by another name, in a helper, or by a method such as ``sort``.

    For loops that are never checked: the checked form of others takes inputs as read-only arrays.
    """
    inputs = set(source.parameters) - set(outputs) - _names(source.tree.body, ast.Store)
    written = {source.parameters[k] for k in source.writes}
    for name in sorted(written & inputs):
        raise fault(source, source.tree, f"writes into its input {name}; write into {outputs[0]}, or into a copy")


def ranks(source: LoopSource) -> list[Rank]:
    """What the loop's indices say of its parameters' ranks.

    Parameters that are assigned to are left out, and those whose ``ndim`` the loop asks: it may have a branch for each.
    """
    asked = {root(n) for n in ast.walk(source.tree) if isinstance(n, ast.Attribute) and n.attr == "ndim"}
    arrays = set(source.parameters) - _names(source.tree.body, ast.Store) - asked
    found = [*_counted(source.tree, arrays), *_unpacked(source.tree, arrays), *_sized(source.tree, arrays)]
    return sorted(found, key=lambda rank: rank.line)


def _counted(tree: ast.FunctionDef, arrays: set[str]) -> Iterator[Rank]:
    """``x[i, j]`` needs two dimensions, and so does ``x.shape[1]``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        base, index = node.value, node.slice
        if isinstance(base, ast.Name) and base.id in arrays:
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            count = sum(not (isinstance(p, ast.Constant) and p.value in (None, ...)) for p in parts)
            yield Rank(base.id, count, False, ast.unparse(node), node.lineno)
        elif (name := _attribute_of(base, "shape", arrays)) and isinstance(index, ast.Constant):
            if isinstance(index.value, int):
                yield Rank(name, index.value + 1, False, ast.unparse(node), node.lineno)


def _unpacked(tree: ast.FunctionDef, arrays: set[str]) -> Iterator[Rank]:
    """``rows, columns = x.shape`` needs just two dimensions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            if name := _attribute_of(node.value, "shape", arrays):
                yield Rank(name, len(node.targets[0].elts), True, ast.unparse(node), node.lineno)


def _sized(tree: ast.FunctionDef, arrays: set[str]) -> Iterator[Rank]:
    """``for i in range(x.size)`` with ``x[i]`` in its body needs just one dimension."""
    sizes = _sizes(tree, arrays)
    for loop in ast.walk(tree):
        if not (isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)):
            continue
        counted = {n.value.id for a in loop.iter.args for n in ast.walk(a) if _is_size(n, arrays)}  # type: ignore[attr-defined]
        counted |= {sizes[n] for n in _names(loop.iter.args, ast.Load) & set(sizes)}
        for node in ast.walk(loop):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in counted:
                if isinstance(node.slice, ast.Name) and node.slice.id == loop.target.id:
                    expression = f"{ast.unparse(node)} in `for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}`"
                    yield Rank(node.value.id, 1, True, expression, node.lineno)


def _sizes(tree: ast.FunctionDef, arrays: set[str]) -> dict[str, str]:
    """{variable: array} of variables that are assigned the size of an array once: ``n = x.size``."""
    assigned = [n for n in ast.walk(tree) if isinstance(n, ast.Assign)]
    names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    sizes = {}
    for node in assigned:
        variable = node.targets[0]
        if isinstance(variable, ast.Name) and names.count(variable.id) == 1 and _is_size(node.value, arrays):
            sizes[variable.id] = root(node.value)
    return sizes


def _is_size(node: ast.AST, arrays: set[str]) -> bool:
    return bool(_attribute_of(node, "size", arrays))


def _attribute_of(node: ast.AST, attribute: str, arrays: set[str]) -> str:
    """The array's name if the node is its attribute, else ""."""
    if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.value, ast.Name):
        return node.value.id if node.value.id in arrays else ""
    return ""


def stores(statements: Sequence[ast.stmt]) -> list[ast.Subscript]:
    """The items of arrays that statements assign to."""
    nodes = ast.walk(ast.Module(list(statements), []))
    return [n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]


def root(node: ast.expr) -> str:
    """The name that an expression such as ``x[i].real[j]`` starts from; "" where it starts from none."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _own_nodes(tree: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions within it, whose ``return`` is their own."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)


def _names(nodes: Sequence[ast.AST], context: type[ast.expr_context] = ast.Store) -> set[str]:
    every = (n for node in nodes for n in ast.walk(node))
    return {n.id for n in every if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def fault(source: LoopSource, node: ast.AST, what: str) -> SourceError:
    """The error of a loop whose text says, at ``node``, what cannot be meant."""
    line = node.lineno  # type: ignore[attr-defined]
    return SourceError(f"{source.name} {what} ({source.file}:{line})")
