"""Errors that a function catches itself, and what it does in spite of them: a run has to do the same as it would."""

import warnings
from types import SimpleNamespace

import pytest

import jitgrad as torch
from jitgrad import nn

TABLE = torch.arange(3.0)
CASES = []


def case(make):
    """``make()`` returns a function, arguments for each call, and what to look at after it."""
    CASES.append(make)
    return make


def places(*numbers):
    return [(torch.tensor([n]),) for n in numbers]


@case
def index():
    def run(i):
        try:
            return TABLE[i] * 2
        except IndexError:
            return i * 0.0

    return run, places(0, 1, 7, 2, 7, 0), list


@case
def index_in_a_function_of_its_own():
    def look_up(i):
        return TABLE[i] * 2

    def run(i):
        try:
            return look_up(i)
        except IndexError:
            return i * 0.0

    return run, places(0, 1, 7, 2, 7, 0), list


@case
def wrong_at_first():
    def run(i):
        try:
            return TABLE[i] * 2
        except IndexError:
            return i * 0.0

    return run, places(7, 7, 7, 0, 1, 2), list


@case
def in_a_loop_that_is_left():
    def run(i):
        for k in range(3):
            try:
                if k == 1:
                    break
                x = TABLE[i] * 2
            except IndexError:
                continue
        else:
            return i * 1.0
        return i * 3.0 + k

    return run, places(0, 1, 7, 2), list


@case
def decomposition():
    def run(a):
        try:
            return torch.linalg.cholesky(a)
        except RuntimeError:
            return a * 0

    good, bad = torch.eye(2) * 4, -torch.eye(2)
    return run, [(a,) for a in (bad, bad, bad, good, good, bad)], list


@case
def finally_that_counts():
    steps = SimpleNamespace(n=0)

    def run(i):
        try:
            return TABLE[i] * 2
        finally:
            steps.n += 1

    return run, places(0, 1, 2, 7, 0), lambda: steps.n


@case
def key_that_comes_later():
    table = {}

    def run(x):
        try:
            return x * table["scale"]
        except KeyError:
            return x

    calls = iter(range(10))
    return run, places(1, 2, 3, 4, 5), lambda: table.update(scale=3.0) if next(calls) == 2 else None


@case
def item_that_comes_later():
    table = []

    def run(x):
        try:
            return x * table[0]
        except IndexError:
            return x + 0

    calls = iter(range(10))
    return run, places(1, 2, 3, 4, 5), lambda: table.append(3.0) if next(calls) == 2 else None


@case
def attribute_that_comes_later():
    settings = SimpleNamespace()

    def run(x):
        try:
            return x * settings.scale
        except AttributeError:
            return x + 0

    calls = iter(range(10))
    return run, places(1, 2, 3, 4, 5), lambda: setattr(settings, "scale", 3.0) if next(calls) == 2 else None


def outcomes(function, calls, look):
    found = []
    for args in calls:
        try:
            result = function(*args).tolist()
        except Exception as error:
            result = type(error)
        found.append((result, look()))
    return found


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_what_is_caught_is_caught(make):
    (function, calls, look), (other, other_calls, other_look) = make(), make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        compiled = torch.compile(other)
        assert outcomes(compiled, other_calls, other_look) == outcomes(function, calls, look)


def test_what_can_be_no_error_is_compiled():
    def run(x):
        try:
            y = x * 2
        except ValueError:
            y = x
        finally:
            y = y + 1
        return y

    compiled = torch.compile(run, fullgraph=True)
    for k in range(4):
        assert compiled(torch.tensor([float(k)])).tolist() == [2.0 * k + 1]
    assert len(compiled._variants) == 1


def test_modules_catch_errors_of_their_hooks_alone():
    table = nn.Embedding(4, 2)
    table.register_forward_hook(lambda module, args, result: result * 2, always_call=True)
    compiled = torch.compile(table, fullgraph=True)
    for k in range(4):
        assert compiled(torch.tensor([k])).tolist() == table(torch.tensor([k])).tolist()
