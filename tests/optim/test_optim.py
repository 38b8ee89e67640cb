"""Optimizers: steps by hand, on every layout, with hooks, replayed."""

import math

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import optim
from jitgrad.debug.launch_tape import tape
from jitgrad.kernels import threads
from jitgrad.kernels.loops import optimizer as loops

from .optimizers import KINDS, every_kind, leaf, numbers


def test_sgd_by_hand():
    p = leaf([1.0, 2.0], [0.5, -1.0])
    optim.SGD([p], lr=0.1, weight_decay=0.1).step()
    assert numbers(p) == pytest.approx([1 - 0.1 * 0.6, 2 - 0.1 * -0.8])


def test_momentum_by_hand():
    p = leaf([1.0], [1.0])
    sgd = optim.SGD([p], lr=0.1, momentum=0.5, dampening=0.25)
    sgd.step()  # the first step takes the gradient undamped
    sgd.step()
    assert sgd.state[p]["momentum_buffer"].item() == pytest.approx(0.5 * 1 + 0.75)
    assert p.item() == pytest.approx(1 - 0.1 * 1 - 0.1 * 1.25)


def test_nesterov_by_hand():
    p = leaf([1.0], [1.0])
    optim.SGD([p], lr=0.1, momentum=0.5, nesterov=True).step()
    assert p.item() == pytest.approx(1 - 0.1 * 1.5)


def test_adam_by_hand():
    p = leaf([1.0, 1.0], [0.3, -20.0], torch.float64)
    optim.Adam([p], lr=0.01).step()  # the first step is lr times the sign
    assert numbers(p) == pytest.approx([0.99, 1.01], rel=1e-6)


def test_adamw_shrinks_what_has_zero_gradient():
    p = leaf([2.0], [0.0])
    optim.AdamW([p], lr=0.1, weight_decay=0.5).step()
    assert p.item() == pytest.approx(2 * 0.95)


@every_kind
def test_finds_the_bottom_of_a_bowl(kind):
    make, options = KINDS[kind]
    p = leaf([3.0, -2.0], dtype=torch.float64)
    optimizer = make([p], **{**options, "lr": 0.3 if kind == "Adagrad" else 0.05})
    for _ in range(300):
        optimizer.zero_grad()
        loss = ((p - torch.tensor([1.0, 0.5], dtype=torch.float64)) ** 2).sum()
        loss.backward()
        optimizer.step()
    assert numbers(p) == pytest.approx([1.0, 0.5], abs=0.12)


@every_kind
def test_maximize_is_the_step_for_the_opposite_gradient(kind):
    make, options = KINDS[kind]
    a, b = leaf([1.0, 2.0], [0.5, -1.0]), leaf([1.0, 2.0], [-0.5, 1.0])
    for p, maximize in ((a, True), (b, False)):
        optimizer = make([p], **options, maximize=maximize)
        optimizer.step()
        optimizer.step()
    assert (numbers(a) == numbers(b)).all()


@every_kind
def test_one_launch_for_all_parameters_of_a_dtype(kind):
    make, options = KINDS[kind]
    shapes = [(3, 4), (4,), (), (2, 1, 2)]
    params = [torch.ones(s).requires_grad_() for s in shapes]
    optimizer = make(params, **options)
    for _ in range(2):
        for p in params:
            p.grad = torch.full_like(p, 0.5, requires_grad=False)
        with tape() as recorded:
            optimizer.step()
    steps = [entry for entry in recorded.entries if "foreach" in entry.kernel.name]
    assert len(steps) == 1
    assert len({round(numbers(p).ravel()[0], 6) for p in params}) == 1


def test_a_replayed_step_goes_on_counting():
    params = [torch.ones(3, 2).requires_grad_(), torch.ones(2).requires_grad_()]
    optimizer = optim.Adam(params, lr=0.1)
    for p in params:
        p.grad = torch.ones_like(p, requires_grad=False)
    optimizer.step()
    with tape() as recorded:
        optimizer.step()
    twin = [p.detach().clone().requires_grad_() for p in params]
    other = optim.Adam(twin, lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    for p in twin:
        p.grad = torch.ones_like(p, requires_grad=False)
    recorded.replay()
    other.step()
    assert optimizer.state[params[0]]["step"].item() == 3
    assert all((numbers(p) == numbers(q)).all() for p, q in zip(params, twin, strict=True))


def test_groups_have_their_own_options_and_dtypes_mix():
    a, b, c = leaf([1.0], [1.0]), leaf([1.0], [1.0]), leaf([1.0], [1.0], torch.float64)
    optimizer = optim.SGD([{"params": [a, c]}, {"params": b, "lr": 0.5}], lr=0.1)
    optimizer.step()
    assert [p.item() for p in (a, b, c)] == pytest.approx([0.9, 0.5, 0.9])
    assert c.dtype is torch.float64


def test_parameters_without_gradient_stay():
    a, b = leaf([1.0], [1.0]), leaf([1.0])
    adam = optim.Adam([a, b], lr=0.1)
    adam.step()
    assert b.item() == 1.0 and b not in adam.state
    optim.SGD([leaf([1.0])], lr=0.1).step()


def test_empty_strided_and_complex_parameters():
    empty = torch.ones(0, 3).requires_grad_()
    strided = torch.ones(3, 4).t().requires_grad_()
    number = torch.tensor(1 + 2j).requires_grad_()
    params = [empty, strided, number]
    for p in params:
        p.grad = torch.ones_like(p, requires_grad=False)
    strided.grad = torch.ones(4, 3)
    optim.SGD(params, lr=0.5, momentum=0.9).step()
    assert (numbers(strided) == 0.5).all() and strided.shape == (4, 3) and not strided.is_contiguous()
    assert number.item() == 0.5 + 2j


@every_kind
def test_strided_parameters_move_as_row_major_ones(kind):
    make, options = KINDS[kind]
    results = []
    for strided in (False, True):
        values = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
        p = (values.t().contiguous().t() if strided else values).requires_grad_()
        optimizer = make([p], **options)
        for _ in range(3):
            p.grad = p.detach() ** 2
            optimizer.step()
        results.append(numbers(p))
    assert not p.is_contiguous() and (results[0] == results[1]).all()


def test_large_parameters_on_several_threads_equal_one():
    results = []
    before = threads.get_num_threads()
    for count in (1, 3):
        torch.set_num_threads(count)
        params = [torch.linspace(-1, 1, n).requires_grad_() for n in (300_000, 7, 150_001)]
        adam = optim.AdamW(params, lr=0.1)
        for _ in range(3):
            for p in params:
                p.grad = p.detach() ** 2
            adam.step()
        assert [s["step"].item() for s in adam.state.values()] == [3, 3, 3]
        results.append([numbers(p) for p in params])
    torch.set_num_threads(before)
    assert all((a == b).all() for a, b in zip(*results, strict=True))


def test_plain_loop_and_fused_kernel_agree():
    rng = np.random.default_rng(0)
    fused = [rng.random((4, 5)), rng.random((4, 5)), *np.zeros((3, 4, 5)), np.zeros((), np.float32)]
    plain = [a.copy().reshape(-1) for a in fused]
    options = (0.1, 0.9, 0.999, 1e-8, 0.1, True, True, False)
    loops.foreach(loops.adam, 1).call(*fused, *options)
    loops.adam.call(*plain, *options)
    assert all((a.reshape(-1) == b).all() for a, b in zip(fused, plain, strict=True))
    kernel = loops.foreach(loops.adam, 2)
    assert kernel.writes == (0, 1, 4, 5, 6, 7, 8, 9, 10, 11)  # parameters, both moments, steps; not the gradients


def test_infinite_and_nan_gradients_travel():
    p = leaf([1.0, 1.0, np.inf], [np.nan, np.inf, 0.0])
    optim.SGD([p], lr=0.1).step()
    values = numbers(p)
    assert math.isnan(values[0]) and values[1] == -np.inf and values[2] == np.inf


def test_amsgrad_remembers_nan():
    p = leaf([1.0], [np.nan])
    adam = optim.Adam([p], amsgrad=True)
    adam.step()
    adam.state[p]["exp_avg_sq"].fill_(1)
    adam.step()
    assert math.isnan(adam.state[p]["max_exp_avg_sq"].item())


# -- around the step ----------------------------------------------------------------------------------


def test_closure_runs_with_gradients_and_its_loss_comes_back():
    p = leaf([2.0])
    sgd = optim.SGD([p], lr=0.1)

    def closure():
        sgd.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert sgd.step(closure).item() == 4.0
    assert p.item() == pytest.approx(1.6)


def test_step_bumps_the_version():
    p = leaf([2.0], [1.0])
    saved = (p * p).sum()
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()


def test_zero_grad_forgets_or_clears():
    p = leaf([2.0], [1.0])
    sgd = optim.SGD([p], lr=0.1)
    grad = p.grad
    sgd.zero_grad(set_to_none=False)
    assert p.grad is grad and grad.item() == 0
    sgd.zero_grad()
    assert p.grad is None


def test_hooks_run_around_the_step():
    p = leaf([1.0], [1.0])
    sgd, seen = optim.SGD([p], lr=0.1), []
    before = sgd.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", p.item())))
    sgd.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", round(p.item(), 6))))
    sgd.step()
    before.remove()
    sgd.step()
    assert seen == [("before", 1.0), ("after", 0.9), ("after", 0.8)]


def test_an_optimizer_of_ones_own():
    class SignDescent(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    p, calls = leaf([1.0, 1.0], [3.0, -0.1]), []
    mine = SignDescent([p], lr=0.5)
    mine.register_step_post_hook(lambda *_: calls.append(1))
    mine.step()
    assert numbers(p).tolist() == [0.5, 1.5] and calls == [1]


@every_kind
def test_a_whole_training_step_replays_as_the_next_one(kind):
    make, options = KINDS[kind]
    nn, results = torch.nn, []
    for replayed in (False, True):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3))
        optimizer = make(model.parameters(), **options)
        x, y = torch.randn(5, 6), torch.randint(0, 3, (5,))

        def step(model=model, optimizer=optimizer, x=x, y=y):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        step()
        with tape() as recorded:
            loss = step()
        for _ in range(3):
            if replayed:
                recorded.replay()
            else:
                loss = step()
        results.append([loss.item(), *[numbers(p) for p in model.parameters()], torch.rand(1).item()])
    assert all((np.asarray(a) == b).all() for a, b in zip(*results, strict=True))


@every_kind
def test_a_differentiable_step_is_the_fused_one_and_has_gradients(kind):
    make, options = KINDS[kind]
    wide = {"dtype": torch.float64}
    grads = [torch.tensor([[0.4, -0.3], [0.2 + 0.1 * k, 0.7]], **wide) for k in range(3)]

    def moved(start, first, differentiable):
        p = start.clone()
        p = p if differentiable else p.detach().requires_grad_()
        optimizer = make([p], **options, differentiable=differentiable)
        for grad in (first, *grads[1:]):
            p.grad = grad.clone() if differentiable else grad.detach()
            optimizer.step()
        return p

    start, first = torch.tensor([[0.5, -1.0], [2.0, 0.1]], **wide, requires_grad=True), grads[0].requires_grad_()
    assert numbers(moved(start, first, True)) == pytest.approx(numbers(moved(start, first, False)), rel=1e-12)
    assert torch.autograd.gradcheck(lambda *given: moved(*given, True), (start, first))


def test_gradients_of_a_learning_rate():
    lr = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    p = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    weights = p.clone()
    weights.grad = torch.tensor([0.5, -0.5], dtype=torch.float64)
    optim.SGD([weights], lr=lr, differentiable=True).step()
    weights.sum().backward()
    assert lr.grad.item() == pytest.approx(0.0, abs=1e-12) and numbers(p.grad).tolist() == [1.0, 1.0]


def test_parameters_whose_elements_share_memory_are_refused():
    p = torch.nn.Parameter(torch.ones(1).expand(3))
    p.grad = torch.ones(3)
    for optimizer in (torch.optim.SGD([p], lr=0.1), torch.optim.Adam([p], lr=0.1)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            optimizer.step()
    assert p.tolist() == [1.0, 1.0, 1.0]
