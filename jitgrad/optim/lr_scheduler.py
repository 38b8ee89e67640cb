"""Schedules of learning rates: each ``step`` sets the "lr" of every parameter group.

``lr_base.py`` has what they share, ``lr_cycles.py`` and ``lr_combined.py`` have more of them.
"""

from __future__ import annotations

import math
import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from jitgrad.core.lazy_import import offer, set_lazy_attributes
from jitgrad.optim.lr_base import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    _enable_get_lr_call,
    _initial_mode,
    _LRScheduler,
    _warn_get_lr_called_within_step,
)
from jitgrad.optim.optimizer import Optimizer

if TYPE_CHECKING:  # what is imported at its first use
    from jitgrad.optim.lr_combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
    from jitgrad.optim.lr_cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR

__all__ = [
    "EPOCH_DEPRECATION_WARNING", "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR", "_LRScheduler", "_enable_get_lr_call",
    "_initial_mode",
]  # fmt: skip

_LATER = {
    **dict.fromkeys(("ChainedScheduler", "ReduceLROnPlateau", "SequentialLR"), "jitgrad.optim.lr_combined"),
    **dict.fromkeys(("CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"), "jitgrad.optim.lr_cycles"),
}
set_lazy_attributes(__name__, _LATER)
offer(__name__, LRScheduler, _LRScheduler)

class _ByFunctions(LRScheduler):
    """Schedules of a user's function, or one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        several = isinstance(lr_lambda, (list, tuple))
        if several and len(lr_lambda) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
        self.lr_lambdas: list[Callable[[int], float]] = list(lr_lambda) if several else [lr_lambda] * groups
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        """As elsewhere; of the functions only the attributes of callable objects are kept."""
        state = {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}
        plain = [isinstance(f, types.FunctionType) for f in self.lr_lambdas]
        state["lr_lambdas"] = [None if p else dict(f.__dict__) for p, f in zip(plain, self.lr_lambdas, strict=True)]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned; plain functions stay as they are."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if kept is not None:
                function.__dict__.update(kept)


class LambdaLR(_ByFunctions):
    """initial lr * lr_lambda(epoch); one function, or one for each group."""

    def get_lr(self) -> list[Any]:
        """The initial rates, scaled."""
        _warn_get_lr_called_within_step(self)
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_ByFunctions):
    """lr * lr_lambda(epoch) at each epoch; one function, or one for each group. TypeError for what can't be called."""

    def _check_functions(self) -> None:
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")

    def get_lr(self) -> list[Any]:
        """The rates before, scaled."""
        _warn_get_lr_called_within_step(self)
        if self._is_initial:
            return self._rates()
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return [rate * f(self.last_epoch) for rate, f in zip(rates, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """lr * gamma every ``step_size`` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates before, scaled at each multiple of ``step_size``."""
        _warn_get_lr_called_within_step(self)
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [rate * self.gamma if due else rate for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """lr * gamma at each epoch that ``milestones`` lists."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates before, scaled at a milestone."""
        _warn_get_lr_called_within_step(self)
        times = self.milestones.get(self.last_epoch, 0)
        return [rate * self.gamma**times if times else rate for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """lr * factor until epoch ``total_iters``, then lr."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1):
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates before, times ``factor`` at epoch 0 and divided by it at ``total_iters``."""
        _warn_get_lr_called_within_step(self)
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in rates]
        return [rate * (1.0 / self.factor) for rate in rates] if self.last_epoch == self.total_iters else rates

    def _get_closed_form_lr(self) -> list[Any]:
        early = self.last_epoch < self.total_iters
        return [base * (self.factor if early else 1) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """lr times a factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
        last_epoch: int = -1,
    ):  # fmt: skip
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates before times the ratio of this epoch's factor to the last one's."""
        _warn_get_lr_called_within_step(self)
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        # The factor at epoch t is start + (end - start) t / total; both factors of the ratio are multiplied by total.
        width = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * width
        return [rate * (1.0 + width / before) for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * part) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """lr * gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates before, scaled."""
        _warn_get_lr_called_within_step(self)
        return self._rates() if self._is_initial else [rate * self.gamma for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """initial lr * (1 - epoch / total_iters) ** power, 0 from ``total_iters`` on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates before times the ratio of this epoch's factor to the last one's."""
        _warn_get_lr_called_within_step(self)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left, before = [1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1)]
        return [rate * (left / before) ** self.power for rate in self._rates()]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (initial lr - eta_min) (1 + cos(pi epoch / T_max)) / 2."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates before, their distance from ``eta_min`` scaled by the ratio of the curve's heights."""
        _warn_get_lr_called_within_step(self)
        epoch, low = self.last_epoch, self.eta_min
        if self._is_initial:
            return self._rates()
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        # At the bottom of the curve, epoch T_max, the height is 0, and no ratio leads from there to the next one.
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - low) * rise for rate, base in zip(self._rates(), self.base_lrs, strict=True)]
        ratio = self._height(epoch) / self._height(epoch - 1)
        return [ratio * (rate - low) + low for rate in self._rates()]

    def _height(self, epoch: int) -> float:
        """How far an epoch's rate is above ``eta_min``, in halves of the initial distance."""
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def _get_closed_form_lr(self) -> list[Any]:
        return [self.eta_min + (base - self.eta_min) * self._height(self.last_epoch) / 2 for base in self.base_lrs]
