"""Schedules made of schedules, and the one that looks at a metric. Their public home is ``lr_scheduler``."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Sequence
from math import inf
from typing import Any

from jitgrad.optim.lr_base import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    check_optimizer,
    group_values,
    set_value,
)  # fmt: skip
from jitgrad.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "ReduceLROnPlateau", "SequentialLR"]


class _OfSchedules(LRScheduler):
    """Schedules of one optimiser; their states are saved in a list."""

    _schedulers: Sequence[Any]

    def _check_schedules(self, optimizer: Any, schedulers: Sequence[Any]) -> None:
        name = type(self).__name__
        for k, schedule in enumerate(schedulers):
            if not hasattr(schedule, "optimizer"):
                raise TypeError(f"{name} at index {k} should have `optimizer` as its attribute.")
            if isinstance(schedule, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {k} in the given schedulers sequence."
                )
            if optimizer != schedule.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(schedule).__name__} at index {k} has {schedule.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser; of the schedules their own states."""
        state = {k: v for k, v in super().state_dict().items() if k != "_schedulers"}
        return {**state, "_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for schedule, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(state)


class SequentialLR(_OfSchedules):
    """One schedule after the other: the next one begins, at its own epoch 0, at each epoch of ``milestones``."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ):
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check_schedules(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule made its first step when it was made: all are taken back but that of the one that is first.
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step of a schedule, by default this one: of all that it is made of."""
        schedule = self if sched is None else sched
        if hasattr(schedule, "_schedulers"):
            for part in schedule._schedulers:
                self.recursive_undo(part)
        elif hasattr(schedule, "last_epoch"):
            schedule.last_epoch -= 1

    def step(self) -> None:
        """Set the next rates, by the schedule whose turn it is."""
        self.last_epoch += 1
        k = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[k]
        if k > 0 and self._milestones[k - 1] == self.last_epoch:
            schedule._update_lr(0)
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()


class ChainedScheduler(_OfSchedules):
    """Several schedules at once, each from the rates that the one before it set."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check_schedules(optimizer, schedulers)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = self._rates()

    def step(self) -> None:
        """Set the next rates."""
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = self._rates()


class ReduceLROnPlateau(LRScheduler):
    """lr * factor when a metric has not become better for more than ``patience`` steps.

    Better is below (``mode`` "min") or above ("max") the best so far, by a part of it (``threshold_mode`` "rel") or by
    a number ("abs"), ``threshold``. After that ``cooldown`` steps don't count; no rate falls below ``min_lr``, one or
    one for each group, and changes below ``eps`` are not made.
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ):  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        self.default_min_lr = None
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = self._rates()
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Look at the metric, a number or a tensor of one element, and reduce the rates if it is time."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = group_values(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, smallest in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, smallest)
            if before - after > self.eps:
                set_value(group, "lr", after)

    @property
    def in_cooldown(self) -> bool:
        """Whether bad steps don't count now."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a metric is better than the best so far."""
        return self._is_better(a, best)

    def _is_better(self, a: float, best: float) -> bool:
        if self.threshold_mode == "rel":
            return a < best * (1.0 - self.threshold) if self.mode == "min" else a > best * (self.threshold + 1.0)
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = inf if mode == "min" else -inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
