"""What surrounds a call of a compiled function: modes, transforms, errors in a run, and tensors that share memory."""

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import normal

F = nn.functional


class Shared:
    """What a class has for all: a number, a list."""

    factor, calls, log = 2, 0, []

    @classmethod
    def scaled(cls, x):
        return x * cls.factor

    def by_type(self, x):
        return x * type(self).factor


class Derived(Shared):
    pass


def counted(x):
    Shared.calls += 1
    return x * 2


def counted_and_read(x):
    Shared.calls += 1
    return x * Shared.calls


def logged(x):
    Shared.log.append(len(Shared.log))
    return x * len(Shared.log)


CLASSES = {
    "class method": Shared.scaled, "inherited": Derived.scaled, "type": Derived().by_type,
    "global": lambda x: x * Derived.factor, "getattr": lambda x: x * getattr(Shared, "factor"),  # noqa: B009
    "counted": counted, "counted and read": counted_and_read, "logged": logged,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::jitgrad.compiler.CompileWarning")
@pytest.mark.parametrize("name", CLASSES)
def test_attributes_of_classes(name, monkeypatch):
    """They are guarded, and what a function changes of a class is not lost."""
    found = []
    for run in (CLASSES[name], torch.compile(CLASSES[name])):
        monkeypatch.setattr(Shared, "factor", 2)
        monkeypatch.setattr(Shared, "calls", 0)
        monkeypatch.setattr(Shared, "log", [])
        for k in range(7):
            if k == 4:
                Shared.factor = 5
            if k == 6:
                monkeypatch.setattr(Derived, "factor", 7, raising=False)
            found.append((run(normal(3, seed=k)).tolist(), Shared.calls, list(Shared.log)))
        monkeypatch.undo()
    assert found[:7] == found[7:]


def facts(value):
    """What of results can be compared, those that share memory included."""
    if isinstance(value, torch.Tensor):
        return value.tolist(), value._version, value.requires_grad
    return [facts(v) for v in value] if isinstance(value, (list, tuple)) else value


def related(x, w):
    y = x * 2
    return y, y[1:3], y.detach()


def of_a_hidden_base(x, w):
    y = x * 2
    return y[:2], y[1:3], y.detach()[1:]


def of_graphs(x, w):
    y = torch.exp(x * w.sum())
    return y, y[1:3], y.detach()


@pytest.mark.parametrize("function", [related, of_a_hidden_base, of_graphs])
def test_results_that_share_memory(function):
    """Writes to one are counted for the others, and give what they are views of a history."""
    found = []
    for run in (function, torch.compile(function)):
        left = []
        w = normal(2, seed=9).requires_grad_()
        for k in range(4):
            whole, part, apart = run(normal(4, seed=k), w)
            apart.add_(1)
            part.mul_(w)
            left += facts([whole, part, apart, part._base is whole, whole._base is part._base])
            try:
                left.append(facts(torch.autograd.grad((whole * whole).sum(), w)))
            except RuntimeError as error:
                left.append(str(error)[:60])
        found.append(left)
    assert found[0] == found[1]


def test_pieces_of_one_result():
    weight = normal(3, 6).requires_grad_()
    compiled = torch.compile(lambda x: (x @ weight).chunk(3, 1), fullgraph=True)
    for k in range(4):
        x = normal(4, 3, seed=k)
        first, second, third = compiled(x)
        assert first._base is second._base is third._base
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            first.mul_(2)
        (found,) = torch.autograd.grad((first * second).sum() + third.sum(), weight)
        a, b, c = (x @ weight).chunk(3, 1)
        torch.testing.assert_close(found, torch.autograd.grad((a * b).sum() + c.sum(), weight)[0])


def test_a_view_that_no_grad_has_made():
    weight = normal(4).requires_grad_()

    def function(x):
        with torch.no_grad():
            return (x * 2).view(4)

    for run in (function, torch.compile(function, fullgraph=True)):
        for k in range(4):
            found = run(normal(2, 2, seed=k))
            with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace"):
                found += weight


def test_writes_before_an_error_are_counted():
    """Else backward would use what was saved before, and written to since."""

    def results(compiling):
        table, buffer, left = normal(5, 2), torch.zeros(3), []

        def step(i, x):
            buffer.add_(x)
            y = F.embedding(i, table)
            buffer.mul_(2)
            return y.sum() + buffer.sum()

        run = torch.compile(step, fullgraph=True) if compiling else step
        for k, i in enumerate([0, 1, 2, 7, 3, -9, 4]):
            try:
                left.append(run(torch.tensor([i]), normal(3, seed=k)).item())
            except IndexError as error:
                left.append(type(error))
            left.append((buffer.tolist(), buffer._version))
        return left

    assert results(False) == results(True)


def test_autocast_around_a_call():
    """A recording holds where ops are cast to the same dtype; casts of parameters are made in each run."""

    def results(compiling):
        layer = nn.Linear(3, 2)
        with torch.no_grad():
            layer.weight.copy_(normal(2, 3))
            layer.bias.zero_()
        run, found = torch.compile(layer) if compiling else layer, []
        for k, dtype in enumerate([None, torch.bfloat16] * 3 + [torch.float16, torch.bfloat16, None]):
            with torch.no_grad(), torch.autocast("cpu", dtype, enabled=dtype is not None):
                layer(normal(4, 3))  # leaves casts of the parameters where there is no graph
                found.append(run(normal(4, 3, seed=k)))
                layer.weight.mul_(1.5)
        return found

    for e, c in zip(results(False), results(True), strict=True):
        assert e.dtype is c.dtype
        torch.testing.assert_close(c, e)


def test_transforms_and_modes_of_a_call():
    """They see the ops of the function, which then runs as it is."""
    weight, seen = normal(3).requires_grad_(), []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **kwargs or {})

    def function(x):
        return (x * weight).sin().sum()

    compiled = torch.compile(function, fullgraph=True)
    for k in range(4):
        x, rows = normal(3, seed=k), normal(4, 3, seed=k)
        torch.testing.assert_close(torch.vmap(compiled)(rows), torch.vmap(function)(rows))
        torch.testing.assert_close(torch.func.grad(compiled)(x), torch.func.grad(function)(x))
        torch.testing.assert_close(compiled(x), function(x))
        with Mode():
            compiled(x)
        assert seen == ["mul", "sin", "sum"] * (k + 1)


def test_attributes_set_on_a_compiled_module():
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    compiled = torch.compile(net)
    compiled.scale = 3
    compiled.training = False
    compiled.extra = nn.Parameter(torch.ones(1))
    assert net.scale == 3 and not net.training and "extra" in dict(net.named_parameters())
    assert "scale" not in vars(compiled) and compiled.scale == 3
