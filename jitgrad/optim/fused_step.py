"""Steps of optimisers: one launch for all parameters of a dtype.

Parameters, gradients and state come as columns of equal length. What their layouts decide is worked
out once; a step in steady state is then one look-up and one launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.inference import check_write
from jitgrad.core.layout import Layout, cache
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.copying import copy_into
from jitgrad.kernels.launch import Kernel, launch
from jitgrad.kernels.loops import optimizer as loops
from jitgrad.ops.shape.copy import contiguous

__all__ = ["update"]

_plans: dict[Any, _Plan] = cache()


class _Plan:
    """How tensors of certain layouts go to the kernels: for each dtype, which of them."""

    def __init__(self, name: str, count: int, layouts: tuple[Layout, ...]):
        columns = [layouts[k : k + count] for k in range(0, len(layouts), count)]
        rows: dict[Any, list[int]] = {}
        for k, layout in enumerate(columns[0]):
            counter = columns[-1][k].numpy_dtype if name not in _UNCOUNTED else None
            rows.setdefault((layout.numpy_dtype, counter), []).append(k)
            _check_state(layout, [c[k] for c in columns[1 : None if counter is None else -1]])
        self.kernels: list[tuple[Kernel, list[int]]] = [
            (loops.foreach(getattr(loops, name), len(ks)), [c * count + k for c in range(len(columns)) for k in ks])
            for ks in rows.values()
        ]
        self.plain = len(rows) == 1 and all(x.contiguous and not x.dtype.is_complex for x in layouts)

    def run(self, tensors: list[Tensor], numbers: Sequence[Any]) -> None:
        if self.plain:
            launch(self.kernels[0][0], *[t._data for t in tensors], *numbers)
            return
        for kernel, positions in self.kernels:
            _launch_mixed(kernel, [tensors[p] for p in positions], numbers)


_UNCOUNTED = {"sgd", "sgd_momentum"}  # loops without a step counter as their last array


def _check_state(param: Layout, others: list[Layout]) -> None:
    """The kernel reads raw memory: every array must be as large as the parameter says."""
    for other in others:
        if other.shape != param.shape or other.numpy_dtype != param.numpy_dtype or other.device != param.device:
            raise RuntimeError(
                f"optimizer step: a parameter of shape {list(param.shape)}, {param.dtype}, {param.device} has a "
                f"gradient or state of shape {list(other.shape)}, {other.dtype}, {other.device}. They must be alike: "
                "load the state_dict that belongs to this model, or make a new optimizer"
            )


def _launch_mixed(kernel: Kernel, tensors: list[Tensor], numbers: Sequence[Any]) -> None:
    """Launch on row-major copies where a tensor is strided, on pairs of reals where it is complex."""
    copies = {id(t): contiguous(t.detach()) for t in tensors}  # one for each, however often it is named
    dense = [copies[id(t)] for t in tensors]
    arrays = [t._data.view(t.dtype.to_real().numpy) if t.dtype.is_complex and t.ndim else t._data for t in dense]
    arrays = [a.reshape(1).view(a.real.dtype) if a.dtype.kind == "c" else a for a in arrays]
    launch(kernel, *arrays, *numbers)
    for k in kernel.writes:
        if not tensors[k]._layout.contiguous:
            copy_into(tensors[k]._data, tensors[k]._layout, dense[k])


def update(name: str, columns: Sequence[list[Tensor]], *numbers: Any) -> None:
    """Run the loop ``name`` of `jitgrad.kernels.optimizer` over all parameters, in place.

    columns: parameters, gradients, and each kind of state, lists of equal length, in the order of
    the loop's arrays. numbers: its hyper-parameters. Parameters may differ in shape and dtype; a
    gradient or state unlike its parameter is a RuntimeError, and nothing is changed.
    """
    if not columns[0]:
        return
    check_write(columns[0][0])
    tensors = [t for column in columns for t in column]
    layouts = tuple([t._layout for t in tensors])
    plan = _plans.get((name, layouts))
    if plan is None:
        plan = _plans[name, layouts] = _Plan(name, len(columns[0]), layouts)
    plan.run(tensors, numbers)
    for param in columns[0]:
        count_write(param)
