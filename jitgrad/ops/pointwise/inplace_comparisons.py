"""Comparisons in place, as part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import method
from jitgrad.ops.creation.fill import Overwriting
from jitgrad.ops.shape.slicing import zeros_of

__all__: list[str] = []


class NumberComparison(Overwriting, abstract=True):
    """A comparison with a number."""

    samples = cases(lambda: (draw(2, 3), 0.5))


class TensorComparison(Overwriting, abstract=True):
    """A comparison with a tensor, which broadcasts."""

    samples = cases(lambda: (draw(2, 3), draw(3, seed=1)))

    def grad_y(y_layout):
        return zeros_of(y_layout)


def _recorded(compare: Any, base: type[Overwriting], overload: int) -> type[Overwriting]:
    """The op that writes 1 where a comparison of x with y holds, else 0: a constant, so gradients are zeros.

    The table's comparisons in place record nothing; these are for tensors in the graph. PyTorch numbers the nodes of
    the overloads.
    """

    def write(x: Tensor, y: Any) -> None:
        y = y.detach() if isinstance(y, Tensor) else y
        copy_into(x._data, x._layout, compare(wrap(x._data, x._layout), y).expand(x._layout.shape))

    title = compare.__name__.capitalize()
    body = {
        "__doc__": compare.__doc__, "__module__": __name__, "write": write, "grad_name": f"{title}Backward{overload}",
        "reference": lambda x, y: compare.operation.op.reference(x, y).astype(x.dtype),
    }  # fmt: skip
    return type(f"{title}{base.__name__.removesuffix('Comparison')}", (base,), body)


def _by_history(compare: Any) -> Callable[..., Tensor]:
    """The method of a comparison in place: the table's where nothing is recorded."""
    unrecorded = compare.operation.inplace
    with_number, with_tensor = _recorded(compare, NumberComparison, 0), _recorded(compare, TensorComparison, 1)

    def in_place(self: Tensor, other: Any) -> Tensor:
        tensor = isinstance(other, Tensor)
        if not (grad_state.enabled and (self._requires_grad or (tensor and other._requires_grad))):
            return unrecorded(self, other)
        return (with_tensor if tensor else with_number).inplace(self, other)

    in_place.__name__ = in_place.__qualname__ = f"{compare.__name__}_"
    in_place.__doc__ = unrecorded.__doc__
    return in_place


for _compare in (table.eq, table.ne, table.lt, table.le, table.gt, table.ge):
    _in_place = _by_history(_compare)
    for _name in (_compare.__name__, *_compare.operation.op.aliases):
        method(_in_place, f"{_name}_")
