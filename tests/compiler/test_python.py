"""What Python does beside the tensors: it happens in every call, or the function runs uncompiled and says so."""

import functools
import warnings

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import check, normal


def matrix(k):
    return normal(4, 8, seed=k)


def test_counters_and_lists():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.seen = 0, []

        def forward(self, x):
            self.calls += 1
            self.seen.append(1.5)
            return x * 2

    def make():
        net = Net()
        return net, lambda k: (matrix(k),), lambda: [net.calls, len(net.seen)]

    check(make)


def test_numbers_that_are_only_returned_or_kept():
    def make():
        seen = []

        def step(x):
            loss = (x * 2).sum()
            seen.append(loss.item())
            return {"loss": loss.item(), "right": (x > 0).sum().item(), "twice": loss * 2}

        return step, lambda k: (matrix(k),), lambda: [list(seen)]

    compiled = check(make)
    found = compiled(matrix(3))
    assert type(found["loss"]) is float and type(found["right"]) is int


def test_numbers_that_are_computed_with():
    def make():
        kept = {}

        def step(x):
            kept["last"] = x.sum().item() + 1
            return x.mean().item() * 2

        return step, lambda k: (matrix(k),), lambda: [dict(kept)]

    check(make, recordings=0)


def test_prints(capsys):
    step = torch.compile(lambda x: (print("step"), x * 2)[1])
    for k in range(5):
        step(matrix(k))
    assert capsys.readouterr().out == "step\n" * 5
    assert step._variants


def reads(x):
    return x * x.sum().item()


def branches(x):
    return x * 2 if x.sum() > 0 else x - 1


def masks(x):
    return x[x > 0]


def numpy(x):
    return torch.tensor(x.numpy() * 2)


def shows(x):
    return len(f"{x}"), x


@pytest.mark.parametrize("function", [reads, branches, masks, numpy, shows])
def test_numbers_that_reach_python(function):
    check(lambda: (function, lambda k: (matrix(k) * (-1) ** k,), list), recordings=0)
    with pytest.warns(torch.compiler.CompileWarning, match=rf"{function.__name__} runs uncompiled.*test_python.py:\d+"):
        step = torch.compile(function)
        for k in range(4):
            step(matrix(k))


def test_fullgraph_raises():
    step = torch.compile(reads, fullgraph=True)
    with pytest.raises(RuntimeError, match="item"):
        for k in range(4):
            step(matrix(k))


def test_globals_that_are_assigned():
    def make():
        total = 0

        def step(x):
            nonlocal total
            total = total + 1
            return x * 2

        return step, lambda k: (matrix(k),), lambda: [total]

    check(make, recordings=0)


def test_attributes_that_are_assigned():
    class Net(nn.Module):
        last = None

        def forward(self, x):
            self.last = x * 2
            return x + 1

    def make():
        net = Net()
        return net, lambda k: (matrix(k),), lambda: [net.last]

    check(make, recordings=0)


def test_iterators_from_outside():
    def make():
        numbers = iter(range(100))
        return lambda x: x * next(numbers), lambda k: (matrix(k),), list

    check(make, recordings=0)


def test_pythons_random_numbers():
    import random

    def make():
        random.seed(0)
        own = random.Random(0)
        return lambda x: x * own.random(), lambda k: (matrix(k),), list

    check(make, recordings=0)


def test_errors_of_checks_come_where_eager_has_them():
    table = normal(5, 3)
    total = torch.zeros(3)

    @torch.compile
    def step(i):
        total.add_(1)
        return table[i].sum(0) + total

    for _ in range(3):
        step(torch.tensor([0, 4]))
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 5"):
        step(torch.tensor([0, 7]))
    assert (total == 4).all()
    step(torch.tensor([1, 2]))
    assert (total == 5).all() and len(step._variants) == 1


def test_gradients_after_an_error():
    table = normal(5, 3).requires_grad_()
    optimizer = torch.optim.SGD([table], 0.1)

    @torch.compile
    def step(i):
        optimizer.zero_grad()
        (table * 2).sum().backward(retain_graph=True)
        table[i].exp().sum().backward()
        optimizer.step()

    for _ in range(4):
        step(torch.tensor([0, 4]))
    before = table.detach().clone()
    with pytest.raises(IndexError):
        step(torch.tensor([0, 7]))
    assert (table == before).all() and table.grad is None
    step(torch.tensor([0, 4]))
    assert not (table == before).all()


def test_methods_that_are_exchanged():
    class Net(nn.Module):
        def forward(self, x):
            return x * 2

    net = Net()
    step = torch.compile(lambda x: net(x) + torch.relu(x))
    for _ in range(3):
        assert (step(matrix(0)) == matrix(0) * 2 + matrix(0).relu()).all()
    Net.forward = lambda self, x: x * 3
    assert (step(matrix(0)) == matrix(0) * 3 + matrix(0).relu()).all()


def test_errors_while_recording_leave_nothing_behind():
    def step(x):
        y = x * 2
        raise ValueError("stop")

    compiled = torch.compile(step)
    for _ in range(3):
        with pytest.raises(ValueError, match="stop"):
            compiled(matrix(0))
    from jitgrad.kernels.launch import observers

    assert not observers


def test_modes_and_threads_are_guarded():
    weight = normal(8, 8).requires_grad_()
    step = torch.compile(lambda x: (x @ weight).detach() * torch.is_grad_enabled())
    for _ in range(3):
        assert (step(matrix(0)) == matrix(0) @ weight).all()
        with torch.no_grad():
            assert (step(matrix(0)) == 0).all()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert (step(matrix(0)) == matrix(0) @ weight).all()
    finally:
        torch.set_num_threads(threads)


def test_observed_calls_run_uncompiled():
    step = torch.compile(lambda x: x * 2 + 1)
    for _ in range(2):
        step(matrix(0))
    with torch.debug.tape() as tape:
        step(matrix(0))
    assert [e.kernel.name for e in tape] == ["mul_forward", "add_forward"]


def test_other_arguments():
    step = torch.compile(lambda x, n=2, **options: x * n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (2, 3, 2.0, True):
            assert (step(matrix(0), n) == matrix(0) * n).all()
        assert (step(matrix(0), n=3) == matrix(0) * 3).all()
        assert (step(matrix(0).double()) == matrix(0).double() * 2).all()
        assert (step(matrix(0).t()) == matrix(0).t() * 2).all()
    with pytest.raises(RuntimeError, match="expects a callable"):
        torch.compile(3)
    assert torch.compile(reads, disable=True) is reads
    assert torch.compile(dynamic=True, mode="max-autotune")(reads)(matrix(0)).shape == (4, 8)


def test_functions_whose_results_are_kept():
    def make():
        @functools.lru_cache(256)
        def factors(count, pattern):
            return tuple(float(k) for k in range(count) if pattern[k % len(pattern)] == "a")

        @functools.cache
        def scaled(x):  # by identity, so it is followed
            return x * 3

        def step(x):
            return sum(scaled(x) * f for f in factors(x.shape[1], pattern="ab"))

        return step, lambda k: (matrix(k),), lambda: []

    check(make)


def test_tensors_that_are_kept():
    def make():
        @functools.cache
        def table(count):
            return torch.arange(count, dtype=torch.float32)

        return lambda x: x * table(x.shape[1]), lambda k: (matrix(k),), lambda: []

    check(make, recordings=None)


def test_functions_that_c_calls_and_decides_by():
    weights, shift = torch.tensor([1.0, -1.0]), [0.0]

    class Size:
        factor = 1.0

        def __call__(self, t):
            return t.shape[0] * self.factor

    size = Size()
    functions = [  # a line each, or they could not be told apart
        lambda x: max(x, -x, key=_first) * 2,
        lambda x: x * sum(map(_total, [x, x])),
        lambda x: sorted([x, -x], key=_pair)[0] * 2,
        lambda x: x * max([x, weights], key=size)[0],
        lambda x: x * sum(map(size, [x, weights])),
        lambda x: x * functools.reduce(functools.partial(_shifted, shift), [x], 1),
        lambda x: x * len(list(filter(_total, [x, x * 0]))),
        lambda x: x * max([1, 2], key=None) * min(x.shape) * len(list(map(str, [1]))),
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for function in functions:
            compiled = torch.compile(function)
            for k in range(6):
                x = torch.tensor([1.0, 2, 3]) * (k if k < 3 else -1)
                size.factor, shift[0] = (1.0, 0.0) if k < 3 else (-1.0, 2.0)
                assert torch.equal(compiled(x), function(x))
            assert compiled._variants or "item()" in str(compiled.explain())


def _first(t):
    return t[0].item()


def _total(t):
    return t.sum().item()


def _pair(t):
    return t[0].item(), 0


def _shifted(shift, total, t):
    return total + shift[0] * t.shape[0]


def test_what_a_function_has_changed_is_not_read_as_it_was_recorded():
    weight = torch.ones(3).requires_grad_()

    def make(which):
        opt = torch.optim.SGD([weight], lr=0.1)
        log, seen, schedule = [], set(), torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)

        def length(x):
            log.append(x.sum().item())
            return x * len(log)

        def last(x):
            log.append(x.sum().item())
            return x * log[-1]

        def total(x):
            log.append(2.0)
            return x * sum(v for v in log)

        def counted(x):
            seen.add(3)
            return x * len(seen)

        def rate(x):
            schedule.step()
            return x * schedule.get_last_lr()[0] + x * opt.param_groups[0]["lr"]

        def updated(x):
            opt.zero_grad()
            (weight * x).sum().backward()
            schedule.step()
            opt.step()
            return weight.detach().clone()

        return locals()[which]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for which in ("length", "last", "total", "counted", "rate", "updated"):
            found = []
            for wrap in (lambda f: f, torch.compile):
                weight.data.fill_(1)
                function = wrap(make(which))
                found.append([function(torch.full((3,), k + 1.0)).tolist() for k in range(6)])
            assert found[0] == found[1], which


class Settings:
    def __init__(self, **values):
        self.__dict__.update(values)


def test_an_exchanged_dict_of_attributes_is_noticed():
    settings = Settings(scale=2.0)
    step = torch.compile(lambda x: x * settings.scale)
    for _ in range(3):
        assert (step(matrix(0)) == matrix(0) * 2).all()
    kept = settings.__dict__
    settings.__dict__ = {"scale": 5.0}
    for _ in range(3):
        assert (step(matrix(0)) == matrix(0) * 5).all()
    settings.__dict__ = kept
    assert (step(matrix(0)) == matrix(0) * 2).all()


def test_an_exchanged_dict_of_a_module_is_noticed():
    one, other = nn.Linear(8, 2), nn.Linear(8, 2)
    step = torch.compile(lambda x: one(x))
    for _ in range(3):
        assert (step(matrix(0)) == one(matrix(0))).all()
    one.__dict__ = other.__dict__
    for _ in range(3):
        assert (step(matrix(0)) == other(matrix(0))).all()


def test_what_an_object_has_is_told_from_what_it_holds():
    class Named(dict):
        pass

    table = Named(a=2.0)
    table.b = 3.0
    step = torch.compile(lambda x: x * table["a"] + table.b)
    for change in (lambda: None, lambda: table.update(a=5.0), lambda: setattr(table, "b", 7.0)):
        change()
        for _ in range(3):
            assert (step(matrix(0)) == matrix(0) * table["a"] + table.b).all()


def test_the_order_of_a_dictionary_is_noticed():
    parts = {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}
    step = torch.compile(lambda x: torch.cat([p + x for p in parts.values()]))
    x = torch.zeros(1)
    for _ in range(3):
        assert step(x).tolist() == [1.0, 2.0]
    parts["a"] = parts.pop("a")
    for _ in range(3):
        assert step(x).tolist() == [2.0, 1.0]
