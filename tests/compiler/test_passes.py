"""What passes over a program's launches must respect of what Python sees."""

import pytest

import jitgrad as torch
from tests.compiler.alike import same


def results(function, arguments, calls=4):
    torch.manual_seed(3)
    return [function(*arguments(k)) for k in range(calls)]


def unused_draw(x):
    torch.rand(5)
    return torch.rand(5000) * x


def written_after_zeros(x):
    out = torch.zeros(64, 100)
    out[:, :50] = x[:3200].view(64, 50)
    return torch.softmax(out, 1) + out


def numbers_from_python(x):
    t = torch.tensor([1.0, 2.0, 3.0])
    t.mul_(2)
    other = t.clone()
    t.add_(1)
    return t + other + x[:3]


def part_filled(x):
    y = x[:16].view(4, 4) * 2
    y[:, 1].fill_(7)
    return y[2] + 1


@pytest.mark.parametrize("function", [unused_draw, written_after_zeros, numbers_from_python, part_filled])
def test_as_eager(function):
    x = torch.rand(5000)
    found, wanted = (results(f, lambda k: (x,)) for f in (torch.compile(function), function))
    for got, want in zip(found, wanted, strict=True):
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_arguments_that_share_memory_in_one_call_only():
    def function(a, b):
        a.add_(1)
        b.mul_(2)
        return a * b

    compiled = torch.compile(function)
    for shared in ("", "", "", "same", "", "view"):
        a, other = torch.rand(5000), torch.rand(5000)
        pairs = [(x, {"": other.clone(), "same": x, "view": x[:]}[shared]) for x in (a.clone(), a.clone())]
        assert torch.allclose(compiled(*pairs[0]), function(*pairs[1]))
        assert all(torch.allclose(x, y) for x, y in zip(*pairs, strict=True))


def masked(x):
    mask = torch.tril(torch.ones(64, 64)) * 2
    places = torch.arange(64).float() / 64
    return (x.view(1, -1)[:, :64] * mask + places).sum(0)


def half_constant(x):
    t = torch.zeros(100)
    t[:50] = 3.0
    kept = t + 1
    t.add_(x[:100])  # written to later on
    return kept * x[:100] + t


def constant_result(x):
    return torch.arange(10.0) * 2, x + torch.full((1,), 2.0)


def draws(x):
    return torch.rand(5) + x[:5], torch.zeros(3).normal_()


@pytest.mark.parametrize("function", [masked, half_constant, constant_result, draws])
@pytest.mark.parametrize("constants", [True, False])
def test_constants(function, constants):
    x = torch.rand(5000)
    compiled = torch.compile(function, options={"constants": constants})
    found, wanted = (results(f, lambda k: (x * k,)) for f in (compiled, function))
    for got, want in zip(found, wanted, strict=True):
        same(got, want, 0)
    for _ in range(3):  # what a caller does to a result is not seen later
        for t in compiled(x) if function is constant_result else ():
            t.zero_()
    if function is constant_result:
        same(compiled(x), function(x), 1)
    assert len(compiled._variants) == 1


def test_constants_are_computed_once():
    on, off = (torch.compile(masked, options={"constants": c}) for c in (True, False))
    x = torch.rand(5000)
    for _ in range(2):
        on(x), off(x)
    names = [list(c.explain().recordings[0].kernels) for c in (on, off)]
    assert any("tri" in n for n in names[1]) and not any("tri" in n for n in names[0])


def test_constants_of_backward():
    weight = torch.rand(64, requires_grad=True)

    def function(x):
        return torch.where(torch.arange(64) % 2 == 0, weight * x, weight * 3)

    compiled = torch.compile(function)
    for k in range(4):
        found = []
        for f in (compiled, function):
            weight.grad = None
            (f(torch.arange(64.0) + k) * k).sum().backward()
            found.append(weight.grad)
        assert (found[0] == found[1]).all()
    assert len(compiled._variants) == 1


def test_options_of_optimisers_are_no_constants():
    def step(opt, x):
        opt.zero_grad()
        (x * x).sum().backward()
        opt.step()

    pairs = []
    for f in (torch.compile(step), step):
        x = torch.ones(10, requires_grad=True)
        opt = torch.optim.SGD([x], lr=0.1, momentum=0.9)
        for k in range(6):
            opt.param_groups[0]["lr"] = 0.1 / (k + 1)
            f(opt, x)
        pairs.append(x.detach())
    assert (pairs[0] == pairs[1]).all()


def test_constants_that_change_in_a_run():
    def function(x):
        t = torch.ones(100)
        first = t * x[:100]
        t.mul_(3)
        return first + t, t.sum() * x[0]

    for constants in (True, False):
        compiled = torch.compile(function, options={"constants": constants})
        for k in range(4):
            x = torch.rand(5000) * k
            same(compiled(x), function(x), k)
        assert len(compiled._variants) == 1
