"""What a function reads of Python's objects, in all the ways there are: a change of it is noticed by the next call."""

import functools
import warnings
from collections import Counter, OrderedDict, UserDict, deque
from types import SimpleNamespace

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import CUTS, check_noticed

CASES = []


def case(make):
    """``make()`` returns a function of a tensor, and what changes what that reads."""
    CASES.append(make)
    return make


class ByItem(dict):
    __getattr__ = dict.__getitem__


class ByMethod(dict):
    def __getattr__(self, name):
        return self[name]

    def __setattr__(self, name, value):
        self[name] = value


class ByOwnDict(dict):
    def __init__(self, **values):
        super().__init__(values)
        self.__dict__ = self


@case
def dictionary_whose_items_are_attributes():
    settings = ByItem(scale=2.0)
    return lambda x: x * settings.scale, lambda: settings.update(scale=3.0)


@case
def dictionary_with_getattr():
    settings = ByMethod(scale=2.0)
    return lambda x: x * settings.scale, lambda: setattr(settings, "scale", 3.0)


@case
def dictionary_that_is_its_own_dict():
    settings = ByOwnDict(scale=2.0)
    return lambda x: x * settings.scale, lambda: settings.update(scale=3.0)


@case
def property_of_a_dictionary():
    class Settings(dict):
        @property
        def scale(self):
            return self["scale"]

    settings = Settings(scale=2.0)
    return lambda x: x * settings.scale, lambda: settings.update(scale=3.0)


@case
def class_attribute_of_a_dictionary():
    class Settings(dict):
        scale = 2.0

    settings = Settings()
    return lambda x: x * settings.scale, lambda: setattr(Settings, "scale", 3.0)


@case
def attribute_of_a_list():
    class Sizes(list):
        pass

    sizes = Sizes([1])
    sizes.scale = 2.0
    return lambda x: x * sizes.scale, lambda: setattr(sizes, "scale", 3.0)


@case
def property_of_a_list():
    class Sizes(list):
        first = property(lambda self: self[0])

    sizes = Sizes([2.0])
    return lambda x: x * sizes.first, lambda: sizes.insert(0, 3.0)


@case
def items_by_a_method_of_a_list():
    class Sizes(list):
        def __getitem__(self, key):
            return list.__getitem__(self, key) * 10

    sizes = Sizes([2.0])
    return lambda x: x * sizes[0], lambda: sizes.insert(0, 3.0)


@case
def attribute_of_a_float():
    class Number(float):
        pass

    number = Number(2.0)
    number.scale = 2.0
    return lambda x: x * number.scale, lambda: setattr(number, "scale", 3.0)


@case
def attribute_of_a_function():
    def scaled(x):
        return x * scaled.scale

    scaled.scale = 2.0
    return scaled, lambda: setattr(scaled, "scale", 3.0)


@case
def what_a_partial_holds():
    settings = {"scale": 2.0}

    def scaled(x, settings):
        return x * settings["scale"]

    return functools.partial(scaled, settings=settings), lambda: settings.update(scale=3.0)


@case
def keywords_of_a_partial_that_is_called():
    scaled = functools.partial(torch.mul, other=2.0)
    return lambda x: scaled(x), lambda: scaled.keywords.update(other=3.0)


@case
def default_of_an_argument():
    settings = [2.0]

    def scaled(x, settings=settings):
        return x * settings[0]

    return scaled, lambda: settings.insert(0, 3.0)


@case
def order_of_an_ordered_dict():
    parts = OrderedDict(a=2.0, b=3.0)
    return lambda x: x * next(iter(parts.values())), lambda: parts.move_to_end("a")


@case
def item_of_a_deque():
    numbers = deque([2.0, 3.0])
    return lambda x: x * numbers[0], lambda: numbers.rotate()


@case
def dictionary_with_an_order_of_its_own():
    class Sorted(dict):
        backwards = False

        def __iter__(self):
            return iter(sorted(self.keys(), reverse=self.backwards))

    settings = Sorted(a=1.0, b=2.0)

    def function(x):
        for key in settings:
            x = (x + 1) * settings[key]
        return x

    return function, lambda: setattr(settings, "backwards", True)


@case
def counter():
    counts = Counter(a=2)
    return lambda x: x * counts["a"] * counts.total(), lambda: counts.update("a")


@case
def user_dict():
    settings = UserDict(scale=2.0)
    return lambda x: x * settings["scale"], lambda: settings.update(scale=3.0)


@case
def property_of_the_base_class():
    class Base:
        def __init__(self):
            self.number = 2.0

        @property
        def scale(self):
            return self.number

    class Settings(Base):
        @property
        def scale(self):
            return super().scale * 2

    settings = Settings()
    return lambda x: x * settings.scale, lambda: setattr(settings, "number", 3.0)


@case
def attribute_of_the_base_class():
    class Base:
        scale = 2.0

    class Settings(Base):
        def twice(self):
            return super().scale * 2

    settings = Settings()
    return lambda x: x * settings.twice(), lambda: setattr(Base, "scale", 3.0)


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def _of_modules(function):
    def make():
        layers = nn.ModuleList([nn.Identity(), nn.Identity()])

        def run(x):
            for layer in function(layers):
                x = layer(x) + 1
            return x

        return run, lambda: layers.__setitem__(0, Doubled())

    return make


for _function in (
    lambda m: m, list, tuple, reversed, lambda m: m[:1], lambda m: [layer for _, layer in enumerate(m)],
    lambda m: [a for a, b in zip(m, m)], lambda m: [*m], lambda m: sorted(m, key=lambda layer: 0),
    lambda m: m.children(),
):  # fmt: skip
    CASES.append(_of_modules(_function))


@case
def modules_by_name():
    layers = nn.ModuleDict({"a": Doubled()})

    def run(x):
        for name, layer in layers.items():
            x = layer(x) + len(name)
        return x

    return run, lambda: layers.update({"other": Doubled()})


@case
def parameters_in_a_list():
    weights = nn.ParameterList([torch.tensor([2.0, 2.0])])
    return lambda x: (x * sum(weights)).detach(), lambda: weights.append(torch.tensor([3.0, 3.0]))


@case
def property_of_a_class():
    class Kind(type):
        scale = property(lambda cls: cls.number)

    class Settings(metaclass=Kind):
        number = 2.0

    return lambda x: x * Settings.scale, lambda: setattr(Settings, "number", 3.0)


@case
def nested_objects():
    settings = SimpleNamespace(inner=[1, [2.0]])
    return lambda x: x * settings.inner[1][0], lambda: settings.inner[1].insert(0, 3.0)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_change_is_noticed(make, cut):
    check_noticed(*make(), cut)


@pytest.mark.parametrize("kind", ["list", "cell"])
def test_another_number_at_the_address_of_an_equal_one_is_noticed(kind):
    """Items of lists and variables are told by address: an equal number in their place lives as long as it is that."""
    scale, scales = float("2.0"), [float("2.0")]

    def assign(value):
        nonlocal scale
        scale, scales[0] = (value, scales[0]) if kind == "cell" else (scale, value)

    compiled = torch.compile((lambda x: x * scales[0]) if kind == "list" else (lambda x: x * scale))
    for number in ("2.0", "2.0", "2.00", "3.0", "2.000", "4.0"):
        assign(None)
        assign(float(number))
        assert compiled(torch.ones(2)).tolist() == [float(number)] * 2


def test_lambdas_on_one_line_are_told_apart():
    double, triple, inner = lambda x: x * 2, lambda x: x * 3, lambda x: (lambda x: x + 1)(x) * 5
    for function in (double, triple, inner):
        compiled = torch.compile(function, fullgraph=True)
        for _ in range(3):
            assert compiled(torch.ones(2)).tolist() == function(torch.ones(2)).tolist()
        assert len(compiled._variants) == 1


class Equal:
    def __init__(self, scale):
        self.scale = scale

    def __eq__(self, other):
        return True

    __hash__ = None


def _product(x, numbers):
    for number in numbers:
        x = x * number
    return x


EXCHANGED = {
    "set": ({1}, lambda held: (held.clear(), held.add(1.0)), _product),
    "deque": (deque([0.0]), lambda held: (held.clear(), held.append(-0.0)), lambda x, held: x / held[0]),
    "deque_of_tensors": (
        deque([torch.tensor([1.0, 2.0])]),
        lambda held: held.append(held.pop() + torch.tensor([0.0, 1.0])),
        lambda x, held: sum([x * t for t in held]),
    ),
    "deque_of_objects": (
        deque([Equal(2)]),
        lambda held: held.append(Equal(3 * held.pop().scale)),
        lambda x, held: sum([x * item.scale for item in held]),
    ),
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_equal_items_do_not_stand_for_each_other(name):
    held, change, function = EXCHANGED[name]
    x = torch.tensor([1, 2])
    compiled = torch.compile(lambda x: function(x, held))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for k in range(6):
            if k == 3:
                change(held)
            assert str(compiled(x)) == str(function(x, held))


def test_an_equal_tensor_in_a_deque_is_the_one_written_to():
    held = deque([torch.tensor(2.0)])

    @torch.compile
    def function(x):
        for tensor in held:
            tensor.add_(1)
        return x * 2

    for _ in range(3):
        function(torch.ones(2))
    old, held[0] = held[0], held[0].clone()
    for _ in range(3):
        function(torch.ones(2))
    assert (old.item(), held[0].item()) == (5.0, 8.0)


def test_signs_of_complex_zeros_are_told_apart():
    x = torch.complex(torch.tensor([-1.0]), torch.tensor([-0.0]))
    compiled = torch.compile(lambda number: (x + number).sqrt())
    for number in (complex(0, -0.0), complex(0, -0.0), complex(0, 0.0), complex(0, -0.0)):
        assert str(compiled(number)) == str((x + number).sqrt())
