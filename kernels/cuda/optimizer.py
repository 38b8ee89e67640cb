"""Optimisers' steps on CUDA: the CPU's loops over one parameter, spread over a grid.

Each loop of `loops.optimizer` goes through its elements independently. Here every thread takes some of them:
``for i in range(param.size)`` becomes a grid-stride loop. The counter ``step`` stays on the CPU, as in
PyTorch, is advanced there, and its value travels as a number.
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
    def visit_For(self, node: ast.For) -> ast.AST:
        """Every loop over a whole array."""
        bound = ast.unparse(node.iter)
        if bound.startswith("range(") and bound.endswith(".size)"):
            node.iter = expression(f"range(cuda.grid(1), {bound[6:-1]}, cuda.gridsize(1))")
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        """The counter was advanced before the launch."""
        return None if ast.unparse(node.target) == "step[0]" else self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return ast.Name("step", ast.Load()) if ast.unparse(node) == "step[0]" else self.generic_visit(node)


class GridStrided(CudaLoop):
    """The device's form of a CPU loop whose iterations are independent."""

    def __init__(self, loop: Loop):
        super().__init__(loop.source.function)
        self.source.tree = ast.fix_missing_locations(_Spread().visit(self.source.tree))


_grid_strided = functools.cache(GridStrided)


def foreach(kernel: Any, *args: Any) -> None:
    """One step of all parameters: a launch for each."""
    many = len(kernel.arrays) * kernel.count
    loop, scalars = _grid_strided(kernel.loop), args[many:]
    for k in range(kernel.count):
        arrays = args[k : many : kernel.count]
        param = arrays[0]
        if not param.size:
            continue
        if kernel.arrays[-1] == "step":
            arrays[-1][...] += 1
        # exact: loops ask arrays for their size, and memory of the pool may be larger.
        given = [float(a.item()) if isinstance(a, np.ndarray) else a.exact for a in arrays]
        loop.grid(param.dtype).over(param.size)(*given, *scalars)


LOOPS["foreach"] = foreach
