"""``scatter`` in all its forms: of a tensor or a number, with a reduction, and in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.errors import invalid_combination
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch.batch_rules import over_dims
from jitgrad.dispatch.copying import filled
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.op_samples import cases, draw, draw_ints
from jitgrad.dispatch.operand_checks import check_inplace_target
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import method, public
from jitgrad.dispatch.underived import underived
from jitgrad.kernels.loops import elements as kernels
from jitgrad.ops.creation.constants import convert_number
from jitgrad.ops.indexing.gather import ScatterSource, ScatterValue, cut_beside, write_elements
from jitgrad.ops.indexing.places import row_major

__all__: list[str] = []


def _reduced(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    """The reference of ScatterReduce."""
    coordinates, out = list(np.indices(index.shape, sparse=True)), x.copy()
    coordinates[dim] = index
    (np.add if reduce == "add" else np.multiply).at(out, tuple(coordinates), cut_beside(src, index))
    return out


class ScatterReduce(InplaceOp):
    """Add ``src`` to the elements that ``index`` names, or multiply them by it; without a gradient."""

    batch = over_dims("dim")
    name, copy_strides = "scatter_reduced", "row-major"
    samples = cases(
        lambda: (draw(2, 3).detach(), 1, draw_ints(2, 4, below=3), draw(2, 4, seed=1), "add"),
        lambda: (draw(2, 3).detach(), 1, draw_ints(2, 4, below=3), draw(2, 4, seed=1), "multiply"),
    )

    reference = _reduced

    def write(x, dim, index, src, reduce):
        write_elements(kernels.scatter_add if reduce == "add" else kernels.scatter_multiply, x, dim, index, src)


def _scatter_reduced(x: Tensor, dim: int, index: Tensor, given: Any, reduce: str, inplace: bool) -> Tensor:
    """``scatter`` with ``reduce``: backward through the result raises, as in PyTorch."""
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(given, Tensor):
        given = filled(row_major(x._layout, index._layout.shape), convert_number(given, x._layout.dtype))
    name = "scatter_" if inplace else "scatter"
    if grad_state.levels and (wrapped := outermost_wrapped((x, given))) is not None and not wrapped._level.randomness:
        raise NotImplementedError(f"Trying to use forward AD with aten::{name} that does not support it.")
    if inplace:
        check_inplace_target(x, grad_state.enabled and (x._requires_grad or given._requires_grad))
    write = ScatterReduce.inplace if inplace else ScatterReduce.apply
    result = write(x.detach(), dim, index, given.detach(), reduce)
    return underived(f"aten::{name}", x if inplace else result, x, given)


def _source_or_value(op: str, dim: Any, index: Any, src: Any, value: Any) -> Any:
    """What ``scatter`` writes: ``src`` or ``value``, whichever was given; TypeError if none was, or both."""
    if (src is None) == (value is None):
        both = {} if src is None else {"value": value, "src": src}
        raise invalid_combination(op, (dim, index), **both)
    return value if src is None else src


@takes_out
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:  # fmt: skip
    """A copy with elements along ``dim`` set: x[index[i][j]][j] = src[i][j], or a number.

    With ``reduce="add"`` or ``"multiply"`` they are added to or multiplied instead, without a gradient.
    """
    given = _source_or_value("scatter", dim, index, src, value)
    if reduce is not None:
        return _scatter_reduced(input, dim, index, given, reduce, inplace=False)
    return (ScatterSource if isinstance(given, Tensor) else ScatterValue).apply(input, dim, index, given)


def scatter_(
    self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:  # fmt: skip
    """In-place version of ``scatter``."""
    given = _source_or_value("scatter_", dim, index, src, value)
    if reduce is not None:
        return _scatter_reduced(self, dim, index, given, reduce, inplace=True)
    return (ScatterSource if isinstance(given, Tensor) else ScatterValue).inplace(self, dim, index, given)


public(scatter)
method(scatter_)
