"""Attributes of tensors that are given, containers of a program's own classes, what a function also reads, views."""

import warnings
from collections import Counter
from types import SimpleNamespace

import pytest

import jitgrad as torch

CASES = []


def case(make):
    """``make()`` returns a function, and a generator of the arguments of its calls."""
    CASES.append(make)
    return make


class OwnDict(dict):
    pass


class OwnList(list):
    pass


def with_scale(scale):
    made = torch.ones(2)
    if scale is not None:
        made.scale = scale
    return made


@case
def attribute_of_a_tensor():
    return lambda x: x * x.scale, ((with_scale(s),) for s in (2.0, 2.0, 2.0, 3.0, 4.0))


@case
def attribute_that_a_tensor_lacks():
    return lambda x: x * getattr(x, "scale", 5.0), ((with_scale(s),) for s in (None, None, None, 3.0, None))


@case
def attribute_that_one_has():
    return lambda x: x * (2 if hasattr(x, "scale") else 3), ((with_scale(s),) for s in (2.0, 2.0, None, 3.0))


@case
def attribute_of_a_tensor_from_outside():
    w = torch.ones(2)

    def calls():
        for scale in (None, None, None, 2.0, 3.0):
            if scale is not None:
                w.scale = scale
            yield (torch.ones(2),)

    return lambda x: x * getattr(w, "scale", 5.0), calls()


@pytest.mark.parametrize("kind", [OwnDict, OwnList, Counter, SimpleNamespace])
def test_containers_of_a_programs_own_classes(kind):
    key = 0 if kind is OwnList else "a"
    made = OwnList([2.0]) if kind is OwnList else kind(a=2.0)

    def function(x, given):
        return x * (given.a if kind is SimpleNamespace else given[key])

    def calls():
        for scale in (2.0, 2.0, 2.0, 3.0, 4.0):
            if kind is SimpleNamespace:
                made.a = scale
            else:
                made[key] = scale
            yield torch.ones(2), made

    compare(function, function, calls(), calls())


@case
def list_that_is_also_read():
    there = [torch.tensor([1.0, 2.0])]
    state = SimpleNamespace(there=there)
    others = [[torch.tensor([3.0, 4.0])] for _ in range(3)]
    return lambda given: given[0] * state.there[0], ((g,) for g in (there, there, *others, there))


@case
def dictionary_that_is_also_read():
    there, other = {"scale": 2.0}, {"scale": 2.0}
    state = SimpleNamespace(there=there)

    def calls():
        for given, scale in ((there, 2.0), (there, 2.0), (other, 2.0), (other, 5.0), (other, 6.0)):
            there["scale"] = scale
            yield torch.ones(2), given

    return lambda x, given: x * given["scale"] * state.there["scale"], calls()


def compare(function, other, calls, other_calls):
    compiled = torch.compile(other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for args, other_args in zip(calls, other_calls):
            assert compiled(*other_args).tolist() == function(*args).tolist()


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_each_call_has_its_own(make):
    (function, calls), (other, other_calls) = make(), make()
    compare(function, other, calls, other_calls)


def test_a_dictionary_by_tensors_is_of_those_of_the_call():
    compiled = torch.compile(lambda x: {x: x * 2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for _ in range(5):
            x = torch.ones(2)
            assert next(iter(compiled(x))) is x


# -- views of what is outside ------------------------------------------------------------------------------


def batches():
    data = torch.arange(36.0).reshape(12, 3)
    return [data[k : k + 4] for k in (0, 2, 5)] + [torch.ones(4, 3)]


@pytest.mark.parametrize("function", [
    lambda x: x[:2] * 2, lambda x: x[1:3].mul_(2).sum(), lambda x: x.t()[:, 1:].sum(0),
])  # fmt: skip
def test_views_of_views(function):
    compiled = torch.compile(function, fullgraph=True)
    for ours, theirs in zip(batches(), batches(), strict=True):
        assert torch.equal(compiled(ours), function(theirs)) and torch.equal(ours, theirs)
    assert len(compiled._variants) == 1


def test_a_buffer_that_is_a_view():
    positions = torch.arange(15.0).reshape(5, 3).unsqueeze(1)
    compiled = torch.compile(lambda x: x + positions[: x.size(0)], fullgraph=True)
    for _ in range(4):
        assert torch.equal(compiled(torch.zeros(4, 1, 3)), positions[:4])


@pytest.mark.parametrize("function", [
    lambda x: x.as_strided((2, 2), (3, 1), 0).sum(), lambda x: x[1:].as_strided((2,), (1,), 4).sum(),
    lambda x: x[1:].storage_offset(), lambda x: x[1:].untyped_storage().nbytes(),
])  # fmt: skip
def test_where_views_are_in_memory_is_not_kept(function):
    compiled = torch.compile(function)
    with pytest.warns(torch.compiler.CompileWarning):
        assert [compiled(x) for x in batches()] == [function(x) for x in batches()]
