"""A user's loop over ``numba.prange``, for threads: each runs the function on its share of the rows.

The function gets two more parameters, the number of its share and how many there are. What stands before the loop every
thread computes for itself, so it may not store into arrays; nothing may follow the loop. Rows must be independent: one
that adds to a variable or to an element that another row adds to as well would give another sum in each run.
"""

from __future__ import annotations

import ast

from jitgrad.kernels.codegen.loop_faults import fault, root, stores
from jitgrad.kernels.codegen.source import LoopSource
from jitgrad.kernels.words.syntax import copied, parse

__all__ = ["SHARE", "has_rows", "shared_rows"]

# The rows of share ``part`` of ``parts``: all shares have the same number of rows, give or take one.
SHARE = """\
def _share_of_rows(start, stop, part, parts):
    rows = max(stop - start, 0)
    return start + rows * part // parts, start + rows * (part + 1) // parts
"""
_PARAMETERS = ("_part", "_parts")


def has_rows(source: LoopSource) -> bool:
    """Whether the loop names ``prange``."""
    return any(_is_rows(n) for n in ast.walk(source.tree))


def shared_rows(source: LoopSource) -> ast.FunctionDef:
    """The loop's tree with the two parameters; SourceError where rows depend on one another."""
    tree = copied(source.tree)
    *before, loop = tree.body
    if not _is_rows(loop):
        first = next(n for n in ast.walk(tree) if _is_rows(n))
        raise fault(source, first, "has a loop over prange that is not its last statement, or within another")
    assert isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and isinstance(loop.target, ast.Name)
    _refuse_dependence(source, before, loop)
    bounds = loop.iter.args
    if not 1 <= len(bounds) <= 2:
        raise fault(source, loop, "gives prange other arguments than a stop, or a start and a stop")
    start, stop = bounds if len(bounds) == 2 else (ast.Constant(0), bounds[0])
    # The assignment in between is no statement of the user's: it stands on the line of the loop.
    cut = parse("_first_row, _last_row = _share_of_rows(start, stop, _part, _parts)").body[0]
    assert isinstance(cut, ast.Assign) and isinstance(cut.value, ast.Call)
    cut.value.args[:2] = [start, stop]
    for node in ast.walk(cut):
        if isinstance(node, (ast.expr, ast.stmt)):
            ast.copy_location(node, loop)
    loop.iter.args = [ast.Name(n, ast.Load()) for n in ("_first_row", "_last_row")]
    tree.args.args += [ast.arg(p) for p in _PARAMETERS]
    tree.body = [*before, cut, loop]
    return ast.fix_missing_locations(tree)


def _is_rows(node: ast.AST) -> bool:
    call = node.iter if isinstance(node, ast.For) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "prange"


def _refuse_dependence(source: LoopSource, before: list[ast.stmt], loop: ast.For) -> None:
    arrays = set(source.parameters)
    for store in stores(before):
        if root(store) in arrays:
            raise fault(source, store, "stores into an array before prange, in every thread; store within the loop")
    outside = _assigned(before)
    for node in ast.walk(ast.Module(loop.body, [])):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in outside:
            raise fault(source, node, f"carries {node.id!r} from row to row of prange; rows must be independent")
    own = _row_names(loop)
    for store in stores(loop.body):
        names = {n.id for n in ast.walk(store) if isinstance(n, ast.Name)}
        if root(store) in arrays | outside and not names & own:
            place = ast.unparse(store)
            raise fault(source, store, f"writes to {place} in every row of prange; rows must be independent")


def _row_names(loop: ast.For) -> set[str]:
    """The names whose value may differ from row to row: the row's number, and what is computed from such names."""
    assert isinstance(loop.target, ast.Name)
    own, before = {loop.target.id}, 0
    while len(own) > before:
        before = len(own)
        for node in ast.walk(ast.Module(loop.body, [])):
            value = node.iter if isinstance(node, ast.For) else getattr(node, "value", None)
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.For)) and value is not None:
                if {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} & own:
                    own |= _assigned([node])
    return own


def _assigned(statements: list[ast.stmt]) -> set[str]:
    nodes = ast.walk(ast.Module(list(statements), []))
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
