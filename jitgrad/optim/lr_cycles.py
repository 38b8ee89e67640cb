"""Schedules that go up and down, some with the momentum the other way. Their public home is ``lr_scheduler``."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from jitgrad.optim.lr_base import (
    LRScheduler,
    _enable_get_lr_call,
    _warn_get_lr_called_within_step,
    check_optimizer,
    per_group,
    set_value,
)  # fmt: skip
from jitgrad.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


class CosineAnnealingWarmRestarts(LRScheduler):
    """eta_min + (initial lr - eta_min) (1 + cos(pi t / T)) / 2, where t starts again from 0 after T epochs.

    T is ``T_0`` at first and ``T_mult`` times as long after each restart. ``step`` takes parts of epochs, too.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates of the place in the cycle."""
        _warn_get_lr_called_within_step(self)
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            # n cycles are over, which took T_0 (T_mult^n - 1) / (T_mult - 1) epochs.
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n
        self.last_epoch = math.floor(epoch)
        with _enable_get_lr_call(self):
            self._set_rates(self.get_lr())


def _start_momentum(schedule: Any, optimizer: Optimizer, base: Any, largest: Any, begin: bool) -> tuple[Any, Any]:
    """The momenta of each group, (lowest, largest); the groups begin with the largest."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    schedule.use_beta1 = "betas" in optimizer.defaults
    lows, highs = per_group("base_momentum", optimizer, base), per_group("max_momentum", optimizer, largest)
    for low, high, group in zip(lows, highs, optimizer.param_groups, strict=True) if begin else ():
        _set_momentum(schedule, group, high)
        group["max_momentum"], group["base_momentum"] = high, low
    return lows, highs


def _set_momentum(schedule: Any, group: dict[str, Any], momentum: Any) -> None:
    if schedule.use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """Rates that go from ``base_lr`` to ``max_lr`` and back, in ``step_size_up`` and ``step_size_down`` steps.

    The height of a cycle stays ("triangular"), halves each time ("triangular2"), is scaled by gamma^step
    ("exp_range"), or by ``scale_fn`` of the cycle or of the step, as ``scale_mode`` says. ``cycle_momentum`` moves the
    momentum (beta1) the other way, between ``max_momentum`` and ``base_momentum``.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
        base_momentum: Any = 0.8, max_momentum: Any = 0.9, last_epoch: int = -1,
    ):  # fmt: skip
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        for rate, group in zip(base_lrs, optimizer.param_groups, strict=True) if last_epoch == -1 else ():
            set_value(group, "lr", rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma = mode, gamma
        self._scale_fn_ref: Callable[[float], float]
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = _start_momentum(
                self, optimizer, base_momentum, max_momentum, last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        if self.mode == "exp_range":
            self._scale_fn_ref, self.scale_mode = partial(self._exp_range_scale_fn, self.gamma), "iterations"
        else:
            halved = self.mode == "triangular2"
            self._scale_fn_ref = self._triangular2_scale_fn if halved else self._triangular_scale_fn
            self.scale_mode = "cycle"

    def scale_fn(self, x: float) -> float:
        """The factor of a cycle's height, by the cycle or the step."""
        return (self._scale_fn_ref if self._scale_fn_custom is None else self._scale_fn_custom)(x)

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def get_lr(self) -> list[Any]:
        """The rates of this step. Sets the momentum."""
        _warn_get_lr_called_within_step(self)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        up = place <= self.step_ratio
        height = place / self.step_ratio if up else (place - 1) / (self.step_ratio - 1)
        scale_of = cycle if self.scale_mode == "cycle" else self.last_epoch
        rates = [
            low + (high - low) * height * self.scale_fn(scale_of)
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            limits = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, limits, strict=True):
                _set_momentum(self, group, high - (high - low) * height * self.scale_fn(scale_of))
        return rates

    def state_dict(self) -> dict[str, Any]:
        """As elsewhere; of a user's function only the attributes of a callable object are kept."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        function = state.pop("_scale_fn_custom")
        plain = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        kept = state_dict["_scale_fn_custom"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if kept is not None:
            self._scale_fn_custom.__dict__.update(kept)
        self._init_scale_fn()


class OneCycleLR(LRScheduler):
    """One rise from max_lr / div_factor to ``max_lr``, one fall to that / final_div_factor, over ``total_steps``.

    The rise takes the part ``pct_start``; ``three_phase`` falls to the initial rate first, as slowly as it rose.
    ``cycle_momentum`` moves the momentum (beta1) the other way. ``anneal_strategy`` is "cos" or "linear".
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
        final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ):  # fmt: skip
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _steps(total_steps, epochs, steps_per_epoch)
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        for rate, group in zip(max_lrs, optimizer.param_groups, strict=True) if last_epoch == -1 else ():
            group["initial_lr"] = rate / div_factor
            group["max_lr"] = rate
            group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _start_momentum(self, optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: Any, end: Any, pct: float) -> Any:
        if "_anneal_func_type" not in self.__dict__:  # of a state that an older PyTorch saved
            return self.anneal_func(start, end, pct)  # type: ignore[attr-defined]
        kind = self._anneal_func_type
        if kind not in ("cos", "linear"):
            raise ValueError(f"Unknown _anneal_func_type: {kind}")
        return (self._annealing_cos if kind == "cos" else self._annealing_linear)(start, end, pct)

    @staticmethod
    def _annealing_cos(start: Any, end: Any, pct: float) -> Any:
        return end + (start - end) / 2.0 * (math.cos(math.pi * pct) + 1)

    @staticmethod
    def _annealing_linear(start: Any, end: Any, pct: float) -> Any:
        return (end - start) * pct + start

    def get_lr(self) -> list[Any]:
        """The rates of this step. Sets the momentum. ValueError after the last step."""
        _warn_get_lr_called_within_step(self)
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        phases, begin, k = self._schedule_phases, 0.0, 0
        while step > phases[k]["end_step"] and k < len(phases) - 1:
            begin = phases[k]["end_step"]
            k += 1
        phase = phases[k]
        part = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(self, group, self._anneal_func(*ends, part))
        return rates


def _steps(total_steps: Any, epochs: Any, steps_per_epoch: Any) -> int:
    """How many steps there are in all. ValueError unless it is said in one of two ways."""
    if total_steps is not None:
        given = {"total_steps": total_steps}
    elif epochs is not None and steps_per_epoch is not None:
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    else:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in given.items():
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(given.values())


def _phases(total: int, part: float, three: bool) -> list[dict[str, Any]]:
    """Each phase's last step, and the options of the groups between which rate and momentum go."""
    names = ["end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"]
    rise = (float(part * total) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    fall = (total - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")
    if three:
        back = (float(2 * part * total) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
        rows = [rise, back, (total - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
    else:
        rows = [rise, fall]
    return [dict(zip(names, row, strict=True)) for row in rows]
