"""What Python's own functions call of a program's objects: a change of what that reads is noticed by the next call."""

import functools
import operator

import pytest

from tests.compiler.alike import CUTS, check_noticed

CASES = []


def case(make):
    """``make()`` returns a function of a tensor, and what changes what that reads."""
    CASES.append(make)
    return make


class Numbers:
    def __init__(self, *values):
        self.values = list(values)

    def __iter__(self):
        return iter(self.values)

    def __len__(self):
        return len(self.values)


class Sequence:
    def __init__(self, *values):
        self.values = list(values)

    def __getitem__(self, key):
        return self.values[key]

    def __len__(self):
        return len(self.values)


def _of_numbers(function):
    def make():
        numbers = Numbers(2.0, 3.0)
        return lambda x: x * function(numbers), lambda: numbers.values.insert(0, 5.0)

    return make


for _function in (
    sum, len, max, lambda n: list(n)[0], lambda n: sorted(n)[-1], lambda n: next(zip(n, n))[0],
    lambda n: next(v for _, v in enumerate(n)), lambda n: [*n][0], lambda n: next(map(abs, n)),
    lambda n: {v: v for v in n}[2.0] * len([v for v in n if v]), lambda n: len(set().union(n)),
    lambda n: functools.reduce(lambda a, b: a * b, n),
):  # fmt: skip
    CASES.append(_of_numbers(_function))


@case
def sequence_gone_through_backwards():
    numbers = Sequence(2.0, 3.0)
    return lambda x: x * next(iter(reversed(numbers))), lambda: numbers.values.append(5.0)


class Number:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def __index__(self):
        return int(self.value)

    def __lt__(self, other):
        return self.value < other.value

    def __radd__(self, other):
        return other + self.value

    def __bool__(self):
        return self.value > 2


def _of_objects(function):
    def make():
        numbers = [Number(2.0), Number(4.0)]
        return lambda x: x * function(numbers), lambda: setattr(numbers[0], "value", 5.0)

    return make


for _function in (
    lambda n: float(n[0]), lambda n: len(range(n[0])), lambda n: [1, 2, 3, 4, 5, 6][n[0]], sum,
    lambda n: max(n).value, lambda n: sorted(n)[0].value, lambda n: 3.0 if all(n) else 1.0,
    lambda n: 2.0 if n[0].value > 2 and n[0] else 1.0,
):  # fmt: skip
    CASES.append(_of_objects(_function))


class Value:
    """Has all of the special methods, which tell what it holds."""

    def __init__(self, held):
        self.held = held

    def __getitem__(self, key):
        return self.held

    def __contains__(self, item):
        return item == self.held

    def __add__(self, other):
        return self.held + other

    def __neg__(self):
        return -self.held

    def __eq__(self, other):
        return other == self.held

    __hash__ = None

    def __lt__(self, other):
        return self.held < getattr(other, "held", other)

    def __gt__(self, other):
        return self.held > getattr(other, "held", other)

    def __bool__(self):
        return self.held > 2

    def __abs__(self):
        return self.held

    def __repr__(self):
        return str(self.held)

    def __divmod__(self, other):
        return self.held, other

    def __pow__(self, other):
        return self.held**other

    def __round__(self, digits=0):
        return self.held


def _of_a_value(function):
    def make():
        value = Value(2.0)
        return lambda x: x * (function(value) + 1), lambda: setattr(value, "held", 3.0)

    return make


for _function in (
    lambda v: operator.getitem(v, 0), lambda v: operator.contains(v, 3.0), lambda v: operator.add(v, 1.0),
    lambda v: operator.neg(v), lambda v: operator.eq(v, 3.0), lambda v: operator.truth(v),
    lambda v: operator.not_(v), lambda v: operator.itemgetter(0)(v), lambda v: operator.attrgetter("held")(v),
    lambda v: max(v, Value(1.0)).held, lambda v: min([Value(2.5), v], key=lambda w: w).held, lambda v: bool(v),
    lambda v: abs(v), lambda v: float(str(v)), lambda v: float(repr(v)), lambda v: divmod(v, 1)[0],
    lambda v: pow(v, 2), lambda v: round(v), lambda v: len(list(filter(None, [v]))), lambda v: any([v]),
    lambda v: [v] == [3.0], lambda v: 3.0 in [v], lambda v: [v].count(3.0), lambda v: (v, 1) < (2.9, 1),
    lambda v: 1.0 < v < 2.5, lambda v: float(f"{v}"), lambda v: float("%s" % v),  # noqa: UP031 - what is tested
    lambda v: float("{}".format(v)), lambda v: (v and 2.0) or 1.0, lambda v: 1.0 if not v else 2.0,  # noqa: UP032
):  # fmt: skip
    CASES.append(_of_a_value(_function))


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_change_is_noticed(make, cut):
    check_noticed(*make(), cut)
