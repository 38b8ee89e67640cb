"""What the parameters of a pair's loops mean, by their names, and the errors of declarations that name something else.

A forward loop's ``out...`` are outputs and its other parameters inputs. Backward and rule name the gradients of outputs
(``g``, or ``g_NAME`` for each of several), inputs and outputs; backward writes into ``grad_INPUT``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["PairNames"]


class PairNames:
    """The names of the pair ``op``.

    outputs, inputs: parameters of its forward loop. gradients: what backward and rule call the outputs' gradients.
    nondifferentiable: the inputs that are constants.
    """

    def __init__(self, op: str, parameters: Sequence[str], nondifferentiable: Sequence[str]):
        self.op = op
        self.outputs = [p for p in parameters if p.startswith("out")]
        self.inputs = [p for p in parameters if not p.startswith("out")]
        self.gradients = ["g"] if len(self.outputs) == 1 else [f"g_{o.removeprefix('out_')}" for o in self.outputs]
        if isinstance(nondifferentiable, str):
            raise TypeError(f"{op}: nondifferentiable takes a tuple of names; write ({nondifferentiable!r},)")
        self.nondifferentiable = tuple(nondifferentiable)
        self._check()

    def _check(self) -> None:
        op = self.op
        if not self.outputs:
            raise TypeError(f"{op}: no output parameter; name what the loop writes 'out' or 'out_...'")
        for n in self.inputs:
            if n.startswith("grad_"):
                raise TypeError(f"{op}: the input {n!r} has a name that means a gradient; give it another one")
        for n in self.nondifferentiable:
            if n not in self.inputs:
                raise TypeError(f"{op}: nondifferentiable names {n!r}, but the inputs are {self.inputs}")

    def check_backward(self, parameters: Sequence[str]) -> None:
        """TypeError for a backward loop with a parameter that means nothing, or without anything to write."""
        self._check_known("backward", parameters, [f"grad_{n}" for n in self.inputs])
        for p in parameters:
            if p.removeprefix("grad_") in self.nondifferentiable and p.startswith("grad_"):
                raise TypeError(f"{self.op}: backward has {p!r}, but nondifferentiable names its input")
        if not any(p.startswith("grad_") for p in parameters):
            first = self.inputs[0] if self.inputs else "x"
            raise TypeError(f"{self.op}: backward has no output; name what it writes, such as grad_{first}")

    def check_rule(self, rule: Callable[..., Any]) -> list[str]:
        """The parameters of a rule; TypeError if one means nothing."""
        parameters = list(inspect.signature(rule).parameters)
        for p in parameters:
            if p.startswith("grad_"):
                raise TypeError(f"{self.op}: rule has the parameter {p!r}; a rule returns the gradients instead")
        self._check_known("rule", parameters, [])
        return parameters

    def _check_known(self, what: str, parameters: Sequence[str], results: Sequence[str]) -> None:
        known = {*self.gradients, *self.inputs, *self.outputs, *results}
        for p in parameters:
            if p not in known:
                raise TypeError(f"{self.op}: {what}'s parameter {p!r} is unknown; it may name {sorted(known)}")
            if p in self.gradients and p in self.inputs:
                raise TypeError(f"{self.op}: {p!r} is an input and an output's gradient; give the input another name")
