"""Whether the shapes of a program's results follow from the shapes of its arguments and from whole numbers."""

from __future__ import annotations

import ast
from collections.abc import Collection

from jitgrad.kernels.adjoint.program import Allocate, Exchange, Program, statements
from jitgrad.kernels.adjoint.state import array_of_size, leaves
from jitgrad.kernels.adjoint.write import program_text
from jitgrad.kernels.codegen.data_indices import sizing
from jitgrad.kernels.words.syntax import parse

__all__ = ["deciding_on_shapes"]


def deciding_on_shapes(program: Program, numbers: Collection[str]) -> set[str]:
    """The parameters whose values decide on the shape of a result; numbers: those of the same value in each call."""
    made = {n for n in program.outputs if n not in program.parameters and program.kinds[n].ndim is not None}
    open_ = sorted(made - set(_shapes(program, numbers)))
    if not open_:
        return set()
    tree = parse(program_text(program)).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return set(sizing(tree, open_)) - set(numbers)


def _shapes(program: Program, numbers: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The shapes of arrays that have one wherever they are allocated, made of parameters' sizes and numbers."""
    body = list(statements(program.body))
    exchanges = [{*s.targets} for s in body if isinstance(s, Exchange)]
    found: dict[str, tuple[str, ...]] = {}
    before = -1
    while before < (before := len(found)):
        for array in {s.array for s in body if isinstance(s, Allocate)} - set(found):
            family = {array}
            for _ in exchanges:  # names that are exchanged with it, by whatever others
                family = family.union(*(e for e in exchanges if e & family))
            made = [s.shape for s in body if isinstance(s, Allocate) and s.array in family]
            shapes = {tuple([_size(size, found, program, numbers) for size in shape]) for shape in made}
            if len(shapes) == 1 and all(shape := shapes.pop()):
                found[array] = shape
    return found


def _size(size: ast.expr, found: dict[str, tuple[str, ...]], program: Program, numbers: Collection[str]) -> str:
    """The text of a size in parameters; "" where it is made of anything else."""
    if (array := array_of_size(size)) in found:
        assert isinstance(size, ast.Subscript)
        return found[array][ast.literal_eval(size.slice)]
    known = all(
        isinstance(leaf, ast.Constant) or array_of_size(leaf) in program.parameters
        or (isinstance(leaf, ast.Name) and leaf.id in numbers)
        for leaf in leaves(size)
    )  # fmt: skip
    return ast.unparse(size) if known else ""
