"""Functions that read tensors on the host: what is before and behind such a statement is compiled all the same."""

import re
import warnings

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import check, launches, normal, parts

F = nn.functional


def perceptron():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    return net, torch.optim.Adam(net.parameters(), 0.01)


def data(k):
    return normal(4, 8, seed=k), normal(4, 3, seed=k + 1)


def held(net, opt, *others):
    return [*net.parameters(), [p.grad for p in net.parameters()], opt.state_dict()["state"], *others]


def test_a_training_step_that_stops_early():
    def make():
        (net, opt), best = perceptron(), [1e9, 0]

        def step(x, y):
            opt.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            opt.step()
            if loss.item() < best[0]:
                best[0] = loss.item()
            else:
                best[1] += 1
            return loss * 2 + 1

        return step, data, lambda: held(net, opt, *best)

    compiled = check(make, recordings=0)
    assert len(parts(compiled)) == 2 and launches(compiled)[0] > 10 and launches(compiled)[1] == 2


def test_a_variable_outside_that_is_assigned():
    def make():
        (net, opt), best = perceptron(), 1e9

        def step(x, y):
            nonlocal best
            opt.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            opt.step()
            if loss.item() < best:
                best = loss.item()
            return best

        return step, data, lambda: held(net, opt, best)

    assert launches(check(make, recordings=0))[0] > 10


def test_backward_behind_the_border():
    def make():
        net, opt = perceptron()
        net.append(nn.Dropout(0.2))

        def step(x, y):
            opt.zero_grad()
            out = net(x)
            loss = F.mse_loss(out, y)
            if torch.isnan(loss):
                return None
            loss.backward()
            opt.step()
            return loss, (out > 0).sum().item()

        def arguments(k):
            x, y = data(k)
            return (x * float("nan") if k == 4 else x), y

        return step, arguments, lambda: held(net, opt)

    compiled = check(make, calls=8, recordings=0)
    assert len(parts(compiled)) >= 3 and sum(launches(compiled)) > 10


def test_a_loop_until_convergence():
    def make():
        target = normal(6, 6)

        def solve(x, tolerance):
            steps, error = 0, (x - target).abs().max()
            while error > tolerance:
                gradient = (x - target) * 2
                x = x - gradient * 0.2
                error = (x - target).abs().max()
                steps += 1
            return torch.sqrt(x.abs()) + x, steps

        return solve, lambda k: (normal(6, 6, seed=k), 1e-3), list

    compiled = check(make, recordings=0)
    loop = [n for n in launches(compiled) if n >= 6]
    assert loop and launches(compiled)[-1] == 3


def test_a_loop_that_breaks_and_continues():
    def make():
        log = []

        def run(x):
            for k in range(6):
                x = torch.tanh(x) * 0.9 + 0.1
                if k == 2:
                    continue
                size = x.abs().sum()
                if size.item() < 5:
                    log.append(k)
                    break
            else:
                log.append("through")
            return x * 2

        return run, lambda k: (normal(4, 4, seed=k) * (k + 1) / 3,), lambda: list(log)

    assert parts(check(make, calls=8, recordings=0))


def test_a_line_search():
    def make():
        weight = normal(5)

        def value(x):
            return ((x - weight) ** 2).sum() + x.abs().sum()

        def search(x):
            x = x.detach().requires_grad_()
            f = value(x)
            (g,) = torch.autograd.grad(f, x)
            t = 1.0
            with torch.no_grad():
                slope = (g * g).sum()
                while value(x - t * g) > f - 0.5 * t * slope:
                    t = t * 0.5
                return x - t * g

        return search, lambda k: (normal(5, seed=k) * (k + 1),), list

    compiled = check(make, calls=12, recordings=0)
    assert parts(compiled)


def test_side_effects_come_in_order(capsys):
    def make():
        events = []

        def step(x):
            events.append("first")
            y = (x * 2).sum()
            print("before")
            events.append(round(y.item(), 3))
            print(f"{y.item():.2f}")
            events.append("behind")
            z = (x + 1).exp()
            print("end")
            return z

        return step, lambda k: (normal(4, seed=k),), lambda: list(events)

    assert len(parts(check(make, recordings=0))) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == lines[3:6] and len(lines) == 36


@pytest.mark.parametrize("where", [0, 1, 2])
def test_errors_in_each_part(where):
    table, counts = normal(5, 3), torch.zeros(2)

    @torch.compile
    def step(first, second, limit):
        counts[0] += 1
        a = table[first].sum()
        if a.item() > limit:
            raise ValueError("too much")
        counts[1] += 1
        return table[second].sum() + a

    good, bad = torch.tensor([0, 4]), torch.tensor([0, 9])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            step(good, good, 100.0)
    assert len(parts(step)) == 2
    given = [(bad, good, 100.0), (good, good, -100.0), (good, bad, 100.0)][where]
    with pytest.raises([IndexError, ValueError, IndexError][where]):
        step(*given)
    assert counts.tolist() == [5, 5 if where == 2 else 4]
    assert torch.equal(step(good, good, 100.0), table[good].sum() * 2)


def test_the_warning_names_the_line_once():
    def step(x):
        y = x * 2 + 1
        if y.sum() > 0:
            y = y * 3
        z = y.exp()
        if z.mean().item() > 1e9:
            z = z * 0.5
        return torch.tanh(z + y) * 2

    compiled = torch.compile(step)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in range(6):
            compiled(normal(64, 64, seed=k))
    (message,) = [str(w.message) for w in seen]
    assert re.search(r"line (\d+) runs uncompiled, the rest in parts, since .* \(.*test_parts.py:\1\)", message)
    assert seen[0].filename == __file__
    text = str(compiled.explain())
    assert text.count("part, line") >= 3 and "exp_forward" in text and "not recorded" in text
    assert "tanh" in compiled.source()
    compiled.forget()
    assert not parts(compiled)


def test_fullgraph_is_an_error():
    def step(x):
        y = x * 2
        if y.sum() > 0:
            y = y * 3
        return y * 2

    compiled = torch.compile(step, fullgraph=True)
    for _ in range(3):  # the first call, and every other one
        with pytest.raises(RuntimeError, match=r"runs uncompiled, since .*test_parts.py:\d+"):
            compiled(normal(4))
    assert not parts(compiled)


def test_each_part_has_recordings_of_its_own():
    def make():
        def step(x):
            y = F.softmax(x @ x.t(), 1)
            if y.max().item() > 0.9:
                y = y * 0.5
            return (y * 3).sum(1)

        return step, lambda k: (normal(2 + k % 3, 4, seed=k),), list

    compiled = check(make, calls=12, recordings=0)
    assert [len(part._variants) for part in parts(compiled)][0] == 3


def test_numbers_that_change_are_left_out():
    def make():
        def step(x, k):
            y = torch.tanh(x @ x.t()) * 2
            return y * k, y.exp().sum(1)

        return step, lambda k: (normal(4, 4, seed=k), k * 0.5), list

    compiled = check(make, calls=14, recordings=0)
    assert len(parts(compiled)) == 1


class Net(nn.Module):
    """A module whose forward reads."""

    def __init__(self):
        super().__init__()
        self.layer, self.__calls = nn.Linear(8, 8), 0
        self.last = None

    def forward(self, x):
        h = torch.tanh(self.layer(x)) * 2
        self.last = h.detach()
        if h.abs().max().item() > 1.5:
            h = h * 0.5
        self.__calls += 1
        return super().extra_repr(), (self.layer(h) + x).sum(1) * self.__calls

    @property
    def calls(self):
        return self.__calls


def test_modules_methods_and_super():
    def make():
        net = Net()
        return net, lambda k: data(k)[:1], lambda: [net.last, net.calls]

    compiled = check(make, recordings=0)
    assert parts(compiled)

    class Steps:
        factor = 2.0

        @torch.compile
        def run(self, x):
            y = x * self.factor
            if y.sum() > 0:
                self.factor += 1
            return (y + 1).exp()

    steps, other = Steps(), Steps()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(6):
            x = normal(4, seed=k)
            assert torch.equal(steps.run(x), Steps.run._compiled_function(other, x))
    assert steps.factor == other.factor and parts(Steps.run)


def test_generators_are_left_whole():
    def numbers(x):
        y = x * 2
        if y.sum() > 0:
            yield y
        yield y * 3

    compiled = torch.compile(numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(5):
            x = normal(4, seed=k)
            assert [v.tolist() for v in compiled(x)] == [v.tolist() for v in numbers(x)]
    assert not parts(compiled)
