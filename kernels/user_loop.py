"""A user's loop as kernels: unchecked, and checked for indices out of bounds.

Two forms of one text are compiled, each when it first runs and both kept on disk. The unchecked one is what a built-in
loop is. The checked one compares every index with its array's size (see ``codegen/index_checks.py``) and takes inputs
as read-only arrays, so that Numba refuses to compile a store into one, by whatever name.

Functions are compiled at the lines of the user's file: errors, tracebacks and debuggers show those.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.codegen.data_indices import deciding
from jitgrad.kernels.codegen.index_checks import Place, checked_tree
from jitgrad.kernels.codegen.loop_faults import ranks, refuse_faults
from jitgrad.kernels.codegen.parallel_rows import SHARE, has_rows, shared_rows
from jitgrad.kernels.codegen.rule_text import INLINE, retyped
from jitgrad.kernels.codegen.source import Definition, LoopSource, SourceError
from jitgrad.kernels.compiled_function import CompiledFunction
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.kernel_text import KernelError
from jitgrad.kernels.launch import Kernel, loop_head, text_file
from jitgrad.kernels.numba_flags import numba_flag
from jitgrad.kernels.split_call import PART, PARTS, SplitCall
from jitgrad.kernels.words.syntax import copied, parse, read_once

__all__ = ["UserLoop", "always_checked"]


def always_checked() -> bool:
    """Whether NUMBA_BOUNDSCHECK asks for checks in every call."""
    return numba_flag("BOUNDSCHECK")


class UserLoop:
    """A user's loop, which writes into its parameters ``outputs`` and reads the others.

    parallel: rows of ``numba.prange`` are shared among threads.
    """

    def __init__(self, function: Callable[..., None], outputs: Sequence[str], parallel: bool):
        self.source = LoopSource(function)
        self.name, self.parameters = self.source.name, self.source.parameters
        self.writes = tuple(k for k, p in enumerate(self.parameters) if p in outputs)
        self.outputs = outputs
        # Parsed now and not at the first launch: errors in the text are raised where the loop is declared.
        refuse_faults(self.source, outputs)
        self.ranks = ranks(self.source)
        self.shared = shared_rows(self.source) if parallel and has_rows(self.source) else None
        self.kernels: dict[tuple[np.dtype[Any], bool], Kernel] = {}

    def kernel(self, dtype: np.dtype[Any], checked: bool) -> Kernel:
        """The loop for compute dtype ``dtype``."""
        found = self.kernels.get((dtype, checked))
        if found is None:
            found = self.kernels[dtype, checked] = self._compile(dtype, checked and not numba_flag("DISABLE_JIT"))
        return found

    @read_once
    def deciding(self) -> frozenset[str]:
        """The parameters whose values, and not only their shapes, decide on an index."""
        helpers = {n: v.tree for n, v in self.source.named.items() if isinstance(v, Definition)}
        return deciding(self.source.tree, helpers, self.outputs)

    def decided_by_data(self, arguments: Sequence[Any]) -> bool:
        """Whether elements of arrays or floats decide on an index: then it may differ in each call."""
        given = zip(self.parameters, arguments, strict=True)
        return any(p in self.deciding and not isinstance(a, (int, np.integer)) for p, a in given)

    def check_ranks(self, arguments: Sequence[Any]) -> None:
        """IndexError or RuntimeError for an array with another number of dimensions than the loop's text asks for."""
        for rank in self.ranks:
            array = arguments[self.parameters.index(rank.parameter)]
            ndim = getattr(array, "ndim", None)
            if ndim is None or rank.fits(ndim):
                continue
            place = f"{rank.expression} in {self.name} ({self.source.file}:{rank.line})"
            if rank.exact and ndim > rank.least:
                shape = list(array.shape)
                what = f"{rank.least}-D tensor expected for {rank.parameter!r}, but got a {ndim}-D one of shape {shape}"
                raise RuntimeError(f"{what}: {place}")
            hint = f"; the only element of a 0-d array is {rank.parameter}[()]" if ndim == 0 else ""
            raise IndexError(f"too many indices for tensor of dimension {ndim}: {place}{hint}")

    # -- compiling ----------------------------------------------------------------------------------

    def _compile(self, dtype: np.dtype[Any], checked: bool) -> Kernel:
        places: list[Place] = []
        named = {n: v if isinstance(v, str) else self._emit(v, dtype, checked, places)
                 for n, v in self.source.named.items()}  # fmt: skip
        for helper in named.values():
            if isinstance(helper, Definition):
                helper.tree.decorator_list = [_at_line(copied(d), helper.tree) for d in _INLINE]
        tree = self.source.tree if self.shared is None else self.shared
        loop = self._emit(Definition(self.source.file, tree), dtype, checked, places)
        texts = [v if isinstance(v, str) else ast.unparse(v.tree) for v in (*named.values(), loop)]
        heads = [loop_head(dtype.name, self.source), self._share()]
        definitions = [d for d in (*named.values(), loop) if isinstance(d, Definition)]
        text = "\n".join([*heads, *texts]) + "\n"
        run = compile_text(self.name, text, definitions=definitions, checked=checked)
        call = _shared(run) if self.shared is not None else run
        return Kernel(self.name, _CheckedCall(self, call, places) if checked else call, self.writes)

    def _share(self) -> str:
        return f"{INLINE}\n{SHARE}" if self.shared is not None else ""

    def _emit(self, function: Definition, dtype: np.dtype[Any], checked: bool, places: list[Place]) -> Definition:
        tree = copied(function.tree)
        if checked:
            arrays = self.parameters if tree.name == self.name else []
            tree = checked_tree(tree, function.file, arrays, places)
        tree = _PlainRange().visit(tree)
        if dtype.kind in "fc":  # 0.5 as an integer would be 0
            retyped(tree)
        return Definition(function.file, tree)


def _shared(run: Callable[..., None]) -> Callable[..., None]:
    """The function that calls the compiled loop in each thread, with the number of its share."""
    compiled = isinstance(run, CompiledFunction)  # a debugger follows one thread
    in_parts = SplitCall(run, {-2: PART, -1: PARTS}) if compiled else run

    def call(*args: Any) -> None:
        in_parts(*args, 0, threads.get_num_threads() if compiled else 1)

    call.text_file = text_file(run)  # type: ignore[attr-defined]
    return call


class _CheckedCall:
    """The checked form of a loop, as what a kernel calls; its errors name places in the user's file."""

    def __init__(self, loop: UserLoop, run: Callable[..., None], places: list[Place]):
        self.loop, self.run, self.places = loop, run, places
        self.text_file = text_file(run)
        self.refused: KernelError | None = None  # why it cannot be compiled for read-only inputs

    def __call__(self, *args: Any) -> None:
        try:
            if self.refused is None:
                try:
                    return self.run(*self._inputs(args, _read_only))
                except KernelError as error:
                    self.refused = error
            # The loop is wrong in itself, or writes into an input, or Numba lacks a function for read-only arrays.
            self._run_on_copies(args, self.refused)
        except IndexError as error:
            raise self._located(error) from None

    def _inputs(self, args: Sequence[Any], change: Callable[[np.ndarray], np.ndarray]) -> list[Any]:
        """The arguments with those arrays changed that the loop may only read."""
        return [
            change(a) if isinstance(a, np.ndarray) and k not in self.loop.writes else a for k, a in enumerate(args)
        ]

    def _run_on_copies(self, args: Sequence[Any], refused: KernelError) -> None:
        given = self._inputs(args, np.copy)
        self.refused = None  # kept only if the loop is compiled now and leaves its inputs as they are
        self.run(*given)
        changed = [before is not after and before.tobytes() != after.tobytes()
                   for before, after in zip(args, given, strict=True)]  # fmt: skip
        if any(changed) or "Cannot modify readonly" in str(refused.__context__):
            name = self.loop.parameters[changed.index(True)] if any(changed) else ""
            place = f" ({refused.place})" if refused.place else ""
            output = self.loop.parameters[self.loop.writes[0]]
            which = f"its input {name}" if name else "an input"
            raise SourceError(f"{self.loop.name} writes into {which}{place}; write into {output}, or into a copy")
        self.refused = refused

    def _located(self, error: IndexError) -> IndexError:
        if len(error.args) != 4:
            source = self.loop.source
            return IndexError(f"{error} in {source.name} ({source.file}:{source.tree.lineno})")
        place, index, dimension, size = error.args
        at = self.places[place]
        where = f"dimension {dimension} with size {size} of" if dimension >= 0 else f"the {size} elements of"
        return IndexError(
            f"index {index} is out of bounds for {where} {at.array!r}: "
            f"{at.expression} in {at.function} ({at.file}:{at.line})"
        )


_INLINE = parse(f"{INLINE}\ndef helper(): pass").body[0].decorator_list  # type: ignore[attr-defined]


class _PlainRange(ast.NodeTransformer):
    """Writes ``range`` for ``prange``: threads run shares of the rows, each of them a plain loop."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = "range" if node.id == "prange" else node.id
        return node


def _at_line(tree: ast.expr, statement: ast.stmt) -> ast.expr:
    """The expression, as if it stood where the statement begins."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.keyword)):
            ast.copy_location(node, statement)
    return tree


def _read_only(array: np.ndarray) -> np.ndarray:
    array = array.view()
    array.flags.writeable = False
    return array
