"""Optimisers' steps on CUDA: the CPU's loops over one parameter, spread over a grid.

Each loop of `loops.optimizer` goes through its elements independently. Here every thread takes some of them:
``for i in range(param.size)`` becomes a grid-stride loop. Counters stay on the CPU, as in PyTorch. Their values travel
as numbers, which every thread advances for itself; a loop over no elements advances them on the CPU.
"""

from __future__ import annotations

import ast
import functools
from typing import Any

import numpy as np

from jitgrad.kernels.cuda.provider import CudaLoop
from jitgrad.kernels.device_array import LOOPS
from jitgrad.kernels.launch import Loop
from jitgrad.kernels.words.syntax import expression

__all__ = ["GridStrided"]


class _Spread(ast.NodeTransformer):
    def __init__(self, counters: tuple[str, ...]):
        self.counters = counters

    def visit_For(self, node: ast.For) -> ast.AST:
        """Every loop over a whole array."""
        bound = ast.unparse(node.iter)
        if bound.startswith("range(") and bound.endswith(".size)"):
            node.iter = expression(f"range(cuda.grid(1), {bound[6:-1]}, cuda.gridsize(1))")
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A counter is a number here, which the text may assign to."""
        name = ast.unparse(node.value)
        return ast.Name(name, node.ctx) if name in self.counters else self.generic_visit(node)


class GridStrided(CudaLoop):
    """The device's form of a CPU loop whose iterations are independent."""

    def __init__(self, loop: Loop, counters: tuple[str, ...] = ("step",)):
        super().__init__(loop.source.function, shaped=True)
        self.source.tree = ast.fix_missing_locations(_Spread(counters).visit(self.source.tree))


_grid_strided = functools.cache(GridStrided)


def foreach(kernel: Any, *args: Any) -> None:
    """One step of all parameters: a launch for each."""
    many = len(kernel.arrays) * kernel.count
    names = tuple(kernel.arrays[len(kernel.arrays) - kernel.counted :])
    loop, scalars = _grid_strided(kernel.loop, names), args[many:]
    for k in range(kernel.count):
        arrays = args[k : many : kernel.count]
        param = arrays[0]
        if not param.size:
            continue
        given = [float(a.item()) if isinstance(a, np.ndarray) else a.ravel("K") for a in arrays]
        loop.grid(param.dtype).over(param.size)(*given, *scalars)
        counters = kernel.counters(args[:many])[k :: kernel.count]
        if counters:
            nothing = np.empty(0, param.dtype)
            no_arrays = [nothing] * (len(arrays) - len(counters))
            kernel.loop.call(*no_arrays, *[c.reshape(1) for c in counters], *scalars)


LOOPS["foreach"] = foreach
