"""Schedules of learning rates."""

import warnings

import pytest

from jitgrad import optim
from jitgrad.optim import lr_scheduler

from .optimizers import leaf

SCHEDULES = {
    "StepLR": (lr_scheduler.StepLR, {"step_size": 3}),
    "MultiStepLR": (lr_scheduler.MultiStepLR, {"milestones": [2, 5, 5]}),
    "ConstantLR": (lr_scheduler.ConstantLR, {"factor": 0.5, "total_iters": 3}),
    "LinearLR": (lr_scheduler.LinearLR, {"total_iters": 4}),
    "ExponentialLR": (lr_scheduler.ExponentialLR, {"gamma": 0.9}),
    "CosineAnnealingLR": (lr_scheduler.CosineAnnealingLR, {"T_max": 4, "eta_min": 0.01}),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_step_by_step_is_the_closed_form(name):
    make, options = SCHEDULES[name]
    sgd = optim.SGD([leaf([1.0], [0.0])], lr=0.5)
    schedule = make(sgd, **options)
    for _ in range(10):
        assert sgd.param_groups[0]["lr"] == pytest.approx(schedule._get_closed_form_lr()[0])
        assert schedule.get_last_lr() == [sgd.param_groups[0]["lr"]]
        sgd.step()
        schedule.step()


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_loaded_schedule_goes_on(name):
    make, options = SCHEDULES[name]
    rates = []
    for interrupted in (False, True):
        sgd = optim.SGD([leaf([1.0], [0.0])], lr=0.5)
        schedule, seen = make(sgd, **options), []
        for k in range(8):
            if interrupted and k == 4:
                again = optim.SGD([leaf([1.0], [0.0])], lr=0.5)
                successor = make(again, **options)
                successor.load_state_dict(schedule.state_dict())
                again.load_state_dict(sgd.state_dict())
                sgd, schedule = again, successor
            sgd.step()
            schedule.step()
            seen.append(sgd.param_groups[0]["lr"])
        rates.append(seen)
    assert rates[0] == rates[1]


def test_lambda_per_group():
    sgd = optim.SGD([{"params": [leaf([1.0])]}, {"params": [leaf([1.0])], "lr": 2.0}], lr=1.0)
    schedule = lr_scheduler.LambdaLR(sgd, [lambda e: 0.5**e, lambda e: 1 / (1 + e)])
    sgd.step()
    schedule.step()
    assert schedule.get_last_lr() == [0.5, 1.0]
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        lr_scheduler.LambdaLR(sgd, [lambda e: 1.0])


def test_the_order_of_steps_is_checked():
    sgd = optim.SGD([leaf([1.0], [0.0])], lr=0.5)
    schedule = lr_scheduler.ExponentialLR(sgd, 0.9)
    with pytest.warns(UserWarning, match=r"before `optimizer\.step\(\)`"):
        schedule.step()
    schedule = lr_scheduler.ExponentialLR(sgd, 0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgd.step()
        schedule.step()
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        lr_scheduler.StepLR(3, 2)
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified"):
        lr_scheduler.StepLR(optim.SGD([leaf([1.0])]), 2, last_epoch=3)
