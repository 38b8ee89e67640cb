"""Optimisers and schedules against PyTorch: parameters after many steps, state, reprs, errors."""

import numpy as np
import pytest
import torch

import jitgrad
from tests.peer.optim.both import parameters, same

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
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.01}),
    ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1, "maximize": True}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "betas": (0.8, 0.9)}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"step_sizes": (1e-3, 0.02), "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 20, "weight_decay": 0.1}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "d": 1.5, "maximize": True}),
]
TOLERANCE = {"float32": 4e-6, "float64": 1e-14}


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


MINIMISED = [
    ("LBFGS", {}),
    ("LBFGS", {"line_search_fn": "strong_wolfe"}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "lr": 0.5, "history_size": 2, "max_iter": 7}),
]


@pytest.mark.parametrize(("name", "options"), MINIMISED)
def test_losses_of_a_minimisation(name, options):
    seen = []
    for lib in (jitgrad, torch):
        p = lib.tensor([-1.5, 2.0, -0.5, 1.1], dtype=lib.float64, requires_grad=True)
        q = lib.tensor([[0.5], [1.0]], dtype=lib.float64, requires_grad=True)
        unused = lib.ones(1, dtype=lib.float64, requires_grad=True)
        optimizer, calls = make(lib, name, [p, q, unused], **options), []

        def closure(p=p, q=q, optimizer=optimizer, calls=calls):
            optimizer.zero_grad()
            a, b = p[:-1], p[1:]
            loss = (100 * (b - a**2) ** 2 + (1 - a) ** 2).sum() + (q**4).sum()
            loss.backward()
            calls.append(loss.item())
            return calls[-1]

        for _ in range(3):
            optimizer.step(closure)
        state = optimizer.state_dict()["state"][0]
        counted = [state[name] for name in ("func_evals", "n_iter", "prev_loss")]
        seen.append((calls, counted, list(state)))
    same(seen[0], seen[1])


@pytest.mark.parametrize("options", [{}, {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}])
def test_muon(options):
    results = []
    for lib in (jitgrad, torch):
        params = [p for p in parameters(lib, "float32") if p.dim() == 2]
        optimizer = make(lib, "Muon", params, **options)
        descend(optimizer, params, lib, steps=10)
        results.append([p.detach().numpy() for p in params])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-3)  # the iteration has three digits


DIFFERENTIABLE = [
    ("SGD", {"weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("Adadelta", {}),
    ("Adamax", {}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"betas": (0.8, 0.9)}),
    ("Rprop", {}),
    ("ASGD", {"t0": 1}),
]


@pytest.mark.parametrize(("name", "options"), DIFFERENTIABLE)
def test_gradients_of_steps(name, options):
    """Of the parameter after a step, for where it started and for the gradient."""
    results = []
    for lib in (jitgrad, torch):
        start = lib.tensor([0.3, -0.7, 1.2], dtype=lib.float64, requires_grad=True)
        grad = lib.tensor([0.2, -0.3, 0.4], dtype=lib.float64, requires_grad=True)
        p = start.clone()
        optimizer = make(lib, name, [p], differentiable=True, **options)
        p.grad = grad.clone()
        optimizer.step()
        found = lib.autograd.grad(p.square().sum(), [start, grad], allow_unused=True)
        results.append([p.detach().numpy(), *[0 if g is None else g.numpy() for g in found]])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-9)


def averaged(lib, **options):
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 2))
    average = lib.optim.swa_utils.AveragedModel(model, **options)
    data = [lib.tensor(np.random.default_rng(k).standard_normal((5, 3)).astype("float32")) for k in range(4)]
    for x in data:
        model(x).sum().backward()
        with lib.no_grad():
            for p in model.parameters():
                p.add_(0.1)
        average.update_parameters(model)
    lib.optim.swa_utils.update_bn(data, average)
    return {k: v.detach().numpy() for k, v in average.state_dict().items()}


@pytest.mark.parametrize("kind", ["mean", "ema", "ema of lists", "buffers"])
def test_averaged_models(kind):
    results = []
    for lib in (jitgrad, torch):
        tools = lib.optim.swa_utils
        options = {
            "mean": {}, "ema": {"avg_fn": tools.get_ema_avg_fn(0.9)}, "buffers": {"use_buffers": True},
            "ema of lists": {"multi_avg_fn": tools.get_ema_multi_avg_fn(0.9)},
        }  # fmt: skip
        results.append(averaged(lib, **options[kind]))
    assert list(results[0]) == list(results[1])
    for name, value in results[1].items():
        assert results[0][name] == pytest.approx(value, rel=1e-5, abs=1e-6)


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
    lambda lib, p: lib.optim.SGD([p], fused=True, foreach=True),
    lambda lib, p: lib.optim.Adam([p], fused=True, differentiable=True),
    lambda lib, p: lib.optim.Adam([p], betas=(0.9, lib.tensor(0.9))),
    lambda lib, p: lib.optim.Adam([p], lr=lib.tensor([0.1, 0.1])),
    lambda lib, p: lib.optim.Adam([p], lr=lib.tensor(0.1), foreach=True),
    lambda lib, p: stepped(lib.optim.Adam([p], capturable=True), lib, p),
    lambda lib, p: stepped(lib.optim.ASGD([p], capturable=True), lib, p),
    lambda lib, p: stepped(lib.optim.SparseAdam([p]), lib, p),
    lambda lib, p: stepped(lib.optim.SGD([p], differentiable=True), lib, p),
    lambda lib, p: stepped(lib.optim.Adam([p.to(lib.complex64).detach()], fused=True), lib, p),
    lambda lib, p: lib.optim.SparseAdam([p], lr=0.0),
    lambda lib, p: lib.optim.SparseAdam([p.to(lib.complex64).detach()]),
    lambda lib, p: lib.optim.Adadelta([p], rho=1.5),
    lambda lib, p: lib.optim.Rprop([p], etas=(1.0, 0.5)),
    lambda lib, p: lib.optim.NAdam([p], momentum_decay=-1.0),
    lambda lib, p: lib.optim.LBFGS([{"params": [p]}, {"params": [p.detach()]}]),
    lambda lib, p: lib.optim.LBFGS([p], lr=-1.0),
    lambda lib, p: lib.optim.Muon([p]),
    lambda lib, p: lib.optim.Muon([p], adjust_lr_fn="no"),
    lambda lib, p: lib.optim.Adafactor([p], d=0.5),
    lambda lib, p: lib.optim.Adafactor([p], beta2_decay=0.5),
    lambda lib, p: lib.optim.lr_scheduler.CyclicLR(lib.optim.Rprop([p]), 0.1, 0.2),
    lambda lib, p: lib.optim.lr_scheduler.CyclicLR(lib.optim.SGD([p], lr=0.1), [0.1, 0.2], 0.2),
    lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.SGD([p], lr=0.1), 0.1),
    lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.SGD([p], lr=0.1), 0.1, total_steps=-1),
    lambda lib, p: lib.optim.lr_scheduler.SequentialLR(lib.optim.SGD([p], lr=0.1), [], []),
    lambda lib, p: lib.optim.lr_scheduler.ChainedScheduler([plateau(lib, p)]),
    lambda lib, p: lib.optim.lr_scheduler.SequentialLR(plateau(lib, p).optimizer, [plateau(lib, p)], []),
    lambda lib, p: lib.optim.lr_scheduler.ReduceLROnPlateau(lib.optim.SGD([p]), mode="no"),
    lambda lib, p: lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(lib.optim.SGD([p]), 0),
    lambda lib, p: lib.optim.lr_scheduler.MultiplicativeLR(lib.optim.SGD([p]), [3]),
    lambda lib, p: lib.optim.swa_utils.get_ema_avg_fn(2.0),
    lambda lib, p: lib.optim.lr_scheduler.StepLR(p, 3),
    lambda lib, p: lib.optim.lr_scheduler.LambdaLR(lib.optim.SGD([p], lr=0.1), [lambda e: e] * 2),
    lambda lib, p: lib.optim.lr_scheduler.LinearLR(lib.optim.SGD([p], lr=0.1), start_factor=0),
    lambda lib, p: lib.optim.lr_scheduler.ConstantLR(lib.optim.SGD([p], lr=0.1), factor=2),
    lambda lib, p: lib.optim.lr_scheduler.StepLR(lib.optim.SGD([p], lr=0.1), 2, last_epoch=3),
]


def plateau(lib, p):
    return lib.optim.lr_scheduler.ReduceLROnPlateau(lib.optim.SGD([p]))


def stepped(optimizer, lib, p):
    for q in optimizer.param_groups[0]["params"]:
        q.grad = lib.ones_like(q)
    optimizer.step()


@pytest.mark.parametrize("call", WRONG)
def test_errors(call):
    caught = []
    for lib in (jitgrad, torch):
        with pytest.raises(Exception) as error:
            call(lib, lib.ones(2, requires_grad=True))
        caught.append((type(error.value), str(error.value)))
    assert caught[0] == caught[1]


FUNCTIONS = [
    ("adam", "exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
     {"amsgrad": False, "beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": False}),
    ("adamw", "exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
     {"amsgrad": True, "beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8, "maximize": False}),
    ("rmsprop", "square_avgs grad_avgs momentum_buffer_list state_steps",
     {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0, "centered": False}),
    ("sgd", "buffers", {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.1, "nesterov": False,
                        "maximize": True}),
    ("rprop", "prevs step_sizes state_steps",
     {"step_size_min": 1e-3, "step_size_max": 1, "etaminus": 0.5, "etaplus": 1.2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "columns", "options"), FUNCTIONS)
def test_functions_behind_optimisers(name, columns, options):
    results = []
    for lib in (jitgrad, torch):
        function = getattr(__import__(f"{lib.__name__}.optim.{name}", fromlist=[name]), name)
        params = [p.detach() for p in parameters(lib, "float64")]
        rng = np.random.default_rng(3)
        lists = []
        for kind in columns.split():
            unused = kind in ("grad_avgs", "momentum_buffer_list") or (kind[:3] == "max" and not options["amsgrad"])
            if kind == "state_steps":
                lists.append([lib.tensor(0.0) for _ in params])
            elif kind == "buffers":
                lists.append([None] * len(params))
            else:
                lists.append([] if unused else [lib.full_like(p, 0.1) for p in params])
        for _ in range(3):
            grads = [lib.tensor(np.asarray(rng.standard_normal(p.shape))) for p in params]
            function(params, grads, *lists, **options, foreach=False)
        results.append([p.numpy() for p in params])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12)
