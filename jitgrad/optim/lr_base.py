"""What schedules of learning rates share; their public home is ``lr_scheduler``."""

from __future__ import annotations

import warnings
import weakref
from functools import wraps
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.optim.optimizer import Optimizer

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "LRScheduler",
    "check_optimizer",
    "group_values",
    "per_group",
    "set_value",
]  # fmt: skip

_HOW_TO = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
    "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result in "
    f"PyTorch skipping the first value of the learning rate schedule. See more details at {_HOW_TO}"
)
_OVERRIDDEN = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make sure "
    f"to call `optimizer.step()` before `lr_scheduler.step()`. See more details at {_HOW_TO}"
)
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """What each group has under a key, tensors as copies."""
    values = [group[key] for group in optimizer.param_groups]
    return [v.clone() if isinstance(v, Tensor) else v for v in values]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; one that is a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.reshape(()) if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group: a list's own, or one for all. ValueError for a list of another length."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * groups
    elif len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {groups}."
        )
    return [v.clone() if isinstance(v, Tensor) else v for v in value]


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """Base of schedules: a subclass gives ``get_lr``, the rates after ``last_epoch`` steps.

    A new schedule starts at once, from the optimiser's rates, which become "initial_lr" of their
    groups. ``last_epoch`` other than -1 resumes, and wants "initial_lr" there.
    """

    _get_lr_called_within_step = False  # by others ``get_lr`` is not to be called
    _is_initial = False  # while __init__ sets the first rates, which for most schedules are the optimiser's

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                rate = group["lr"]
                group.setdefault("initial_lr", rate.clone() if isinstance(rate, Tensor) else rate)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{k}] when resuming scheduler with "
                    "last_epoch >= 0.\nThis typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly loaded the optimizer "
                    "state\n2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with _initial_mode(self):
            self.step()

    def get_lr(self) -> list[Any]:
        """The rate of each group now, from the rate before."""
        raise NotImplementedError

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step set."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Set the next rates; call it after ``optimizer.step()``."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(_OVERRIDDEN, UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(_ORDER, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with _enable_get_lr_call(self):
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            # Rates follow from the ones before, so that changes that others made to them last. A schedule that is sent
            # to an epoch computes them from the initial rates instead, where it has a formula.
            closed = getattr(self, "_get_closed_form_lr", self.get_lr)
            rates = self.get_lr() if epoch is None else closed()
        self._set_rates(rates)

    def _set_rates(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        return group_values(self.optimizer, "lr")

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """PyTorch's older name of the base class."""


def _note_steps(optimizer: Any) -> None:
    """Let a ``step`` that a program put in the place of its class's note that it was called, as that one does."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function, known = optimizer.step.__func__, weakref.ref(optimizer)

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        owner: Any = known()
        owner._opt_called = True
        return function.__get__(owner, type(owner))(*args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step


class _enable_get_lr_call:
    """A context in which ``get_lr`` is called by the schedule itself."""

    def __init__(self, o: LRScheduler):
        self.o = o

    def __enter__(self) -> Any:
        self.o._get_lr_called_within_step = True
        return self

    def __exit__(self, *error: Any) -> None:
        self.o._get_lr_called_within_step = False


class _initial_mode:
    """A context in which a schedule sets its first rates."""

    def __init__(self, o: LRScheduler):
        self.o = o

    def __enter__(self) -> None:
        self.o._is_initial = True

    def __exit__(self, *error: Any) -> None:
        self.o._is_initial = False


def _warn_get_lr_called_within_step(lr_scheduler: LRScheduler) -> None:
    if not lr_scheduler._get_lr_called_within_step:
        warnings.warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning,
            stacklevel=3,
        )  # fmt: skip
