"""What can't be differentiated is refused with the function's name, its line, and what to write instead."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from jitgrad.kernels.adjoint.parse import program_of, refuse_constructs
from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.words.syntax import SourceError

from .as_written import FLOAT, INT, MATRIX, VECTOR, built, text_of

TABLE = {"a": 1}


def has_dict(x):
    d = {"a": x}
    return d["a"]


def has_list(x):
    values = [x, x]
    return values[0]


def has_comprehension(x):
    return sum(v * v for v in x)


def has_string(x):
    s = "abc"
    return x


def has_lambda(x):
    f = lambda v: v * 2
    return f(x)


def has_inner(x):
    def inner(v):
        return v

    return inner(x)


def has_try(x):
    try:
        return x
    except ValueError:
        return -x


def has_with(x):
    with np.errstate(all="ignore"):
        return x


def has_stars(*x):
    return x[0]


def has_else(x):
    for i in range(3):
        x += i
    else:
        x += 1
    return x


def has_complex(x):
    return x * 1j


def has_unknown_call(x):
    return np.linalg.eigvals(x)


def has_print(x):
    print(x)
    return x


def has_undefined(x):
    return undefined_function(x)  # noqa: F821


def has_object(x):
    return x * TABLE.a


def has_attribute(x):
    return x.weight


def has_recursion(x):
    return x if x < 0 else has_recursion(x - 1)


def one(x):
    return other(x)


@njit
def other(x):
    return one(x)


def calls_refused(x):
    return has_list(x)


def has_del(x):
    y = x
    del y
    return x


def writes_input(x, out):
    x[0] = 1.0
    out[0] = x[0]


@pytest.mark.parametrize(
    "function, what",
    [
        (has_dict, "has_dict uses a dict: {'a': x}; keep numbers in arrays or variables"),
        (has_list, "uses a list"),
        (has_comprehension, "uses a generator"),
        (has_string, "uses a string 'abc'"),
        (has_lambda, "uses a lambda"),
        (has_inner, "uses a function within"),
        (has_try, "uses try"),
        (has_with, "uses with"),
        (has_stars, r"takes \*x"),
        (has_else, "uses else of a loop"),
        (has_complex, "uses a complex number 1j"),
        (has_unknown_call, "calls np.linalg.eigvals, which can't be differentiated; write it out in loops"),
        (has_print, "calls print"),
        (has_undefined, "calls undefined_function, which is not defined"),
        (has_object, "TABLE"),
        (has_attribute, r"uses the attribute x\.weight"),
        (has_recursion, "calls has_recursion within itself"),
        (one, "other calls one within itself"),
        (calls_refused, "has_list uses a list"),
        (has_del, "uses del: del y"),
        (writes_input, r"writes into its input x: x\[0\] = 1\.0; write into a parameter named out"),
    ],
)
def test_constructs(function, what):
    with pytest.raises(SourceError, match=what) as error:
        refuse_constructs(function)
    assert f"({__file__}:" in str(error.value)
    line = int(str(error.value).rsplit(":", 1)[1].rstrip(")"))
    if function is not calls_refused:
        assert abs(line - function.__code__.co_firstlineno) < 7


def returns_nothing(x):
    y = x * 2


def returns_sometimes(x):
    if x > 0:
        return x


def returns_two_or_one(x):
    if x > 0:
        return x, x
    return x


def wrong_rank(x):
    return x[0, 1]


def float_index(x, a):
    return x[a]


def float_range(a):
    s = 0.0
    for i in range(a):
        s += i
    return s


def floats_for_integers(x):
    v = np.arange(3)
    for _ in range(2):
        v = v + x
    return v


def integers_for_truths(x):
    v = x > 0
    if x[0] > 1:
        v = v * 2
    return v


def two_arrays(x, y, a):
    if a > 0:
        z = x
    else:
        z = y
    return z[0]


def earlier_part(x, n):
    row, s = x[0], 0.0
    for i in range(n):
        s += row[0]
        row = x[i]
    return s


def second_name(x, n):
    y = np.zeros(3)
    z = np.zeros(3)
    for _ in range(n):
        y = z
        z[0] += x[0]
    return y


def moving_test(m):
    row, s, i = m[0], 0.0, 0
    while row[0] < 1 and i < 2:
        i += 1
        row = m[i]
        s += row[1]
    return s


def earlier_array(m):
    s = 0.0
    for i in range(m.shape[0]):
        if i > 0:
            s += before  # noqa: F821
        before = m[i]
    return s


def written_later(x, n):
    for i in range(n):
        t = x * i
        if i == 1:
            keep = t
        t[0] = 5.0
    return keep[0]


def masked(x):
    return x[x > 0].sum()


def condition_of_array(x):
    if x:
        return 1.0
    return 2.0


def reshapes(x):
    return x.reshape(2, 2)[0, 0]


def wrong_unpacking(x):
    a, b = x.shape
    return a + b


def undefined_name(x):
    return x + some_number  # noqa: F821


def number_and_array(x, a):
    y = a
    if a > 0:
        y = x * 2
    return y


def message_of_values(a):
    if a < 0:
        raise ValueError(f"{a}")
    return a


@pytest.mark.parametrize(
    "function, kinds, what",
    [
        (returns_nothing, [VECTOR], "returns nothing"),
        (returns_sometimes, [FLOAT], "returns a value on some paths and none on others"),
        (returns_two_or_one, [FLOAT], "returns values of other numbers or dimensions on other paths"),
        (wrong_rank, [VECTOR], "has 2 indices for an array of 1 dimensions"),
        (float_index, [VECTOR, FLOAT], r"indexes by a float: x\[a\]; write int\(a\)"),
        (float_range, [FLOAT], r"uses a float where an integer belongs: a; write int\(a\)"),
        (floats_for_integers, [VECTOR], "gives the name v of an array of int64 to one of float64: .*; make the first"),
        (integers_for_truths, [VECTOR], "gives the name v of an array of bool to one of int64"),
        (two_arrays, [VECTOR, VECTOR, FLOAT], "uses z, which a branch or loop makes another array"),
        (earlier_part, [MATRIX, INT], "uses row, which a loop makes another array"),
        (second_name, [VECTOR, INT], r"write y\[:\] = z"),
        (moving_test, [MATRIX], "uses row, which a"),
        (earlier_array, [MATRIX], "reads before ahead of its assignment"),
        (written_later, [VECTOR, INT], "take a copy"),
        (masked, [VECTOR], "takes the elements where a mask is true"),
        (condition_of_array, [VECTOR], r"uses x as a condition; write np\.any"),
        (reshapes, [VECTOR], "can't be differentiated; index the array by its own dimensions"),
        (wrong_unpacking, [VECTOR], "takes a tuple apart"),
        (undefined_name, [FLOAT], "uses the name some_number, which is not defined"),
        (number_and_array, [VECTOR, FLOAT], "y"),
        (message_of_values, [FLOAT], "makes a message of values"),
    ],
)
def test_kinds(function, kinds, what):
    refuse_constructs(function)
    with pytest.raises(SourceError, match=what) as error:
        program_of(function, kinds)
    assert str(error.value).startswith(function.__name__) and f"({__file__}:" in str(error.value)


def test_shapes_that_disagree_at_the_run():
    def grows(x, n):
        y = x * 1
        for _ in range(n):
            y = np.zeros(n)
        return y

    run = built(text_of(grows, np.zeros(3), 2), "grows")
    assert run(np.zeros(3), 3).size == 3
    with pytest.raises(ValueError, match="changes the shape of y"):
        run(np.zeros(3), 2)


def test_kinds_that_are_missing():
    with pytest.raises(SourceError, match="has 2 parameters, not 1"):
        program_of(float_index, [Kind("float64", 1)])
