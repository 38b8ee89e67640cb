"""What a function finds in classes, by objects from outside and new ones: an exchange is noticed, effects happen."""

import functools
import itertools
import sys
import warnings

import pytest

import jitgrad as torch
from jitgrad.kernels.program import words_of_class
from tests.compiler.alike import CUTS, check_noticed

CASES = []


def case(make):
    """``make()`` returns a function of a tensor, and what exchanges something in a class that it uses."""
    CASES.append(make)
    return make


def _exchanged(what, function, value, known):
    """A class with ``what``, functions of an object of it, and the exchange of that for one that has another value."""

    class Thing:
        def __init__(self):
            self.own = 2

    setattr(Thing, what, value(2))
    thing = Thing()
    made = (lambda x: function(x, thing)) if known else (lambda x: function(x, Thing()))
    return made, lambda: setattr(Thing, what, value(3))


def _method(number):
    return lambda self, *args: number


def _each(number):
    return lambda self: iter([number, number])


def _init(number):
    def init(self):
        self.own = number

    return init


EXCHANGED = {
    "property": ("scale", lambda x, t: x * t.scale, lambda n: property(lambda self: n)),
    "method": ("scaled", lambda x, t: x * t.scaled(), _method),
    "attribute": ("scale", lambda x, t: x * t.scale, lambda n: n),
    "static_method": ("scale", lambda x, t: x * t.scale(), lambda n: staticmethod(lambda: n)),
    "call": ("__call__", lambda x, t: x * t(), _method),
    "getitem": ("__getitem__", lambda x, t: x * t[0], _method),
    "len": ("__len__", lambda x, t: x * len(t), _method),
    "bool": ("__bool__", lambda x, t: x * (2 if t else 3), lambda n: lambda self: n == 2),
    "contains": ("__contains__", lambda x, t: x * (2 if 1 in t else 3), lambda n: lambda self, item: n == 2),
    "iter": ("__iter__", lambda x, t: x * sum(list(t)), _each),
    "getattr": ("__getattr__", lambda x, t: x * t.other, _method),
}


@pytest.mark.parametrize("known", [True, False], ids=["known", "new"])
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("what", EXCHANGED)
def test_what_is_exchanged_in_a_class_is_noticed(what, cut, known):
    name, function, value = EXCHANGED[what]
    check_noticed(*_exchanged(name, function, value, known), cut)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
def test_an_exchanged_init_is_noticed(cut):
    check_noticed(*_exchanged("__init__", lambda x, t: x * t.own, _init, False), cut)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
def test_an_exchange_in_a_base_class_is_noticed(cut):
    class Base:
        def scaled(self):
            return 2

    class Thing(Base):
        def scaled(self):
            return super().scaled() + 1

    thing = Thing()
    check_noticed(lambda x: x * thing.scaled(), lambda: setattr(Base, "scaled", lambda self: 5), cut)


def test_objects_of_classes_do_not_keep_a_function_from_being_compiled():
    class Thing:
        scale = 2.0

        def __init__(self, x):
            self.x = x

        @property
        def scaled(self):
            return self.x * self.scale

    compiled = torch.compile(lambda x: Thing(x).scaled, fullgraph=True)
    for k in range(4):
        assert compiled(torch.full((2,), float(k))).tolist() == [2.0 * k, 2.0 * k]
    assert len(compiled._variants) == 1


def test_a_list_of_a_class_grows_with_every_call():
    class Thing:
        log = []

        def __init__(self):
            pass

    @torch.compile
    def function(x):
        Thing().log.append(1)
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for k in range(5):
            function(torch.ones(2))
            assert len(Thing.log) == k + 1


@pytest.mark.skipif(sys.version_info[:2] > (3, 13), reason="classes have versions up to Python 3.13")
def test_words_of_classes_change_with_them_and_their_bases():
    class Base:
        pass

    class Thing(Base):
        pass

    known = [words_of_class(Thing)]
    changes = [lambda: None, lambda: setattr(Base, "x", 1), lambda: setattr(Thing, "x", 2), lambda: delattr(Base, "x")]
    for change in changes:
        change()
        known.append(words_of_class(Thing))
    assert None not in known and known[0] == known[1]
    assert all(one != other for one, other in itertools.pairwise(known[1:]))


def _storing(**methods):
    """A class whose new objects are stored to by a method, which counts."""
    calls = []

    def logged(method):
        def run(*args):
            calls.append(1)
            return method(*args)

        return run

    return type("Thing", (), {"__init__": lambda self: None, **{k: logged(m) for k, m in methods.items()}}), calls


def _set_value(thing):
    thing.value = 2
    return thing.__dict__["value"]


def _set_item(thing):
    thing[0] = 2
    return thing.value


class Descriptor:
    calls = []

    def __get__(self, owner, kind):
        self.calls.append(1)
        return owner.own

    def __set__(self, owner, value):
        self.calls.append(1)
        owner.own = value


def test_methods_that_store_in_new_objects_are_called_each_time():
    by_item, items = _storing(__setitem__=lambda self, key, value: setattr(self, "value", value))
    by_name, names = _storing(__setattr__=lambda self, name, value: object.__setattr__(self, name, value))
    described = type("Described", (), {"__init__": lambda self: None, "value": Descriptor()})

    class Limited:
        calls = []

        def __init__(self):
            pass

        @property
        def value(self):
            return self.limited

        @value.setter
        def value(self, value):
            self.calls.append(1)
            self.limited = value

    def by_property(x):
        thing = Limited()
        thing.value = 2
        return x * thing.value

    def by_descriptor(x):
        thing = described()
        thing.value = 2
        return x * thing.value

    cases = [
        (lambda x: x * _set_item(by_item()), items), (lambda x: x * _set_value(by_name()), names),
        (by_property, Limited.calls), (by_descriptor, Descriptor.calls),
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for function, calls in cases:
            calls.clear()
            function(torch.ones(2))
            each, compiled = len(calls), torch.compile(function)
            for k in range(2, 6):
                assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
                assert len(calls) == k * each > 0


def test_what_python_calls_when_objects_are_made_or_go():
    calls = []

    class Dropped:
        def __init__(self):
            pass

        def __del__(self):
            calls.append(1)

    class Failure(Exception):
        def __init__(self):
            calls.append(1)

    class Doubled(tuple):
        def __new__(cls, *items):
            calls.append(1)
            return super().__new__(cls, [2 * item for item in items])

    def raises(x):
        try:
            raise Failure()
        except Failure:
            return x * 2

    def drops(x):
        Dropped()
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for function in (raises, drops, lambda x: x * Doubled(1.0)[0]):
            calls.clear()
            compiled = torch.compile(function)
            for k in range(1, 5):
                assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
                assert len(calls) == k


@pytest.mark.parametrize("known", [True, False])
def test_cached_properties(known):
    state = {"scale": 2.0}

    class Thing:
        def __init__(self):
            self.weight = torch.tensor([1.0, 2.0])

        @functools.cached_property
        def doubled(self):
            return self.weight * state["scale"]

    def outcome(compile):
        state["scale"] = 2.0
        thing, found = Thing(), []
        function = compile(lambda x: x * (thing if known else Thing()).doubled)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.compiler.CompileWarning)
            for k in range(6):
                state["scale"] = 2.0 + k // 3
                found.append(function(torch.ones(2)).tolist())
                thing.weight.add_(1)
        return found

    assert outcome(torch.compile) == outcome(lambda function: function)
