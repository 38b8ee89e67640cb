"""Objects that a function reaches by unpacking what is in what it reads: at any depth, they were there before."""

import collections
import warnings
from types import SimpleNamespace

import pytest

import jitgrad as torch
from tests.compiler.alike import check, check_noticed, whole

FUNCTIONS = {}


def reached(make):
    """``make(o)`` returns a function of a tensor that reaches ``o.scale`` by what there is."""
    FUNCTIONS[make.__name__] = make
    return make


def scaled(x, pairs):
    for o, s in pairs:
        x = x * o.scale + s
    return x


@reached
def for_loop(o):
    pairs = [[o, 2.0]]
    return lambda x: scaled(x, pairs)


@reached
def deeper_loop(o):
    inside = [[1.0, [[o], 2.0]]]

    def run(x):
        for a, ((first,), b) in inside:
            x = x * first.scale + a + b
        return x

    return run


@reached
def with_star(o):
    inside = [[1.0, 2.0, 3.0, [o]]]

    def run(x):
        for a, *rest, (first,) in inside:
            x = x * first.scale + a + len(rest)
        return x

    return run


@reached
def comprehension(o):
    pairs = [[o, 2.0]]
    return lambda x: x * sum([first.scale * s for first, s in pairs])


@reached
def dictionary_comprehension(o):
    pairs = {"a": [o, 2.0]}
    return lambda x: x * sum({k: first.scale * s for k, (first, s) in pairs.items()}.values())


@reached
def generator(o):
    pairs = [[o, 2.0]]
    return lambda x: x * sum(first.scale * s for first, s in pairs)


@reached
def assignment(o):
    inside = [1.0, [2.0, o]]

    def run(x):
        a, (b, first) = inside
        return x * first.scale + a + b

    return run


@reached
def enumerated(o):
    pairs = [[o, 2.0]]

    def run(x):
        for k, (first, s) in enumerate(pairs):
            x = x * first.scale + k + s
        return x

    return run


@reached
def zipped(o):
    pairs = [[o, 2.0]]

    def run(x):
        for (first, s), k in zip(pairs, [1.0]):
            x = x * first.scale + k + s
        return x

    return run


@reached
def part(o):
    pairs = [[0, 0], [o, 2.0]]
    return lambda x: scaled(x, pairs[1:])


@reached
def starred(o):
    pairs = [[o, 2.0]]
    return lambda x: scaled(x, [*pairs])


@reached
def summed(o):
    inside = [[[o, 2.0]], []]
    return lambda x: scaled(x, sum(inside, []))  # noqa: RUF017


@reached
def key(o):
    table = {o: 2.0}
    return lambda x: x * sum(first.scale * s for first, s in table.items())


@reached
def key_alone(o):
    table = {o: 2.0}

    def run(x):
        for first in table:
            x = x * first.scale
        return x

    return run


@reached
def key_in_a_tuple(o):
    table = {("a", o): [2.0]}
    return lambda x: x * sum(first.scale * s for (_, first), (s,) in table.items())


@reached
def keys_listed(o):
    table = {o: 2.0}
    return lambda x: x * [*table][0].scale


@reached
def deque(o):
    pairs = collections.deque([[o, 2.0]])
    return lambda x: scaled(x, pairs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_change_is_noticed(name):
    o = SimpleNamespace(scale=2.0)
    o = type("Settings", (), {})() if "key" in name else o
    o.scale = 2.0
    check_noticed(FUNCTIONS[name](o), lambda: setattr(o, "scale", 3.0), whole)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_compiled(name):
    o = type("Settings", (), {"scale": 2.0})()
    check(lambda: (FUNCTIONS[name](o), lambda k: (torch.tensor([float(k)]),), list))


def test_what_is_wrong_is_an_error_all_the_same():
    def run(x, inside):
        a, (b, c) = inside
        return x * a + b + c

    compiled, x = torch.compile(run), torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for _ in range(4):
            assert compiled(x, (1, (2, 3))).tolist() == [6, 6]
            for wrong in ((1,), (1, 2, 3), (1, (2,)), (1, (2, 3, 4)), (1, 2)):
                with pytest.raises((ValueError, TypeError), match="unpack"):
                    compiled(x, wrong)


def test_what_is_also_assigned_as_it_is():
    def run(x, inside):
        whole = a, (b, c) = inside
        return x * a + b + c + len(whole)

    check(lambda: (run, lambda k: (torch.tensor([float(k)]), [1, (2, 3)]), list), recordings=0)


def test_a_number_in_a_deque_is_told_from_an_equal_one():
    numbers = collections.deque([2])
    compiled = torch.compile(lambda x: x * sum(numbers))
    for number in (2, 2, 2.0, 2, True):
        numbers[0] = number
        assert compiled(torch.tensor([3])).dtype is (torch.tensor([3]) * sum(numbers)).dtype
