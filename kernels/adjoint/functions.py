"""Sweeps as functions: parameters, lines and results.

`gradient_function` is one for both sweeps: results and gradients at once. `forward_function` and `reverse_function` are
two, for a graph that asks for the gradients later; what the first keeps for the second is returned behind its results.
`entries` compiles them, in the forms in which arguments come; ``text`` is for readers, and for Python itself.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from jitgrad.kernels.adjoint.program import Program
from jitgrad.kernels.adjoint.write import HEAD
from jitgrad.kernels.words.syntax import parse

__all__ = [
    "HELPERS", "Adjoint", "Function", "forward_function", "gradient_function", "reverse_function", "value_function",
]  # fmt: skip

# Copied by loops: an assignment to a slice takes Numba seconds to compile, most of them for its error's message.
GROWN = """\
def grown(array, size):
    longer = np.empty((max(size, 2 * array.shape[0]),) + array.shape[1:], array.dtype)
    old, new = array.reshape(-1), longer.reshape(-1)
    for k in range(old.size):
        new[k] = old[k]
    return longer
"""
SUMMED = """\
def summed(row, size):
    a = b = c = d = 0.0
    for k in range(size // 4):
        a += row[4 * k]
        b += row[4 * k + 1]
        c += row[4 * k + 2]
        d += row[4 * k + 3]
    for k in range(size // 4 * 4, size):
        a += row[k]
    return (a + b) + (c + d)
"""
WIDENED = """\
def widened(row, size):
    wider = np.zeros(2 * size, np.float64)
    for k in range(row.size):
        wider[k] = row[k]
    return wider
"""
# See `binomial`: how many iterations to run until the next state is kept, where ``length`` are to be reversed of which
# the last comes first, and there is room for so many ``states``, that of the first iteration counted.
STEPS_AHEAD = """\
def steps_ahead(length, states):
    if states == 1 or length < 3:
        return length - 1
    runs, reach = 0, 1
    while reach < length:
        runs += 1
        reach = reach * (states + runs) // runs
    before = reach * runs // (states + runs)
    return max(1, before * (runs - 1) // (states + runs - 1), length - reach * states // (states + runs))
"""
# What sweeps call beside NumPy's functions.
HELPERS = {"grown": GROWN, "summed": SUMMED, "widened": WIDENED, "steps_ahead": STEPS_AHEAD}


class Adjoint:
    """Both sweeps of a program.

    seeds: for each output that has a derivative, and gradients: for each wanted parameter, the name of its derivative
    (None where it is zero everywhere). restored: arrays whose memory the reverse sweep puts back as it goes. kept: what
    the reverse sweep reads of the forward sweep's variables; found in the sweeps unless it is known.
    """

    def __init__(
        self, program: Program, forward: list[str], reverse: list[str], seeds: dict[str, str],
        gradients: dict[str, str | None], restored: list[str], kept: list[str] | None = None,
    ):  # fmt: skip
        self.program, self.forward, self.reverse = program, forward, reverse
        self.seeds, self.gradients, self.restored = seeds, gradients, restored
        self.kept = _kept_names(self) if kept is None else kept


@dataclass(eq=False)
class Function:
    """A function that returns a tuple of expressions, or nothing."""

    parameters: list[str]
    lines: list[str]
    results: list[str] | None

    def definition(self, name: str) -> str:
        """``def name(...): ...``."""
        end = [] if self.results is None else [f"return ({''.join(f'{r}, ' for r in self.results)})"]
        body = [*self.lines, *end] or ["pass"]
        return f"def {name}({', '.join(self.parameters)}):\n" + "".join(f"    {line}\n" for line in body)

    def text(self, name: str) -> str:
        """The definition behind all that it names."""
        own = self.definition(name)
        return HEAD + "".join([t for n, t in HELPERS.items() if f"{n}(" in own]) + own


def value_function(program: Program, lines: list[str]) -> Function:
    """``(parameters) -> (results...)``; ``lines``: the text of the program's body."""
    return Function([*program.parameters], lines, [*program.outputs])


def forward_function(adjoint: Adjoint) -> Function:
    """``(parameters) -> (results..., kept...)``."""
    program = adjoint.program
    return Function([*program.parameters], [*adjoint.forward], [*program.outputs, *adjoint.kept])


def reverse_function(adjoint: Adjoint) -> Function:
    """``(parameters, kept, seeds) -> (gradients...)``; it may be called again with what was kept."""
    kept = adjoint.kept
    given = {*kept, *adjoint.program.parameters}
    copies = [f"{n} = {n}.copy()" for n in adjoint.restored if n in given]
    parameters = [*adjoint.program.parameters, *kept, *adjoint.seeds.values()]
    return Function(parameters, [*copies, *adjoint.reverse], _gradients(adjoint))


def gradient_function(adjoint: Adjoint, values: bool = True, between: Sequence[str] = ()) -> Function:
    """``(parameters, seeds) -> (results..., gradients...)``, without the results unless ``values``.

    between: lines of the caller's between the sweeps, where results have their shapes.
    """
    program = adjoint.program
    # The reverse sweep may assign to variables and put memory back that hold results.
    assigned = _assigned(adjoint.reverse)
    taken = {*program.kinds, *assigned, *adjoint.seeds.values()}
    results, saved = [], []
    for o in program.outputs if values else ():
        results.append(_free(f"result_{o}", taken) if o in adjoint.restored or o in assigned else o)
        saved += [f"{results[-1]} = {o}"] if results[-1] != o else []
    copied = program.outputs if values else program.parameters
    saved += [f"{o} = {o}.copy()" for o in copied if o in adjoint.restored and o in program.outputs]
    parameters = [*program.parameters, *adjoint.seeds.values()]
    lines = [*adjoint.forward, *between, *saved, *adjoint.reverse]
    return Function(parameters, lines, [*results, *_gradients(adjoint)])


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _gradients(adjoint: Adjoint) -> list[str]:
    """What a function returns for the wanted parameters."""
    found = []
    for name, gradient in adjoint.gradients.items():
        zero = "0.0" if adjoint.program.kinds[name].ndim is None else f"np.zeros_like({name})"
        found.append(gradient or zero)
    return found


def _kept_names(adjoint: Adjoint) -> list[str]:
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
    made = _assigned(adjoint.forward)  # all else that is read is a function, a module or an exception
    return [n for n in read if n in made]


def _assigned(lines: list[str]) -> set[str]:
    """The names that a text assigns to."""
    names = (n for n in ast.walk(parse("\n".join(lines) or "pass")) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


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
