"""A number that is read of a tensor may be another one in the next run: where it chooses among items, nothing is baked.

In keys, in slices, in what is made by keys, and in comparisons of identity.
"""

import warnings
from typing import NamedTuple

import pytest

import jitgrad as torch

LIST, TUPLE, TEXT, ONE = [2.0, 3.0, 4.0, 5.0], (2.0, 3.0, 4.0, 5.0), "abcd", 1
TABLE = {0: 2.0, 1: 3.0, 2: 4.0, 3: 5.0}
PAIRS = {(0, 0): 2.0, (1, 0): 3.0, (2, 0): 4.0, (3, 0): 5.0}


class Place(NamedTuple):
    row: int
    column: int


def assigned(target, key, value):
    target[key] = value
    return target


def rows_assigned(target, n, value):
    target[:n] = value
    return target


def deleted(target, key):
    del target[key]
    return target


READERS = {
    "row": lambda x, n: x[n] * 2,
    "rows": lambda x, n: x[:n] * 2,
    "rows_from": lambda x, n: x[n:] * 2,
    "every_so_many": lambda x, n: x[:: n + 1] * 2,
    "element": lambda x, n: x[n, 1] * 2,
    "column": lambda x, n: x[..., :n] * 2,
    "rows_of_a_list": lambda x, n: x[[n, 0]] * 2,
    "item_of_a_list": lambda x, n: x * LIST[n],
    "item_of_a_new_list": lambda x, n: x * [2.0, 3.0, 4.0, 5.0][n],
    "item_of_a_tuple": lambda x, n: x * TUPLE[n],
    "item_of_a_text": lambda x, n: (x * 2, TEXT[n]),
    "part_of_a_text": lambda x, n: (x * 2, TEXT[:n]),
    "items_of_a_list": lambda x, n: x * sum(LIST[:n]),
    "value": lambda x, n: x * TABLE[n],
    "value_of_a_new_dictionary": lambda x, n: x * {0: 2.0, 1: 3.0, 2: 4.0, 3: 5.0}[n],
    "value_by_a_pair": lambda x, n: x * PAIRS[n, 0],
    "value_by_a_named_tuple": lambda x, n: x * PAIRS[Place(n, 0)],
    "key_by_several_comprehensions": lambda x, n: {j: x * k for j in [n] for k in [2]},
    "key_of_a_result": lambda x, n: {n: x * 2},
    "key_by_comprehension": lambda x, n: {k: x * k for k in [n]},
    "key_of_a_new_dictionary": lambda x, n: assigned({}, n, x * 2),
    "key_deleted": lambda x, n: deleted({k: x * k for k in range(4)}, n),
    "index_of_a_new_list": lambda x, n: assigned([x, x, x, x], n, x * 2),
    "set": lambda x, n: x * len({n, 1}),
    "set_by_comprehension": lambda x, n: x * len({k * 2 for k in (n, 1)}),
    "row_written": lambda x, n: assigned(x * 2, n, 9.0),
    "rows_written": lambda x, n: rows_assigned(x * 2, n, 9.0),
    "identity": lambda x, n: x * (3 if n is ONE else 2),
    "other_identity": lambda x, n: x * (3 if n is not ONE else 2),
}


def outcome(function, *args):
    result = function(*args)
    if isinstance(result, dict):
        return {k: v.tolist() for k, v in result.items()}
    several = result if isinstance(result, (list, tuple)) else [result]
    return [v.tolist() if isinstance(v, torch.Tensor) else v for v in several]


@pytest.mark.parametrize("name", READERS)
def test_a_number_that_chooses_items_is_read_in_each_run(name):
    read = READERS[name]

    def step(x, i):
        return read(x, i.max().item())

    x, compiled = torch.arange(16.0).reshape(4, 4), torch.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for n in (1, 1, 3, 0, 2, 1):
            i = torch.tensor([n])
            assert outcome(compiled, x, i) == outcome(step, x, i), n


def test_whether_a_number_is_none_depends_on_nothing():
    def step(x):
        total = x.sum().item()
        return x * (2 if total is None else 3), total

    compiled = torch.compile(step, fullgraph=True)
    for k in range(4):
        x = torch.tensor([1.0, k])
        assert outcome(compiled, x) == outcome(step, x)
    assert compiled._variants
