"""Averages of a model's weights over its training, and the schedule that goes with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.optim.lr_base import LRScheduler, _warn_get_lr_called_within_step, per_group
from jitgrad.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip

explain_missing_names(__name__)

Tensors = Sequence[Tensor]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function for ``AveragedModel``: decay * average + (1 - decay) * parameter."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """A function for ``AveragedModel``: the mean of all, average + (parameter - average) / (n + 1)."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Tensors, Tensors, Any], None]:
    """``get_ema_avg_fn`` for all parameters of a dtype at once, in place."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Tensors, current_param_list: Tensors, num_averaged: Any) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, 1 - decay)
            else:
                average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[[Tensors, Tensors, Any], None]:
    """``get_swa_avg_fn`` for all parameters of a dtype at once, in place."""

    @no_grad()
    def swa_update(averaged_param_list: Tensors, current_param_list: Tensors, num_averaged: Any) -> None:
        weight = 1 / (num_averaged + 1)
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            if average.is_floating_point() or average.is_complex():
                average.lerp_(current, weight.to(average.dtype) if isinstance(weight, Tensor) else weight)
            else:
                average.add_((current - average) * weight)

    return swa_update


class AveragedModel(jitgrad.nn.Module):
    """A copy of a model whose parameters are averages of the model's, at each ``update_parameters``.

    By default their mean; ``avg_fn(average, parameter, count)`` returns another average, ``multi_avg_fn`` makes those
    of lists of parameters in place. Buffers are averaged with ``use_buffers``, and else taken over.
    """

    n_averaged: Tensor

    def __init__(
        self, model: Any, device: Any = None, avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None,
        multi_avg_fn: Callable[[Tensors, Tensors, Any], None] | None = None, use_buffers: bool = False,
    ):  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", jitgrad.tensor(0, dtype=jitgrad.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model returns."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Take the parameters of ``model`` into the averages; the first time they become those."""
        pairs = [
            (average.detach(), value.detach().to(average.device))
            for average, value in zip(self._averaged(self), self._averaged(model), strict=False)
        ]
        if self.n_averaged == 0:
            for average, value in pairs:
                average.copy_(value)
        elif self.multi_avg_fn is not None:
            self._update_lists(pairs, self.multi_avg_fn)
        else:
            mean = self.avg_fn or get_swa_avg_fn()
            for average, value in pairs:
                average.copy_(mean(average, value, self.n_averaged.to(average.device)))
        if not self.use_buffers:
            for kept, current in zip(self.module.buffers(), model.buffers(), strict=True):
                kept.detach().copy_(current.detach().to(kept.device))
        self.n_averaged += 1

    def _averaged(self, model: Any) -> Iterable[Tensor]:
        """What is averaged of this model or of the other one."""
        if not self.use_buffers:
            return model.parameters()
        model = self.module if model is self else model
        return itertools.chain(model.parameters(), model.buffers())

    def _update_lists(
        self, pairs: list[tuple[Tensor, Tensor]], update: Callable[[Tensors, Tensors, Any], None]
    ) -> None:
        """Call the function on lists, those of each device and dtype."""
        alike: dict[Any, list[tuple[Tensor, Tensor]]] = {}
        for pair in pairs:
            alike.setdefault((pair[0].device, pair[0].dtype), []).append(pair)
        for (device, _), chosen in alike.items():
            averages, values = zip(*chosen, strict=True)
            update(list(averages), list(values), self.n_averaged.to(device))


@no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Compute the running statistics of a model's batch norms anew, over the batches of ``loader``.

    A batch may be a list or tuple, the first of which is the input.
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, jitgrad.nn.modules.batchnorm._BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # the mean over all batches, each as much as the others
    for batch in loader:
        batch = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals each group's rate to ``swa_lr`` within ``anneal_epochs`` epochs, by a cosine or linearly."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ):  # fmt: skip
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    @staticmethod
    def _get_initial_lr(lr: Any, swa_lr: Any, alpha: float) -> Any:
        """The rate from which the one now came, ``alpha`` of the way to ``swa_lr``."""
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy
        self.anneal_func = self._cosine_anneal if anneal_strategy == "cos" else self._linear_anneal

    def _part(self, step: int) -> float:
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """The rates before, moved on."""
        _warn_get_lr_called_within_step(self)
        step = max(1, self._step_count - 1) if self.anneal_epochs == 0 else self._step_count - 1
        before, now = self._part(step - 1), self._part(step)
        return [
            group["swa_lr"] * now + self._get_initial_lr(group["lr"], group["swa_lr"], before) * (1 - now)
            for group in self.optimizer.param_groups
        ]

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser and the function."""
        return {k: v for k, v in super().state_dict().items() if k != "anneal_func"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        self.__dict__.update(state_dict)
        self._set_anneal_func(self._anneal_strategy)
