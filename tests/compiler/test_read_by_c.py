"""What code in C reads of objects, or calls of their classes: a change is noticed by the next call."""

import abc
import array
import operator
import types
from collections import UserList
from contextlib import nullcontext
from enum import Enum, IntEnum

import numpy as np
import pytest

import jitgrad as torch
from tests.compiler.alike import CUTS, check_noticed


class Value:
    def __init__(self, held):
        self.held = held

    def __eq__(self, other):
        return self.held == (other.held if isinstance(other, Value) else other)

    def __hash__(self):
        return hash(self.held)

    def __lt__(self, other):
        return self.held < other.held

    def __gt__(self, other):
        return self.held > other.held

    def __bool__(self):
        return self.held < 3

    def __str__(self):
        return str(self.held)

    def __add__(self, other):
        return self.held + other

    __radd__ = __add__


TABLE = {Value(2.0): 2.0, Value(3.0): 3.0}


def _same(value):
    return value


OF_VALUES = {
    "text_of_a_tuple": lambda v: float("%s" % (v,)),  # noqa: UP031 - what is tested
    "equal_tuples": lambda v: 2.0 if (1, (v,)) == (1, (Value(2.0),)) else 3.0,
    "item_of_a_dictionary": lambda v: TABLE[v],
    "get_of_a_dictionary": lambda v: TABLE.get(v, 5.0),
    "key_in_a_tuple": lambda v: {(1, Value(2.0)): 2.0, (1, Value(3.0)): 3.0}[1, v],
    "in_a_dictionary": lambda v: 2.0 if Value(2.0) in {v: 1} else 3.0,
    "any_of_a_generator": lambda v: 2.0 if any(w for w in [v]) else 3.0,
    "filtered_generator": lambda v: 1.0 + len(list(filter(None, (w for w in [v])))),
    "largest_of_a_generator": lambda v: max(w for w in [v, Value(2.5)]).held,
    "sum_of_a_generator": lambda v: sum(w for w in [v]),
    "any_of_a_map": lambda v: 2.0 if any(map(_same, [v])) else 3.0,
}


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("name", OF_VALUES)
def test_methods_that_c_calls(name, cut):
    value = Value(2.0)
    check_noticed(lambda x: x * (OF_VALUES[name](value) + 1), lambda: setattr(value, "held", 3.0), cut)


def _views():
    named = {"a": 2.0}
    return named, lambda: named.update(a=3.0, b=1.0)


def _dictionary(function):
    def make():
        named, change = _views()
        view = function(named)
        return lambda x: [x * v for v in view][0], change

    return make


def _held(make, change, read):
    def case():
        held = make()
        return lambda x: x * read(held), lambda: change(held)

    return case


def _nullcontext():
    manager = nullcontext(2.0)

    def function(x):
        with manager as scale:
            return x * scale

    return function, lambda: setattr(manager, "enter_result", 3.0)


def _float():
    held = {"scale": 2.0}

    class Scaling(float):
        def __mul__(self, other):
            return other * held["scale"]

    scaling = Scaling(1.0)
    return lambda x: scaling * x, lambda: held.update(scale=3.0)


def _registered():
    class Kind(abc.ABC):  # noqa: B024 - it is registered with
        pass

    class Thing:
        pass

    thing = Thing()
    return lambda x: x * (3 if isinstance(thing, Kind) else 2), lambda: Kind.register(Thing)


def _instance():
    class Kind(type):
        def __instancecheck__(cls, value):
            return cls.open

    class Thing(metaclass=Kind):
        open = False

    return lambda x: x * (3 if isinstance(1, Thing) else 2), lambda: setattr(Thing, "open", True)


def _first(held):
    held[0] = 5


HELD = {
    "values": _dictionary(lambda named: named.values()),
    "array": _held(lambda: array.array("d", [1, 2]), _first, sum),
    "bytes": _held(lambda: bytearray([1, 2]), _first, sum),
    "generator_of_lists": _held(lambda: [[1.0]], lambda h: h[0].clear(), lambda h: 2 if any(k for k in h) else 3),
    "tensor_of_arrays": _held(lambda: np.array([1.0, 2.0]), _first, lambda h: torch.tensor([h]).sum()),
    "tensor_of_an_array": _held(lambda: array.array("d", [1, 2]), _first, lambda h: torch.tensor(h).sum()),
    "tensor_of_a_user_list": _held(lambda: UserList([1.0, 2.0]), _first, lambda h: torch.tensor(h).sum()),
    "nullcontext": _nullcontext, "float": _float, "registered": _registered, "instance": _instance,
}  # fmt: skip


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("name", HELD)
def test_what_c_reads(name, cut):
    check_noticed(*HELD[name](), cut)


@pytest.mark.parametrize("view", ["keys", "values", "items"])
def test_views_of_dictionaries_from_outside(view):
    named = {"a": 2.0}
    seen = getattr(named, view)()
    wanted = {"keys": "b", "values": 3.0, "items": ("b", 3.0)}[view]
    check_noticed(lambda x: x * (3 if wanted in seen else 2), lambda: named.update(b=3.0), CUTS[0])


def test_the_length_of_a_proxy():
    held = {"a": 1}
    proxy = types.MappingProxyType(held)
    check_noticed(lambda x: x * len(proxy), lambda: held.update(b=2), CUTS[0])


class Color(Enum):
    RED = 2.0


class Level(IntEnum):
    LOW = 2


COMPILED = {
    "enumeration": lambda x: x * {Color.RED: 2.0}[Color.RED] * Color.RED.value,
    "number_of_an_enumeration": lambda x: x * Level.LOW * 2,
    "abstract": lambda x: x * (4 if isinstance([], (list, abc.ABC)) else 1),
    "generator": lambda x: sum(x * k for k in (1, 3)),
    "largest": lambda x: x * max(k for k in (1, 4)),
    "operator": lambda x: operator.mul(x, 4),
    "nullcontext": lambda x: nullcontext(x * 4).enter_result,
    "view": lambda x: sum(x * v for v in {"a": 1, "b": 3}.values()),
}


@pytest.mark.parametrize("name", COMPILED)
def test_what_stays_compiled(name):
    compiled = torch.compile(COMPILED[name], fullgraph=True)
    for k in range(4):
        x = torch.full((2,), float(k))
        assert compiled(x).tolist() == COMPILED[name](x).tolist() == [4.0 * k] * 2
    assert len(compiled._variants) == 1
