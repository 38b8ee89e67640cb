"""Schedules against PyTorch: rates, and state as it is saved."""

import pytest
import torch

import jitgrad
from tests.peer.optim.both import parameters, plain, same

SCHEDULES = [
    ("StepLR", {"step_size": 3, "gamma": 0.3}),
    ("MultiStepLR", {"milestones": [2, 5, 5]}),
    ("ConstantLR", {}),
    ("LinearLR", {"start_factor": 0.2, "total_iters": 4}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 0.95}),
    ("PolynomialLR", {"total_iters": 6, "power": 2.0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.01}),
    ("OneCycleLR", {"max_lr": [1.0, 2.0], "total_steps": 20}),
    ("OneCycleLR", {"max_lr": 1, "epochs": 4, "steps_per_epoch": 5, "three_phase": True, "anneal_strategy": "linear"}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.6, "step_size_up": 3, "step_size_down": 2, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": [0.1, 0.2], "max_lr": 0.6, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.6, "step_size_up": 3, "scale_fn": lambda x: 1 / (x + 1)}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.95**epoch}),
]


@pytest.mark.parametrize("tensor_rates", [False, True])
@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_rates(name, options, tensor_rates):
    seen = []
    for lib in (jitgrad, torch):
        params = parameters(lib, "float32")
        rate = (lambda value, lib=lib: lib.tensor(value)) if tensor_rates else float
        groups = [{"params": params[:1], "lr": rate(0.7)}, {"params": params[1:]}]
        adam = lib.optim.Adam(groups, lr=rate(0.5))
        schedule = getattr(lib.optim.lr_scheduler, name)(adam, **options)
        rates = [schedule.get_last_lr()]
        for _ in range(14):
            adam.step()
            schedule.step()
            rates.append([*map(float, schedule.get_last_lr()), [g["betas"][0] for g in adam.param_groups]])
        seen.append((rates, plain(schedule.state_dict())))
    same(seen[0], seen[1])


def warm_up(lib, optimizer):
    kinds = lib.optim.lr_scheduler
    first, second = kinds.LinearLR(optimizer, total_iters=3), kinds.CosineAnnealingLR(optimizer, 5)
    return kinds.SequentialLR(optimizer, [first, second], milestones=[4])


def chained(lib, optimizer):
    kinds = lib.optim.lr_scheduler
    return kinds.ChainedScheduler([kinds.StepLR(optimizer, 2), kinds.ExponentialLR(optimizer, 0.9)])


def annealed(lib, optimizer):
    return lib.optim.swa_utils.SWALR(optimizer, swa_lr=[0.05, 0.01], anneal_epochs=4)


def by_epochs(lib, optimizer):
    return lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3, 2)


@pytest.mark.parametrize("make_schedule", [warm_up, chained, annealed, by_epochs])
def test_schedules_that_are_combined(make_schedule):
    seen = []
    for lib in (jitgrad, torch):
        params = parameters(lib, "float32")
        sgd = lib.optim.SGD([{"params": params[:1], "lr": 0.7}, {"params": params[1:]}], lr=0.5)
        schedule = make_schedule(lib, sgd)
        rates = [schedule.get_last_lr()]
        for k in range(12):
            sgd.step()
            schedule.step(*[k * 0.7] * (make_schedule is by_epochs))
            rates.append(schedule.get_last_lr())
        seen.append((rates, plain(schedule.state_dict())))
    same(seen[0], seen[1])


@pytest.mark.parametrize(
    "options", [{}, {"mode": "max", "threshold_mode": "abs", "threshold": 0.5}, {"cooldown": 2, "min_lr": [0.2, 0.01]}]
)
def test_plateaus(options):
    seen = []
    for lib in (jitgrad, torch):
        params = parameters(lib, "float32")
        sgd = lib.optim.SGD([{"params": params[:1], "lr": 0.7}, {"params": params[1:]}], lr=0.5)
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(sgd, patience=2, factor=0.3, **options)
        rates = []
        for metric in (3, 2, 2.5, 2.4, 2.3, 2.2, 1, 1, 1, 1, 1, 1, 2, 4, 4.2, 4.1):
            schedule.step(lib.tensor(metric))
            rates.append(schedule.get_last_lr())
        seen.append((rates, plain(schedule.state_dict())))
    same(seen[0], seen[1])
