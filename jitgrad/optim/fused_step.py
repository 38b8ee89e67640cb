"""The step of an optimiser: one launch for all parameters of a dtype.

A step's tensors come as columns of equal length: the parameters, their gradients, then each kind of state. Which kernel
takes which of them depends on their layouts alone, so it is worked out once and kept by the tuple of layouts: a step in
steady state is one look-up and one launch.

The kernel gets the arrays as objects and reads each one's address and size from its header. Measured in us, for four
parameters of 16 elements and for 40: headers 1.9 and 10.6; an argument for each array 1.7, but compiled anew for each
model (0.15 s at four, beyond reason at 100); tuples of arrays 2.2 and 31, and 2.5 s to compile; addresses asked of
Python 22 and 210.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.inference import check_write
from jitgrad.core.layout import Layout, cache
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.launch_plan import resolved
from jitgrad.dispatch.operand_checks import check_memory
from jitgrad.kernels.launch import Kernel, Loop, launch
from jitgrad.kernels.loops.optimizer import foreach
from jitgrad.ops.shape.copy import contiguous

__all__ = ["update"]

_plans: dict[Any, _Plan] = cache()


class _Plan:
    """Which of a step's tensors each kernel takes, for tensors of certain layouts.

    ``layouts`` holds those of all columns, one column of ``count`` tensors after the other. ``kernels`` pairs a kernel
    with the positions of its arguments among them. ``plain``: all tensors are contiguous and real and of one dtype, so
    that one kernel takes their arrays as they are, in order.
    """

    def __init__(self, loop: Loop, count: int, layouts: tuple[Layout, ...]):
        columns = [layouts[k : k + count] for k in range(0, len(layouts), count)]
        rows: dict[Any, list[int]] = {}
        counted = foreach(loop, 1).counted
        for k, layout in enumerate(columns[0]):
            check_memory(layout)
            # Counters have a dtype of their own: float32, or float64 where that was the default dtype.
            counters = [c[k].numpy_dtype for c in columns[len(columns) - counted :]]
            if len(set(counters)) > 1:
                raise RuntimeError(f"optimizer step: the counters of a parameter have dtypes {counters}")
            rows.setdefault((layout.numpy_dtype, *counters), []).append(k)
            _check_state(layout, [c[k] for c in columns[1 : len(columns) - counted]])
        self.kernels: list[tuple[Kernel, list[int]]] = [
            (foreach(loop, len(ks)), [c * count + k for c in range(len(columns)) for k in ks])
            for ks in rows.values()
        ]
        self.plain = len(rows) == 1 and all(
            x.contiguous and not x.dtype.is_complex and not x.dtype.is_half for x in layouts
        )  # fmt: skip

    def run(self, tensors: list[Tensor], numbers: Sequence[Any]) -> None:
        if self.plain:
            launch(self.kernels[0][0], *[t._data for t in tensors], *numbers)
            return
        for kernel, positions in self.kernels:
            _launch_mixed(kernel, [tensors[p] for p in positions], numbers)


def _check_state(param: Layout, others: list[Layout]) -> None:
    """RuntimeError unless gradient and state are laid out as their parameter.

    The kernel takes the number of elements from the parameter and reads the other arrays' memory without looking.
    """
    for other in others:
        if other.shape != param.shape or other.numpy_dtype != param.numpy_dtype or other.device != param.device:
            raise RuntimeError(
                f"optimizer step: a parameter of shape {list(param.shape)}, {param.dtype}, {param.device} has a "
                f"gradient or state of shape {list(other.shape)}, {other.dtype}, {other.device}. They must be alike: "
                "load the state_dict that belongs to this model, or make a new optimizer"
            )


def _launch_mixed(kernel: Kernel, tensors: list[Tensor], numbers: Sequence[Any]) -> None:
    """Launch on contiguous copies of strided tensors, and on complex ones as arrays of real and imaginary parts.

    The rules of all optimisers treat both parts of a complex number as two real parameters, as PyTorch does.
    """
    # One copy for each tensor: a kernel may get a tensor twice, where a kind of state is not in use.
    copies = {id(t): resolved(contiguous(t.detach().to(t.dtype.compute))) for t in tensors}
    dense = [copies[id(t)] for t in tensors]
    arrays = [t._data.view(t.dtype.to_real().numpy) if t.dtype.is_complex and t.ndim else t._data for t in dense]
    # NumPy refuses to view an array without dims as another size of element: it gets a dim first.
    arrays = [a.reshape(1).view(a.real.dtype) if a.dtype.kind == "c" else a for a in arrays]
    launch(kernel, *arrays, *numbers)
    for k in kernel.writes:
        if dense[k]._data is not tensors[k]._data:
            copy_into(tensors[k]._data, tensors[k]._layout, dense[k])


def update(loop: Loop, columns: Sequence[list[Tensor]], *numbers: Any) -> None:
    """Run a loop of ``jitgrad.kernels.loops.optimizer`` over all parameters, in place.

    columns: parameters, gradients, and each kind of state, lists of equal length, in the order of
    the loop's arrays. numbers: its hyper-parameters. Parameters may differ in shape and dtype; a
    gradient or state unlike its parameter is a RuntimeError, and nothing is changed.
    """
    if not columns[0]:
        return
    check_write(columns[0][0])  # RuntimeError for inference tensors outside of inference mode
    tensors = [t for column in columns for t in column]
    try:
        layouts = tuple([t._layout for t in tensors])
    except AttributeError:  # state["step"] = 3
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors") from None
    plan = _plans.get((loop, layouts))
    if plan is None:
        plan = _plans[loop, layouts] = _Plan(loop, len(columns[0]), layouts)
    plan.run(tensors, numbers)
    for param in columns[0]:
        count_write(param)
