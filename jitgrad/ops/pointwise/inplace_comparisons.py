"""Comparisons in place, as part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import method
from jitgrad.ops.creation.fill import Overwriting
from jitgrad.ops.shape.slicing import zeros_of

__all__: list[str] = []


class Comparison(Overwriting, abstract=True):
    """Write 1 where a comparison of x with y holds, else 0: a constant, so gradients are zeros.

    The table's comparisons in place record nothing; these are for tensors in the graph. A subclass says
    ``compare=``, the table's op, and is of either base below.
    """

    backward: ClassVar[int]  # PyTorch numbers the nodes of the overloads

    def __init_subclass__(cls, compare: Any = None, abstract: bool = False, **kwargs: Any) -> None:
        if abstract:
            return

        def write(x: Tensor, y: Any) -> None:
            y = y.detach() if isinstance(y, Tensor) else y
            copy_into(x._data, x._layout, compare(wrap(x._data, x._layout), y).expand(x._layout.shape))

        cls.write = write
        cls.grad_name = f"{compare.__name__.capitalize()}Backward{cls.backward}"
        cls.reference = lambda x, y: compare.operation.op.reference(x, y).astype(x.dtype)
        super().__init_subclass__(**kwargs)


class NumberComparison(Comparison, abstract=True):
    """A comparison with a number."""

    backward = 0
    samples = cases(lambda: (draw(2, 3), 0.5))


class TensorComparison(Comparison, abstract=True):
    """A comparison with a tensor, which broadcasts."""

    backward = 1
    samples = cases(lambda: (draw(2, 3), draw(3, seed=1)))

    def grad_y(y_layout):
        return zeros_of(y_layout)


class EqNumber(NumberComparison, compare=table.eq):
    """Whether ``x`` is a number."""


class EqTensor(TensorComparison, compare=table.eq):
    """Whether ``x == y``."""


class NeNumber(NumberComparison, compare=table.ne):
    """Whether ``x`` is not a number."""


class NeTensor(TensorComparison, compare=table.ne):
    """Whether ``x != y``."""


class LtNumber(NumberComparison, compare=table.lt):
    """Whether ``x`` is less than a number."""


class LtTensor(TensorComparison, compare=table.lt):
    """Whether ``x < y``."""


class LeNumber(NumberComparison, compare=table.le):
    """Whether ``x`` is a number or less."""


class LeTensor(TensorComparison, compare=table.le):
    """Whether ``x <= y``."""


class GtNumber(NumberComparison, compare=table.gt):
    """Whether ``x`` is greater than a number."""


class GtTensor(TensorComparison, compare=table.gt):
    """Whether ``x > y``."""


class GeNumber(NumberComparison, compare=table.ge):
    """Whether ``x`` is a number or greater."""


class GeTensor(TensorComparison, compare=table.ge):
    """Whether ``x >= y``."""


def _by_history(compare: Any, with_number: type[InplaceOp], with_tensor: type[InplaceOp]) -> Callable[..., Tensor]:
    """The method of a comparison in place: the table's where nothing is recorded."""
    unrecorded = compare.operation.inplace

    def in_place(self: Tensor, other: Any) -> Tensor:
        tensor = isinstance(other, Tensor)
        if not (grad_state.enabled and (self._requires_grad or (tensor and other._requires_grad))):
            return unrecorded(self, other)
        return (with_tensor if tensor else with_number).inplace(self, other)

    in_place.__name__ = in_place.__qualname__ = f"{compare.__name__}_"
    in_place.__doc__ = unrecorded.__doc__
    return in_place


for _compare, _with_number, _with_tensor in (
    (table.eq, EqNumber, EqTensor), (table.ne, NeNumber, NeTensor), (table.lt, LtNumber, LtTensor),
    (table.le, LeNumber, LeTensor), (table.gt, GtNumber, GtTensor), (table.ge, GeNumber, GeTensor),
):  # fmt: skip
    _in_place = _by_history(_compare, _with_number, _with_tensor)
    for _name in (_compare.__name__, *_compare.operation.op.aliases):
        method(_in_place, f"{_name}_")
