"""From layouts to a launch: which kernel, which results, which arguments.

Everything that depends on shapes and dtypes alone is worked out once per combination of layouts
and kept in a Plan, so that an op in steady state costs one dictionary look-up, one allocation and
one kernel call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..kernels import threads
from ..kernels.declaration import PARALLEL_SIZE, elementwise_kernel
from ..kernels.emit import Argument
from ..kernels.launch import launch
from ..kernels.rules import Rule
from ..layout import Layout, broadcast_strides, collapse, intern
from ..storage import empty_for
from ..tensor import Tensor

__all__ = ["Plan", "plan_elementwise"]


class Plan:
    """One kernel for one combination of layouts, with the layouts of its results.

    ``run(arrays, scalars, into=None)`` launches on input arrays and returns new result arrays, or
    writes into the array ``into``.
    """

    __slots__ = ("compute", "kernel", "layouts", "order", "run", "tail")

    def __init__(self, kernel: Any, inputs: int, scalars: int, layouts: tuple[Layout, ...], form: str,
                 order: str, tail: tuple[Any, ...]):  # fmt: skip
        self.kernel, self.layouts, self.order, self.tail = kernel, layouts, order, tail
        self.compute = _computer(inputs, len(layouts), scalars, form)(self)
        self.run = {"1d": self._run_1d, "flat": self._run_flat, "strided": self._run_strided}[form]

    def _results(self, into: Any) -> list[Any]:
        return [empty_for(layout) for layout in self.layouts] if into is None else [into]

    def _run_1d(self, arrays: Sequence[Any], scalars: tuple[Any, ...], into: Any = None) -> list[Any]:
        results = self._results(into)
        launch(self.kernel, *arrays, *results, *scalars)
        return results

    def _run_flat(self, arrays: Sequence[Any], scalars: tuple[Any, ...], into: Any = None) -> list[Any]:
        results, order = self._results(into), self.order
        launch(self.kernel, *[a.ravel(order) for a in arrays], *[r.ravel(order) for r in results], *scalars)
        return results

    def _run_strided(self, arrays: Sequence[Any], scalars: tuple[Any, ...], into: Any = None) -> list[Any]:
        results = self._results(into)
        launch(self.kernel, *[first_element(a) for a in (*arrays, *results)], *scalars, *self.tail)
        return results


_ARRAYS = {"1d": "{}", "flat": "{}.ravel(order)", "strided": "first_element({})"}


@functools.cache
def _computer(inputs: int, outputs: int, scalars: int, form: str) -> Callable[[Plan], Callable[..., Any]]:
    """Return a maker of ``compute(*tensors, *scalars)``, which launches and wraps the results.

    Written out as text for each count of arrays, like a namedtuple's methods: this is the library's
    hottest path, and loops over one or two items would double its cost.
    """
    names = [f"x{k}" for k in range(inputs)]
    arrays = [_ARRAYS[form].format(f"{n}._data") for n in names]
    arrays += [_ARRAYS[form].format(f"data{k}") for k in range(outputs)]
    lines = ["def make(plan):", "    kernel, layouts, order = plan.kernel, plan.layouts, plan.order"]
    if form == "strided":
        lines.append("    tail0, tail1, tail2, tail3 = plan.tail")
    for k in range(outputs):
        lines.append(f"    layout{k} = layouts[{k}]; shape{k} = layout{k}.shape; dtype{k} = layout{k}.numpy_dtype")
        lines.append(f"    plain{k} = layout{k}.contiguous and layout{k}.device == 'cpu'")
    numbers = [f"scalar{k}" for k in range(scalars)]
    lines.append(f"    def compute({', '.join([*names, *numbers])}):")
    for k in range(outputs):
        lines.append(f"        data{k} = empty(shape{k}, dtype{k}) if plain{k} else empty_for(layout{k})")
    tail = ["tail0", "tail1", "tail2", "tail3"] if form == "strided" else []
    lines.append(f"        launch(kernel, {', '.join([*arrays, *numbers, *tail])})")
    for k in range(outputs):
        lines.append(f"        out{k} = new(Tensor); out{k}._data = data{k}; out{k}._layout = layout{k}")
        lines.append(f"        out{k}._counter = [0]")
    lines += [f"        return {', '.join(f'out{k}' for k in range(outputs))}", "    return compute"]
    scope = {"launch": launch, "empty": np.empty, "empty_for": empty_for, "new": object.__new__, "Tensor": Tensor}
    scope["first_element"] = first_element
    exec("\n".join(lines), scope)
    return scope["make"]


def first_element(array: Any) -> Any:
    """A one-element contiguous view at the array's start; strided kernels index from it."""
    return array[(slice(0, 1),) * array.ndim].ravel()


def plan_elementwise(
    name: str, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], inputs: Sequence[Layout],
    dtype: np.dtype[Any], shape: tuple[int, ...], out_dtypes: Sequence[np.dtype[Any]], conjugate: bool = False,
    into: Layout | None = None,
) -> Plan:  # fmt: skip
    """Plan the kernel that evaluates ``rules`` on arrays of layouts ``inputs``.

    ``arguments`` lists the rules' operands, arrays in the order of ``inputs``; results have
    ``shape`` and ``out_dtypes``, except when they go ``into`` an existing array.
    """
    device = inputs[0].device
    strides = _preserved_strides(inputs, shape)
    outs = [into] if into else [intern(d, shape, strides, device) for d in out_dtypes]
    form, order, tail = _form([*inputs, *outs], shape, outs[0])
    kernel = elementwise_kernel(
        name, rules, arguments, [o.numpy_dtype.name for o in outs], dtype.name,
        strided=form == "strided", parallel=outs[0].numel >= PARALLEL_SIZE and threads.get_num_threads() > 1,
        conjugate=conjugate, device=str(device),
    )  # fmt: skip
    scalars = sum(a.kind == "scalar" for a in arguments)
    return Plan(kernel, len(inputs), scalars, tuple(outs), form, order, tail)


def _preserved_strides(inputs: Sequence[Layout], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Results keep a permuted memory order that all inputs share, as in PyTorch."""
    first = inputs[0].strides
    same = all(x.shape == shape and x.strides == first for x in inputs)
    return first if same and not inputs[0].contiguous and is_dense(inputs[0]) else None


def is_dense(layout: Layout) -> bool:
    """Whether the elements fill their memory without gaps or overlaps, in some order of dims."""
    expected = 1
    for stride, n in sorted(zip(layout.strides, layout.shape, strict=True)):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def _form(every: Sequence[Layout], shape: tuple[int, ...], out: Layout) -> tuple[str, str, tuple[Any, ...]]:
    same = all(x.shape == shape for x in every)
    if same and all(x.contiguous for x in every):
        return ("1d" if len(shape) == 1 else "flat"), "C", ()
    if same and all(x.strides == out.strides for x in every) and is_dense(out):
        return "flat", "K", ()
    if out.numel == 0:
        return "flat", "C", ()  # nothing to do; the loop's bound is the empty result
    sizes, steps = collapse(shape, [broadcast_strides(x, shape) for x in every])
    rows = int(np.prod(sizes[:-1], dtype=np.int64))
    tail = (np.array(sizes, np.uint64), np.array(steps, np.uint64), 0, rows)
    return "strided", "C", tail
