"""What optimisers share whose step treats every element of a parameter alike: a loop, and one launch of it.

A class names its loop, its kinds of state and its hyper-parameters, all in the order of the loop's parameters; the rest
is here. ``differentiable`` ones run the same loop on whole tensors (``differentiable_step.py``).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.compile_ahead import begun
from jitgrad.kernels.launch import Loop
from jitgrad.kernels.loops.optimizer import ask_for_step
from jitgrad.optim.fused_step import update
from jitgrad.optim.kept_state import new_counter
from jitgrad.optim.optimizer import Group, Optimizer
from jitgrad.optim.options import as_number

__all__ = ["ElementwiseOptimizer"]

_FUSED_DEVICES = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]  # PyTorch's, for its words


class ElementwiseOptimizer(Optimizer):
    """An optimiser of which a subclass says what loop it runs, on what state, with which numbers."""

    _loop: ClassVar[Loop]
    _averages: tuple[str, ...] = ()  # kinds of state that are like the parameter, zeros at first
    _counts_in_tensors: tuple[str, ...] = ("step",)
    _sparse_advice = ""
    _captured = "params and state_steps"  # what PyTorch names when it refuses ``capturable``
    _captured_on: tuple[str, ...] = ("cuda", "xpu", "hpu", "privateuseone", "xla")

    def _loop_of(self, group: Group) -> Loop:
        """The loop of a group's step."""
        return self._loop

    def _numbers(self, group: Group) -> tuple[Any, ...]:
        """The hyper-parameters of a group, in the order of the loop's."""
        raise NotImplementedError

    def _new_state(self, param: Tensor, state: dict[str, Any], group: Group) -> None:
        """Fill the state of a parameter that has none."""
        self._check_fused_param(param, group)
        state["step"] = new_counter(0.0, group.get("fused"))
        for name in self._averages:
            state[name] = jitgrad.zeros_like(param, requires_grad=False)

    def _check_fused_param(self, param: Tensor, group: Group) -> None:
        if group.get("fused") and not (param.is_floating_point() and param.device.type in _FUSED_DEVICES):
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                f"{_FUSED_DEVICES} but {param.dtype} and {param.device.type}"
            )

    def _names(self, group: Group) -> tuple[str, ...]:
        """The kinds of state in the order of the loop's arrays."""
        return (*self._averages, *self._counts_in_tensors)

    def _moved(self, group: Group) -> list[Tensor]:
        """The parameters of a group that have a gradient. RuntimeError for sparse ones."""
        params = [p for p in group["params"] if p._grad is not None]
        if True in [p._grad.is_sparse for p in params]:
            raise RuntimeError(f"{self._kind()} does not support sparse gradients{self._sparse_advice}")
        return params

    def _kind(self) -> str:
        """The name of PyTorch's class that this is, or that a user's class derives from."""
        return next(c.__name__ for c in type(self).__mro__ if "_loop" in c.__dict__)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters under "params", with options of their own; see `Optimizer.add_param_group`."""
        super().add_param_group(param_group)
        if begun() and not param_group.get("differentiable"):
            with suppress(Exception):  # whatever is wrong with an option is told by the step
                numbers = _plain(self._numbers(param_group))
                ask_for_step(self._loop_of(param_group), param_group["params"][0].dtype.numpy, numbers)

    def _update(self, group: Group) -> None:
        params = self._moved(group)
        states = [self.state[p] for p in params]
        for param, state in zip(params, states, strict=True):
            if not state:
                self._new_state(param, state, group)
        columns = [[s[name] for s in states] for name in self._names(group)]
        self._launch(group, self._loop_of(group), [params, [p._grad for p in params], *columns], self._numbers(group))

    def _launch(self, group: Group, loop: Loop, columns: list[list[Any]], numbers: tuple[Any, ...]) -> None:
        """One step of a loop on all parameters."""
        if group["differentiable"]:
            from jitgrad.optim.differentiable_step import update_recorded

            update_recorded(loop, columns, numbers)
            return
        if group.get("capturable") and columns[0]:
            raise AssertionError(
                f"If capturable=True, {self._captured} must be on supported devices: {list(self._captured_on)}."
            )
        update(loop, columns, *_plain(numbers))


def _plain(numbers: tuple[Any, ...]) -> list[Any]:
    """Hyper-parameters as loops get them: flags stay what they are; all else is a number."""
    return [n if n is True or n is False else as_number(n) for n in numbers]
