"""Sweeps as functions that Numba compiles.

`gradient_text` is one function for both sweeps: results and gradients at once. `forward_text` and `reverse_text` are
two, for a graph that asks for the gradients later; what the first keeps for the second is returned behind its results.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from jitgrad.kernels.adjoint.reverse import Adjoint
from jitgrad.kernels.adjoint.split import SUMMED
from jitgrad.kernels.adjoint.write import HEAD
from jitgrad.kernels.words.syntax import parse

__all__ = ["GROWN", "forward_text", "gradient_text", "kept_names", "reverse_text"]

GROWN = """\
def grown(array, size):
    longer = np.empty((max(size, 2 * array.shape[0]),) + array.shape[1:], array.dtype)
    longer[:array.shape[0]] = array
    return longer
"""


def _function(name: str, parameters: Sequence[str], lines: Sequence[str], results: Sequence[str]) -> str:
    body = [*lines, f"return ({''.join(f'{r}, ' for r in results)})"]
    return f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)


def _gradients(adjoint: Adjoint) -> list[str]:
    """What a function returns for the wanted parameters."""
    found = []
    for name, gradient in adjoint.gradients.items():
        zero = "0.0" if adjoint.program.kinds[name].ndim is None else f"np.zeros_like({name})"
        found.append(gradient or zero)
    return found


def gradient_text(adjoint: Adjoint, name: str) -> str:
    """``name(parameters, seeds) -> (results..., gradients...)``."""
    program = adjoint.program
    # The reverse sweep may assign to variables and put memory back that hold results.
    assigned = {n.id for n in ast.walk(parse("\n".join(adjoint.reverse) or "pass"))
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
    clobbered = {o for o in program.outputs if o in adjoint.restored or o in assigned}
    taken = {*program.kinds, *assigned, *adjoint.seeds.values()}
    outputs = [next(n for k in range(99) if (n := f"result_{o}" + "_" * k) not in taken) if o in clobbered else o
               for o in program.outputs]  # fmt: skip
    results = [f"{new} = {old}" for new, old in zip(outputs, program.outputs, strict=True) if new != old]
    results += [f"{o} = {o}.copy()" for o in program.outputs if o in adjoint.restored]
    lines = [*adjoint.forward, *results, *adjoint.reverse]
    text = _function(name, [*program.parameters, *adjoint.seeds.values()], lines, [*outputs, *_gradients(adjoint)])
    return f"{HEAD}{_helpers(text)}{text}"


def _helpers(text: str) -> str:
    """The functions that a text calls beside NumPy's."""
    return (GROWN if "grown(" in text else "") + (SUMMED if "summed(" in text else "")


def kept_names(adjoint: Adjoint) -> list[str]:
    """What the reverse sweep reads of the forward sweep's variables."""
    text = "\n".join([*adjoint.reverse, *_gradients(adjoint)])
    read: dict[str, None] = {}
    stored = {*adjoint.program.parameters, *adjoint.seeds.values()}
    nodes = _in_order(parse(text))
    # Arrays that the sweep puts back are read ahead of that on some path, whichever comes first in the text.
    loads = {n.id for n in nodes if isinstance(n.ctx, ast.Load)}
    read |= {n: None for n in adjoint.restored if n in loads - stored}
    for node in nodes:
        if isinstance(node.ctx, ast.Load) and node.id not in stored:
            read[node.id] = None
        elif isinstance(node.ctx, ast.Store):
            stored.add(node.id)
    made = {n.id for n in ast.walk(parse("\n".join(adjoint.forward))) if isinstance(n, ast.Name)}
    return [n for n in read if n in made and n not in _MODULES]


_MODULES = {"np", "math", "len", "range", "max", "min", "abs", "int", "float", "bool", "grown", "inf", "nan", "round"}


def _in_order(tree: ast.AST) -> list[ast.Name]:
    """Names in the order in which Python evaluates them, near enough: an assignment's value ahead of its target."""
    found: list[ast.Name] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            found.append(node)
        elif isinstance(node, ast.Assign):
            visit(node.value)
            for target in node.targets:
                visit(target)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                found.append(ast.Name(node.target.id, ast.Load()))
            visit(node.value)
            visit(node.target)
        elif isinstance(node, ast.For):
            visit(node.iter)
            visit(node.target)
            for s in node.body:
                visit(s)
        else:
            for child in ast.iter_child_nodes(node):
                visit(child)

    visit(tree)
    return found


def forward_text(adjoint: Adjoint, name: str) -> str:
    """``name(parameters) -> (results..., kept...)``."""
    program = adjoint.program
    text = _function(name, program.parameters, adjoint.forward, [*program.outputs, *kept_names(adjoint)])
    return f"{HEAD}{_helpers(text)}{text}"


def reverse_text(adjoint: Adjoint, name: str) -> str:
    """``name(parameters, kept, seeds) -> (gradients...)``; it may be called again with what was kept."""
    kept = kept_names(adjoint)
    copies = [f"{n} = {n}.copy()" for n in adjoint.restored if n in kept or n in adjoint.program.parameters]
    parameters = [*adjoint.program.parameters, *kept, *adjoint.seeds.values()]
    text = _function(name, parameters, [*copies, *adjoint.reverse], _gradients(adjoint))
    return f"{HEAD}{SUMMED if 'summed(' in text else ''}{text}"
