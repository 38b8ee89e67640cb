"""Objects of jitgrad's own classes that were there before: what their methods read is noticed when it changes."""

import warnings

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.distributions import AffineTransform, Categorical, Independent, Normal, kl_divergence
from jitgrad.utils.data import TensorDataset
from tests.compiler.alike import check_noticed, whole

CASES = []


def case(make):
    """``make()`` returns a function of a tensor, and what changes what that reads."""
    CASES.append(make)
    return make


def normal(scale=1.0):
    return Normal(torch.zeros(2), scale, validate_args=False)


@case
def parameter_exchanged():
    d = normal()
    return lambda x: d.log_prob(x), lambda: setattr(d, "scale", torch.full((2,), 2.0))


@case
def parameter_written():
    d = normal()
    return lambda x: d.log_prob(x), lambda: d.loc.fill_(3.0)


@case
def property_of_a_distribution():
    d = normal()
    return lambda x: x * d.variance, lambda: setattr(d, "scale", torch.full((2,), 2.0))


@case
def attribute_that_is_kept():
    d = Categorical(logits=torch.tensor([1.0, 2.0]))
    return lambda x: x * d.probs, lambda: setattr(d, "probs", torch.tensor([0.5, 0.5]))


@case
def divergence():
    p, q = normal(), normal(2.0)
    return lambda x: x * kl_divergence(p, q), lambda: setattr(q, "loc", torch.ones(2))


@case
def distribution_in_a_distribution():
    inner = normal()
    d = Independent(inner, 1, validate_args=False)
    return lambda x: x * d.log_prob(x), lambda: setattr(inner, "loc", torch.ones(2))


@case
def distribution_in_a_list():
    ds = [normal(), normal(2.0)]
    return lambda x: sum(d.log_prob(x) for d in ds), lambda: setattr(ds[1], "loc", torch.ones(2))


@case
def transform():
    t = AffineTransform(1.0, 2.0)
    return lambda x: t(x), lambda: setattr(t, "scale", 3.0)


@case
def inverse_transform():
    t = AffineTransform(1.0, 2.0)
    return lambda x: t.inv(x), lambda: setattr(t, "scale", 3.0)


@case
def length_of_a_data_set():
    data = TensorDataset(torch.zeros(3))
    return lambda x: x * len(data), lambda: setattr(data, "tensors", (torch.zeros(5),))


@case
def sample_of_a_data_set():
    data = TensorDataset(torch.ones(3))
    return lambda x: x * data[1][0], lambda: setattr(data, "tensors", (torch.zeros(5),))


@case
def region_of_autocast():
    region = torch.autocast("cpu", torch.bfloat16, enabled=False)

    def run(x):
        with region:
            return (x[None] * 1.001 @ torch.ones(2, 1)).float()

    return run, lambda: setattr(region, "_enabled", True)


@case
def scaler():
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.ones(1))
    return lambda x: scaler.scale(x), lambda: scaler.update(2.0)


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_change_is_noticed(make):
    check_noticed(*make(), whole)


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_it_is_compiled(make):
    compiled = torch.compile(make()[0], fullgraph=True)
    for _ in range(3):
        compiled(torch.tensor([1.0, 2.0]))
    assert len(compiled._variants) == 1


def test_a_switch_of_the_grad_mode():
    switch = torch.set_grad_enabled(True)
    w = torch.ones(2, requires_grad=True)

    def run(x):
        with switch:
            return x * w

    compiled = torch.compile(run)
    for mode in (True, True, True, False, False, True):
        switch.mode = mode
        assert compiled(torch.ones(2)).requires_grad is run(torch.ones(2)).requires_grad is mode


def test_gradients_of_parameters_of_a_distribution():
    def make():
        mu = torch.zeros(3, requires_grad=True)
        d = Normal(mu, 1.0)

        def step(x):
            mu.grad = None
            (d.rsample() * x).sum().backward()

        return mu, d, step

    (mu, _, step), (other, d, compiled) = make(), make()
    compiled = torch.compile(compiled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for _ in range(4):
            step(torch.ones(3))
            compiled(torch.ones(3))
            assert other.grad.tolist() == mu.grad.tolist()


def test_a_scaler_that_is_off_passes_on_what_the_optimizer_has():
    def make():
        net = nn.Linear(2, 1)
        nn.init.ones_(net.weight)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)

        def step(x):
            optimizer.zero_grad()
            scaler.scale(net(x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

        return net, optimizer, step

    (net, optimizer, step), (other, other_optimizer, compiled) = make(), make()
    compiled = torch.compile(compiled, fullgraph=True)
    for k in range(6):
        optimizer.param_groups[0]["lr"] = other_optimizer.param_groups[0]["lr"] = 0.1 + k // 3
        step(torch.ones(1, 2))
        compiled(torch.ones(1, 2))
        assert other.weight.tolist() == net.weight.tolist()
    assert len(compiled._variants) == 1
