"""Containers among the arguments: which of them are compared by structure, which are objects, what becomes of them."""

import warnings
from collections import Counter, OrderedDict, deque, namedtuple
from types import SimpleNamespace

import pytest

import jitgrad as torch
from jitgrad.utils._pytree import register_pytree_node
from tests.compiler.alike import same

CASES = []


def case(make):
    """``make()`` returns a function and the arguments of some calls, made anew each time."""
    CASES.append(make)
    return make


class Items(list):
    pass


class Named(dict):
    pass


class Pair(tuple):
    pass


class Node:
    def __init__(self, tensor, scale=2.0):
        self.tensor, self.scale, self.calls = tensor, scale, 0


register_pytree_node(Node, lambda node: ([node.tensor], None), lambda children, _: Node(*children))
Point = namedtuple("Point", "x y")


def _x(scale=1.0):
    return torch.tensor([1.0, 2.0]) * scale


def _changed(container, change):
    yield (container,)
    yield (container,)
    change(container)
    yield (container,)


@case
def a_list_of_a_class():
    return lambda items: _x() * items[0], _changed(Items([2.0]), lambda items: items.append(items.pop() + 1))


@case
def a_dictionary_of_a_class():
    return lambda named: named["x"] * 2, _changed(Named(x=_x()), lambda named: named.update(x=_x(3)))


@case
def a_counter():
    return lambda counter: _x() * counter["a"], _changed(Counter(a=2), lambda counter: counter.update(a=5))


@case
def an_attribute_of_a_tuple():
    pair = Pair((1.0, 2.0))
    pair.scale = 2.0
    return lambda pair: _x() * pair.scale, _changed(pair, lambda pair: setattr(pair, "scale", 3.0))


@case
def a_deque_that_grows():
    def function(items):
        items.append(1.0)
        return items[0] * 2

    return function, [(deque([_x(k)]),) for k in range(4)]


@case
def a_registered_pytree():
    return lambda node: node.tensor * node.scale, _changed(Node(_x()), lambda node: setattr(node, "scale", 3.0))


@case
def a_registered_pytree_that_counts():
    def function(node):
        node.calls += 1
        return node.tensor * 2

    return function, [(Node(_x(k)),) for k in range(4)]


@case
def keys_that_are_equal():
    def function(named):
        return {key: value * key for key, value in named.items()}

    return function, [({key: torch.tensor([1, 2])},) for key in (1, 1, 1.0, 1.0, True, 1)]


@case
def keys_that_are_tuples():
    return lambda named: named[1, 2] * 2, [({(1, 2): _x(k)},) for k in range(4)]


@case
def a_result_whose_keys_are_tensors():
    return lambda x: {x: x * 2}, [(_x(k),) for k in range(4)]


@case
def a_result_whose_keys_are_read():
    return lambda x: {x.sum().item(): x * 2}, [(_x(k),) for k in range(4)]


@case
def a_container_that_is_state():
    state = SimpleNamespace(own=[_x()])
    return lambda own: own[0] * state.own[0], [(state.own,), (state.own,), ([_x(2)],), ([_x(3)],), (state.own,)]


@case
def a_dictionary_that_is_state():
    own, other = {"a": 2.0}, {"a": 2.0}
    state = SimpleNamespace(own=own)

    def calls():
        yield from [(own,), (own,), (other,), (other,)]
        own["a"] = 5.0
        yield from [(other,), (own,), (other,)]

    return lambda named: _x() * named["a"] * state.own["a"], calls()


@case
def a_tuple_that_is_state():
    state = SimpleNamespace(own=(_x(), 2.0))
    return lambda own: own[0] * state.own[0], [(state.own,), (state.own,), ((_x(2), 2.0),), ((_x(3), 2.0),)]


@case
def a_container_that_is_compared_by_identity():
    own = [1.0]
    return lambda items: _x(2 if items is own else 3), [(own,), (own,), ([1.0],), (own,)]


@case
def containers_that_are_one():
    first, second = [1.0], [1.0]
    return lambda a, b: _x(2 if a is b else 3), [(first, second), (first, second), (first, first), (second, first)]


@case
def a_container_that_is_state_and_grows():
    own = []
    state = SimpleNamespace(own=own)

    def function(items):
        state.own.append(1.0)
        return _x(len(items))

    return function, [(own,), (own,), ([],), (own,), ([],)]


@case
def ids_of_arguments():
    places = {}

    def function(x):
        return x * places[id(x)]

    def calls():
        for k in range(4):
            x = _x()
            places[id(x)] = k
            yield (x,)

    return function, calls()


@case
def ids_of_containers():
    places, given = {}, [{"x": _x()} for _ in range(3)]

    def function(of):
        return of["x"] * places.get(id(of), 7)

    def calls():
        for k in (0, 1, 0, 2, 1):
            places.setdefault(id(given[k]), k)
            yield (given[k],)

    return function, calls()


def _results(make, compiled):
    function, calls = make()
    run = torch.compile(function) if compiled else function
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for args in calls:
            result = run(*args)
            keys = [str(key) for key in result] if isinstance(result, dict) else []
            own = [key is args[0] for key in result] if isinstance(result, dict) else []
            left = [len(a) if isinstance(a, (list, deque)) else getattr(a, "calls", 0) for a in args]
            found.append((list(result.values()) if isinstance(result, dict) else result, keys, own, left))
    return found


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_containers_are_what_they_are_in_each_call(make):
    for k, (found, wanted) in enumerate(zip(_results(make, True), _results(make, False), strict=True)):
        same(found, wanted, k)


PLAIN = [
    ([2.0, 3.0],), ((2.0, 3.0),), ({"a": 2.0, "b": 3.0},), (OrderedDict(a=2.0, b=3.0),), (deque([2.0, 3.0]),),
    (Point(2.0, 3.0),), ({1: 2.0, 2: 3.0},), ([(2.0, {"a": 3.0})],),
]  # fmt: skip


@pytest.mark.parametrize("args", PLAIN, ids=str)
def test_plain_containers_are_compiled_once(args):
    compiled = torch.compile(lambda x, container: x * len(container), fullgraph=True)
    for k in range(4):
        assert compiled(_x(k), *args).tolist() == (_x(k) * len(args[0])).tolist()
    assert len(compiled._variants) == 1
