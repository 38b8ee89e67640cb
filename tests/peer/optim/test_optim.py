"""Optimisers and schedules against PyTorch: parameters after many steps, state, reprs, errors."""

import numpy as np
import pytest
import torch

import jitgrad

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True, "betas": (0.8, 0.99), "eps": 1e-6}),
    ("Adam", {"maximize": True}),
    ("AdamW", {"weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("RMSprop", {"centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.5, "maximize": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Adagrad", {"weight_decay": 0.1, "maximize": True}),
]
SHAPES = [(16, 5), (16,), (3, 16), (), (2, 1, 3)]
TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


def parameters(lib, dtype):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(s).astype(dtype) for s in SHAPES]
    return [lib.tensor(np.asarray(v), requires_grad=True) for v in values]


def make(lib, name, params, **options):
    return getattr(lib.optim, name)(params, **options)


def descend(optimizer, params, lib, steps=100, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        for p in params:
            p.grad = lib.tensor(np.asarray(rng.standard_normal(p.shape).astype(p.detach().numpy().dtype)))
        optimizer.step()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("name", "options"), CASES)
def test_hundred_steps(name, options, dtype):
    results, states = [], []
    for lib in (jitgrad, torch):
        params = parameters(lib, dtype)
        optimizer = make(lib, name, params, **options)
        descend(optimizer, params, lib)
        results.append(params)
        states.append(optimizer.state_dict())
    for ours, theirs in zip(*results, strict=True):
        expected = theirs.detach().numpy()
        scale = np.abs(expected).max()
        assert np.abs(ours.detach().numpy() - expected).max() <= TOLERANCE[dtype] * scale
    compare_states(*states)


def compare_states(ours, theirs):
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for key, state in theirs["state"].items():
        assert list(ours["state"][key]) == list(state)
        for name, value in state.items():
            mine = ours["state"][key][name]
            if value is None:
                assert mine is None
                continue
            assert str(mine.dtype) == str(value.dtype) and mine.shape == tuple(value.shape)
            assert mine.numpy() == pytest.approx(value.numpy(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_torch_state_is_taken_over(name, options):
    theirs = parameters(torch, "float32")
    source = make(torch, name, theirs, **options)
    descend(source, theirs, torch, steps=5)
    ours = [jitgrad.tensor(p.detach().numpy().copy(), requires_grad=True) for p in theirs]
    target = make(jitgrad, name, ours, **options)
    target.load_state_dict(converted(source.state_dict()))
    descend(source, theirs, torch, steps=5, seed=2)
    descend(target, ours, jitgrad, steps=5, seed=2)
    for a, b in zip(ours, theirs, strict=True):
        assert a.detach().numpy() == pytest.approx(b.detach().numpy(), rel=1e-5, abs=1e-6)


def converted(value):
    if isinstance(value, torch.Tensor):
        return jitgrad.tensor(value.numpy().copy())
    if isinstance(value, dict):
        return {k: converted(v) for k, v in value.items()}
    return [converted(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "options"), CASES)
def test_repr(name, options):
    texts = []
    for lib in (jitgrad, torch):
        first, *rest = parameters(lib, "float32")
        texts.append(repr(make(lib, name, [{"params": [first], "lr": 0.5}, {"params": rest}], **options)))
    assert texts[0] == texts[1]


SCHEDULES = [
    ("StepLR", {"step_size": 3, "gamma": 0.3}),
    ("MultiStepLR", {"milestones": [2, 5, 5]}),
    ("ConstantLR", {}),
    ("LinearLR", {"start_factor": 0.2, "total_iters": 4}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.95**epoch}),
]


@pytest.mark.parametrize(("name", "options"), SCHEDULES)
def test_rates(name, options):
    rates, states = [], []
    for lib in (jitgrad, torch):
        params = parameters(lib, "float32")
        sgd = lib.optim.SGD([{"params": params[:1], "lr": 0.7}, {"params": params[1:]}], lr=0.5)
        schedule = getattr(lib.optim.lr_scheduler, name)(sgd, **options)
        seen = [schedule.get_last_lr()]
        for _ in range(14):
            sgd.step()
            schedule.step()
            seen.append(schedule.get_last_lr())
        rates.append(seen)
        states.append(schedule.state_dict())
    assert rates[0] == rates[1]
    assert states[0]["last_epoch"] == states[1]["last_epoch"] and states[0]["base_lrs"] == states[1]["base_lrs"]


WRONG = [
    lambda lib, p: lib.optim.SGD([], lr=0.1),
    lambda lib, p: lib.optim.SGD(p, lr=0.1),
    lambda lib, p: lib.optim.SGD([1.0], lr=0.1),
    lambda lib, p: lib.optim.SGD([p * 2], lr=0.1),
    lambda lib, p: lib.optim.SGD([{"params": {p}}], lr=0.1),
    lambda lib, p: lib.optim.SGD([p], lr=-1.0),
    lambda lib, p: lib.optim.SGD([p], lr=0.1, nesterov=True),
    lambda lib, p: lib.optim.SGD([p], lr=0.1).add_param_group([p]),
    lambda lib, p: lib.optim.SGD([p], lr=0.1).add_param_group({"params": p}),
    lambda lib, p: lib.optim.SGD([("a", p), p], lr=0.1),
    lambda lib, p: lib.optim.Adam([p], betas=(0.9, 1.5)),
    lambda lib, p: lib.optim.AdamW([p], eps=-1.0),
    lambda lib, p: lib.optim.RMSprop([p], alpha=-1.0),
    lambda lib, p: lib.optim.Adagrad([p], lr_decay=-1.0),
    lambda lib, p: lib.optim.Adagrad([p], initial_accumulator_value=-1.0),
    lambda lib, p: lib.optim.lr_scheduler.StepLR(p, 3),
    lambda lib, p: lib.optim.lr_scheduler.LambdaLR(lib.optim.SGD([p], lr=0.1), [lambda e: e] * 2),
    lambda lib, p: lib.optim.lr_scheduler.LinearLR(lib.optim.SGD([p], lr=0.1), start_factor=0),
    lambda lib, p: lib.optim.lr_scheduler.ConstantLR(lib.optim.SGD([p], lr=0.1), factor=2),
    lambda lib, p: lib.optim.lr_scheduler.StepLR(lib.optim.SGD([p], lr=0.1), 2, last_epoch=3),
]


@pytest.mark.parametrize("call", WRONG)
def test_errors(call):
    caught = []
    for lib in (jitgrad, torch):
        with pytest.raises(Exception) as error:
            call(lib, lib.ones(2, requires_grad=True))
        caught.append((type(error.value), str(error.value)))
    assert caught[0] == caught[1]
