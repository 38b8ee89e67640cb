"""func.functional_call and stack_module_state under PyTorch and here."""

import re

import pytest

import jitgrad

torch = pytest.importorskip("torch")
CASES = []


def case(function):
    CASES.append(function)
    return function


def plain(value):
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        return tuple(value.shape), value.requires_grad, type(value).__name__, value.detach().tolist()
    if isinstance(value, Exception):
        return type(value).__name__, re.sub(r"jitgrad\.", "torch.", str(value))
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (tuple, list)) else value


def run(function, library):
    try:
        return plain(function(library))
    except Exception as error:
        return plain(error)


def error_of(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return error


def linear(torch, value=1.0):
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0]]) * value)
        layer.bias.fill_(value)
    return layer


def counting(torch):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(2.0))
            self.register_buffer("count", torch.tensor(0.0))
            self.plain = torch.tensor(7.0)

        def forward(self, x, *, plus=0.0):
            self.count = self.count + 1
            return x * self.scale + plus + self.plain

    return Counting()


def tied(torch):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = linear(torch)
            self.second = linear(torch)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.first(x) + 10 * self.second(x)

    return Tied()


@case
def replaced(torch):
    layer, x = linear(torch), torch.ones(1, 2)
    weight = torch.tensor([[3.0, 4.0]], requires_grad=True)
    out = torch.func.functional_call(layer, {"weight": weight}, x)
    out.sum().backward()
    return [out, weight.grad, layer.weight, layer.weight.grad, layer.bias.grad]


@case
def arguments(torch):
    call, module, x = torch.func.functional_call, counting(torch), torch.ones(2)
    return [call(module, {}, (x,)), call(module, {}, x, {"plus": 1.0}), call(module, {}, (), {"x": x}),
            call(module, {}, None, {"x": x}), error_of(call, module, {}), error_of(call, module, {}, [x])]  # fmt: skip


@case
def several_dictionaries(torch):
    layer, x = linear(torch), torch.ones(1, 2)
    call, new = torch.func.functional_call, torch.full((1,), 5.0)
    return [call(layer, ({"bias": new}, {"weight": layer.weight}), x), call(layer, [{"bias": new}], x),
            error_of(call, layer, ({"bias": new}, {"bias": new}), x), error_of(call, layer, [3], x),
            error_of(call, layer, 3, x)]  # fmt: skip


@case
def buffers_are_written_back(torch):
    module, state = counting(torch), {"count": torch.tensor(5.0), "scale": torch.tensor(3.0)}
    out = torch.func.functional_call(module, state, torch.ones(1))
    return [out, state, module.count, module.scale, sorted(dict(module.named_buffers()))]


@case
def plain_attribute(torch):
    module = counting(torch)
    out = torch.func.functional_call(module, {"plain": torch.tensor(1.0)}, torch.ones(1))
    return [out, module.plain]


@case
def strict(torch):
    layer, x, new = linear(torch), torch.ones(1, 2), torch.ones(1)
    call = torch.func.functional_call
    return [error_of(call, layer, {"bias": new}, x, strict=True), error_of(call, layer, {"bia": new}, x, strict=True),
            error_of(call, layer, {"bias": new, "a": new, "weight": new, "b.c": new}, x, strict=True),
            call(layer, {"bias": new, "weight": torch.ones(1, 2)}, x, strict=True)]  # fmt: skip


@case
def wrong(torch):
    layer, x = linear(torch), torch.ones(1, 2)
    call = torch.func.functional_call
    return [error_of(call, layer, {"bias": 3}, x), call(layer, {"bias": None}, x), layer.bias]


@case
def tied_weights(torch):
    module, x = tied(torch), torch.ones(1, 2)
    call, new, other = torch.func.functional_call, torch.ones(1, 2) * 3, torch.ones(1, 2) * 4
    return [call(module, {"first.weight": new}, x), call(module, {"second.weight": new}, x),
            call(module, {"first.weight": new, "second.weight": new}, x),
            error_of(call, module, {"first.weight": new, "second.weight": other}, x),
            call(module, {"first.weight": new, "second.weight": other}, x, tie_weights=False),
            call(module, {"first.weight": new}, x, tie_weights=False), module(x)]  # fmt: skip


@case
def errors_restore(torch):
    layer = linear(torch)
    before = layer.weight
    error = error_of(torch.func.functional_call, layer, {"weight": torch.ones(3, 5)}, torch.ones(1, 2))
    return [isinstance(error, RuntimeError), layer.weight is before]


@case
def stacked(torch):
    models = [linear(torch, 1.0), linear(torch, 2.0)]
    params, buffers = torch.func.stack_module_state(models)
    one = counting(torch)
    other = type(one)()
    other.count.fill_(4.0)
    counters, counts = torch.func.stack_module_state([one, other])
    return [params, buffers, counters, counts, [p.is_leaf for p in params.values()]]


@case
def stacked_wrong(torch):
    stack, frozen, evaluated = torch.func.stack_module_state, linear(torch), linear(torch)
    frozen.bias.requires_grad_(False)
    evaluated.eval()
    return [error_of(stack, []), error_of(stack, [linear(torch), evaluated]), error_of(stack, [linear(torch), frozen]),
            error_of(stack, [linear(torch), counting(torch)]), stack([frozen, frozen])]  # fmt: skip


@case
def ensemble(torch):
    models = [linear(torch, 1.0), linear(torch, 2.0), linear(torch, -1.0)]
    params, buffers = torch.func.stack_module_state(models)
    x = torch.tensor([[1.0, 2.0], [3.0, -1.0]])

    def call(params, buffers, x):
        return torch.func.functional_call(models[0], (params, buffers), (x,))

    out = torch.func.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    out.sum().backward()
    return [out.detach(), params["weight"].grad, params["bias"].grad]


@case
def gradients_per_sample(torch):
    layer, x = linear(torch), torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    params = {k: v.detach() for k, v in layer.named_parameters()}

    def loss(params, row):
        return (torch.func.functional_call(layer, params, (row,)) ** 2).sum()

    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(params, x)


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_same_as_torch(function):
    assert run(function, jitgrad) == run(function, torch)
