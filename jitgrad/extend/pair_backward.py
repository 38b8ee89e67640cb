"""The backward loop of a pair at work: what it is called with, and what it computes in.

``named`` puts gradients and saved values under the names that loop and rule use; ``run`` launches the loop.
``batched`` is the loop as an op of its own, for gradients that vmap has batched: then samples go through it one by one,
as through any op without a batch rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import fill_array
from jitgrad.dispatch.structured import Structured
from jitgrad.extend.pair_loop import PairLoop
from jitgrad.extend.pair_names import PairNames
from jitgrad.ops.shape.copy import cast_gradient

__all__ = ["PairBackward", "named", "with_parameters", "zeros_of"]


class PairBackward:
    """The backward loop of the pair with ``names``. wanted: the inputs with a gradient, in the order of its parameters.

    refuse_tangents: raises for tangents, see ``Structured``.
    """

    def __init__(self, names: PairNames, loop: PairLoop, refuse_tangents: Callable[[list[str]], None]):
        self.names, self.loop = names, loop
        self.wanted = [p.removeprefix("grad_") for p in loop.parameters if p.startswith("grad_")]
        self.read = [p for p in loop.parameters if not p.startswith("grad_")]
        self.layouts = [f"{n}_layout" for n in self.wanted]
        self.given = [*self.read, *self.layouts, "out_layout"]
        body = {
            "__doc__": f"The backward loop of {names.op}.", "name": f"{names.op}_backward",
            "multiple_results": True, "forward": with_parameters(self._results, self.given),
            "refuse_tangents": staticmethod(refuse_tangents),
        }  # fmt: skip
        self.op: Any = type("PairBackwardLoop", (Structured,), body, listed=False)

    def run(self, values: dict[str, Any]) -> dict[str, Tensor]:
        """{input: gradient} of all that the loop computes, from what ``named`` returns."""
        layouts = {n: values[layout] for n, layout in zip(self.wanted, self.layouts, strict=True)}
        read = [t._layout for t in [values[p] for p in self.read] if isinstance(t, Tensor)]
        common = _common([*read, *layouts.values()])
        device = values["out_layout"][0].device
        grads, arguments = {}, dict(values)
        for n, layout in layouts.items():  # None for a number: what its gradient is written into is dropped
            shape = () if layout is None else layout.shape
            grads[n] = arguments[f"grad_{n}"] = zeros_of(intern(common.numpy, shape, None, device))
        self.loop.launch([arguments[p] for p in self.loop.parameters], common)
        return {n: cast_gradient(grads[n], layout.dtype) for n, layout in layouts.items() if layout is not None}

    def batched(self, values: dict[str, Any]) -> dict[str, Tensor]:
        """What ``run`` returns, where some of the values are wrapped tensors."""
        tensors = [n for n in self.wanted if values[f"{n}_layout"] is not None]
        return dict(zip(tensors, self.op.apply(*[values[p] for p in self.given]), strict=True))

    def _results(self, *given: Any) -> tuple[Tensor, ...]:
        return tuple(self.run(dict(zip(self.given, given, strict=True))).values())


def named(names: PairNames, grads: Sequence[Any], saved: dict[str, Any]) -> dict[str, Any]:
    """Gradients and saved values by the names of backward and rule; outputs without a gradient have zeros."""
    filled = [zeros_of(layout) if g is None else g for g, layout in zip(grads, saved["out_layout"], strict=True)]
    values = {**saved, **dict(zip(names.gradients, filled, strict=True))}
    if "out" in saved:
        outs = saved["out"] if len(names.outputs) > 1 else [saved["out"]]
        values |= dict(zip(names.outputs, outs, strict=True))
    return values


def _common(layouts: Sequence[Layout | None]) -> dtypes.dtype:
    """The dtype in which the loop computes: that of the floats that it reads and of the inputs that it differentiates.

    By the rules of a forward op, so it is forward's where both have the same inputs.
    """
    floats = [x for x in layouts if x is not None and x.dtype.category >= 2]
    first = floats[0].dtype
    if all(x.dtype is first for x in floats):
        return first
    return dtypes.promote([x.dtype for x in floats if x.shape], [x.dtype for x in floats if not x.shape], [])


def zeros_of(layout: Layout) -> Tensor:
    """A new tensor of zeros."""
    out = wrap(empty_for(layout), layout)
    fill_array(out._data, layout, 0)
    return out


def with_parameters(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """The function with a signature of its own: a declaration's names of parameters are what its op goes by."""

    def call(*args: Any) -> Any:
        return function(*args)

    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD
    call.__signature__ = inspect.Signature([inspect.Parameter(n, kinds) for n in names])  # type: ignore[attr-defined]
    return call
