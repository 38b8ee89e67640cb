"""What a function leaves in Python's objects, in all the ways there are: each call leaves it, compiled or not."""

import functools
import operator
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import contextmanager, nullcontext
from itertools import count
from types import SimpleNamespace

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import CUTS

CASES = []


def case(make):
    """``make()`` returns a function of a tensor, and what tells what it has left so far."""
    CASES.append(make)
    return make


def _on(state, *functions):
    """Functions of (state, x), each with a state of its own."""
    for function in functions:

        def make(function=function):
            own = state()
            return lambda x: function(own, x), lambda: own

        CASES.append(make)


_on(
    list,
    lambda own, x: (own.append(1), x * 2)[1],
    lambda own, x: (own.append(len(own)), x * 2)[1],
    lambda own, x: (own.append(tuple(x.shape)), x * 2)[1],
    lambda own, x: (own.append((x * 2).sum().item()), x * 2)[1],
    lambda own, x: (own.extend([1, 2]), x * len(own))[1],
    lambda own, x: (own.insert(0, len(own)), x * own[0])[1],
    lambda own, x: ([own.append(k) for k in range(2)], x * 2)[1],
    lambda own, x: (list(map(own.append, [1, 2])), x * 2)[1],
    lambda own, x: (sorted([2, 1], key=lambda v: own.append(v) or v), x * 2)[1],
    lambda own, x: (operator.iadd(own, [1]), x * len(own))[1],
)
_on(
    dict,
    lambda own, x: (own.update(a=own.get("a", 0) + 1), x * own["a"])[1],
    lambda own, x: (operator.setitem(own, "a", own.get("a", 0) + 1), x * 2)[1],
    lambda own, x: x * (own.setdefault("a", 1) + (own.pop("a") if "a" in own else 0)),
)
_on(set, lambda own, x: (own.add(len(own)), x * len(own))[1], lambda own, x: (own.add(1), x * 2)[1])
_on(deque, lambda own, x: (own.append(2), x * 2)[1], lambda own, x: (own.appendleft(len(own)), x * own[0])[1])
_on(Counter, lambda own, x: (own.update("a"), x * own["a"])[1])
_on(lambda: defaultdict(int), lambda own, x: x * own["a"])
_on(lambda: OrderedDict(a=1, b=2), lambda own, x: (own.move_to_end("a"), x * next(iter(own.values())))[1])


@case
def bound_method_of_a_list():
    found = []
    append = found.append
    return lambda x: (append(1), x * 2)[1], lambda: found


@case
def default_of_an_argument():
    def function(x, found=[]):  # noqa: B006 - that is what is tested
        found.append(1)
        return x * len(found)

    return function, lambda: function.__defaults__


@case
def default_of_a_keyword():
    class Steps:
        def step(self, x, *, seen={}):  # noqa: B006 - that is what is tested
            seen["steps"] = seen.get("steps", 0) + 1
            return x * seen["steps"]

    steps = Steps()
    return lambda x: steps.step(x), lambda: Steps.step.__kwdefaults__["seen"]


@case
def default_that_counts():
    def function(x, counts=SimpleNamespace(steps=0)):  # noqa: B008 - that is what is tested
        counts.steps += 1
        return x * 2

    counts = function.__defaults__[0]
    counts.steps = 0
    return function, lambda: counts.steps


@case
def default_of_a_function_inside():
    def function(x):
        def inner(y, found=[1, 2], first=x[0]):  # noqa: B006 - a new one in each call
            found.append(3)
            return y * len(found) + first

        return inner(x)

    return function, lambda: None


@case
def partial_of_a_tensor_of_the_call():
    def function(x):
        scaled = functools.partial(torch.mul, (x * 2)[0])
        return scaled(x)

    return function, lambda: None


@case
def keyword_of_a_partial():
    seen = {"steps": 0}

    def function(x, seen):
        seen["steps"] += 1
        return x * seen["steps"]

    return functools.partial(function, seen=seen), lambda: seen


@case
def attribute_of_a_function():
    def function(x):
        function.calls += 1
        return x * 2

    function.calls = 0
    return function, lambda: function.calls


@case
def attribute_of_a_function_that_is_read():
    def calls():
        calls.count += 1
        return calls.count

    calls.count = 0
    return lambda x: x * calls(), lambda: calls.count


@case
def attribute_of_a_dictionary():
    class Counts(dict):
        pass

    counts = Counts()
    counts.steps = 0

    def function(x):
        counts.steps += 1
        return x * 2

    return function, lambda: counts.steps


@case
def item_of_a_dictionary_by_attribute():
    class Counts(dict):
        __getattr__ = dict.__getitem__
        __setattr__ = dict.__setitem__

    counts = Counts(steps=0)

    def function(x):
        counts.steps += 1
        return x * counts.steps

    return function, lambda: counts


class Steps:
    """An iterator with a state."""

    def __init__(self):
        self.steps = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.steps += 1
        if self.steps % 3 == 0:
            raise StopIteration
        return self.steps


@case
def iterator_of_a_class():
    steps = Steps()

    def function(x):
        for step in steps:
            x = x * step
        return x

    return function, lambda: steps.steps


_on(
    Steps, lambda own, x: x * sum(own), lambda own, x: x * len([*own]), lambda own, x: x * sum(k for k in own),
    lambda own, x: x * next(own, 7), lambda own, x: x * list(own)[0],
)  # fmt: skip
_on(count, lambda own, x: x * next(own))


@case
def property_of_a_class_that_counts():
    class Kind(type):
        @property
        def next(cls):
            cls.count += 1
            return cls.count

    class Counts(metaclass=Kind):
        count = 0

    return lambda x: x * Counts.next, lambda: Counts.count


@case
def targets_of_statements():
    own = SimpleNamespace(a=1, b=1, c=1)

    def function(x):
        for own.a in range(3):
            pass
        with nullcontext(7) as own.b:
            pass
        (own.c, *_), own.a = (own.c + 1, 3), 5
        return x * own.c

    return function, lambda: vars(own)


@case
def context_manager():
    found = []

    @contextmanager
    def noted():
        found.append(1)
        yield
        found.append(2)

    def function(x):
        with noted():
            return x * 2

    return function, lambda: found


@case
def module_with_a_counter():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))
            self.calls = 0

        def forward(self, x):
            self.total = self.total + x
            self.calls += 1
            return self.total * 2

    module = Counting()
    return lambda x: module(x), lambda: (module.total.tolist(), module.calls)


@case
def exchanged_tensors():
    own = SimpleNamespace(a=torch.ones(2), b=torch.zeros(2))

    def function(x):
        own.a, own.b = own.b, own.a
        own.b += x
        return x + own.a

    return function, lambda: (own.a.tolist(), own.b.tolist())


@case
def containers_changed_by_functions_of_operator():
    own = SimpleNamespace(named={"a": 0}, items=[0])

    def function(x):
        operator.setitem(own.named, "a", own.named["a"] + 1)
        operator.iadd(own.items, [1])
        operator.delitem(own.items, 0)
        return x * 2

    return function, lambda: (dict(own.named), list(own.items))


@case
def containers_changed_in_place():
    own = SimpleNamespace(named={}, numbers=set(), items=[])

    def function(x):
        own.named |= {len(own.named): 1}
        own.numbers |= {len(own.numbers)}
        own.items += [1]
        return x * 2

    return function, lambda: (dict(own.named), set(own.numbers), list(own.items))


def _counting(read, counts=lambda kind, own: own):
    """A counter that is read by another way than the one by which it is counted."""

    def make():
        class Kind:
            n = 0

            @property
            def number(self):
                return self._number

            @number.setter
            def number(self, value):
                self._number = value

        own = Kind()
        own._number = 0

        def function(x):
            counts(Kind, own).n += 1
            own.number += 1
            return x * read(own)

        return function, lambda: (Kind.n, own.n, own._number)

    return make


for name, make in {
    "counter_of_the_class": _counting(lambda own: own.n, lambda kind, own: kind),
    "counter_in_the_own_dict": _counting(lambda own: own.__dict__["n"]),
    "counter_by_property": _counting(lambda own: own.number),
    "counter_that_nothing_reads": _counting(lambda own: 2),
}.items():
    make.__name__ = name
    case(make)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.__name__)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_effects_are_never_lost(make, cut):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        (one, left_by_one), (other, left_by_other) = make(), make()
        assert _calls(torch.compile(cut(one)), left_by_one) == _calls(cut(other), left_by_other)


def _calls(function, left):
    """Results of calls and, as text, what each has left."""
    found = []
    for k in range(6):
        result = function(torch.tensor([1.0, k])).tolist()
        state = left()
        found.append((result, repr(vars(state) if isinstance(state, Steps) else state)))
    return found
