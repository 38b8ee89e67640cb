"""What a function reads of tensors beside their numbers: attributes of a program's own, and those of its classes."""

import warnings

import pytest

import jitgrad as torch


def _with(**attributes):
    tensor = torch.tensor([1.0, 2.0])
    vars(tensor).update(attributes)
    return tensor


def _by_exception(x):
    try:
        return x * x.scale
    except AttributeError:
        return x


READING = {
    "plain": (lambda x: x * x.scale, [{"scale": 2.0}, {"scale": 2.0}, {"scale": 3.0}, {"scale": 3}, {"scale": 2.0}]),
    "private": (lambda x: x * x._scale, [{"_scale": 2.0}, {"_scale": 3.0}, {"_scale": 2.0}]),
    "tested": (lambda x: x * (2 if hasattr(x, "flag") else 3), [{}, {}, {"flag": 1}, {"flag": 1}, {}]),
    "default": (lambda x: x * getattr(x, "scale", 1.0), [{}, {}, {"scale": 2.0}, {"scale": 2.0}, {}]),
    "tried": (_by_exception, [{}, {}, {"scale": 2.0}, {"scale": 3.0}, {}]),
}


@pytest.mark.parametrize("name", READING)
def test_attributes_of_arguments(name):
    function, calls = READING[name]
    compiled = torch.compile(function, fullgraph=True)
    for attributes in calls:
        found, wanted = compiled(_with(**attributes)), function(_with(**attributes))
        assert (found.tolist(), found.dtype) == (wanted.tolist(), wanted.dtype)


@pytest.mark.parametrize("name", READING)
def test_attributes_of_gradients(name):
    function, calls = READING[name]
    weight = torch.ones(2, requires_grad=True)
    compiled = torch.compile(lambda x: x + function(weight.grad), fullgraph=True)
    for attributes in calls:
        weight.grad = _with(**attributes)
        assert compiled(torch.ones(2)).tolist() == (function(weight.grad) + 1).tolist()


@pytest.mark.parametrize("name", READING)
def test_attributes_of_tensors_from_outside(name):
    function, calls = READING[name]
    tensor = _with()
    compiled = torch.compile(lambda x: x + function(tensor), fullgraph=True)
    for attributes in calls:
        for k in ("scale", "_scale", "flag"):
            vars(tensor).pop(k, None)
        for k, value in attributes.items():
            setattr(tensor, k, value)
        assert compiled(torch.ones(2)).tolist() == (function(tensor) + 1).tolist()


def test_where_an_argument_begins_in_its_memory():
    memory = torch.arange(6.0)
    compiled = torch.compile(lambda x: x * x.storage_offset())
    behind = torch.compile(lambda x: x * x[1:].storage_offset())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for k in range(4):
            x = memory[k : k + 2]
            assert compiled(x).tolist() == (x * k).tolist()
            assert behind(x).tolist() == (x * (k + 1)).tolist()


class Scaled(torch.Tensor):
    factor = 2.0

    @property
    def scaled(self):
        return self * self.factor


@pytest.mark.parametrize("exchange", [{"factor": 3.0}, {"scaled": property(lambda self: self * 4)}], ids=" ".join)
def test_what_a_class_of_tensors_adds(exchange, monkeypatch):
    tensor = torch.tensor([1.0, 2.0]).as_subclass(Scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        compiled = torch.compile(lambda x: x.scaled)
        for _ in range(3):
            assert compiled(tensor).tolist() == [2.0, 4.0]
        for name, value in exchange.items():
            monkeypatch.setattr(Scaled, name, value)
        for _ in range(3):
            assert compiled(tensor).tolist() == tensor.scaled.tolist() != [2.0, 4.0]


def test_torch_function_is_called_each_time():
    calls = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    class Wrapped:
        value = 2.0

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function)
            return function(*[a.value if isinstance(a, Wrapped) else a for a in args])

    wrapped = Wrapped()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for function, x in ((lambda x: x * 2, torch.ones(2).as_subclass(Logged)),
                            (lambda x: torch.mul(x, wrapped), torch.ones(2))):  # fmt: skip
            compiled = torch.compile(function)
            for _ in range(4):
                calls.clear()
                function(x)
                wanted = len(calls)
                calls.clear()
                compiled(x)
                assert len(calls) == wanted > 0
