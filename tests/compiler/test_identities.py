"""Dictionaries know tensors by identity: what one has for a tensor that was given, it need not have for the next."""

import warnings

import pytest

import jitgrad as torch


def reads(table, p):
    return table[p] * 2


def gets(table, p):
    return table.get(p, p * 9) * 2


def has(table, p):
    return p * (2 if p in table else 3)


def has_pair(table, p):
    return p * table.get((p, 0), 3.0)


def writes(table, p):
    table[p].add_(1)
    p.sub_(table[p])
    return p * 1


def exchanges(table, p):
    table[p] = table[p]
    return table[p] * 3


def by_address(table, p):
    return p * table.get(id(p), 3.0)


def by_hash(table, p):
    return p * table.get(hash(p), 3.0)


def goes_through(table, p):
    return sum((p * 1.0 if key is p else p * 3.0) for key in table if isinstance(key, torch.Tensor))


def made(function):
    tensors = [torch.tensor([k + 1.0]) for k in range(4)]
    table = {p: torch.tensor([k + 10.0]) for k, p in enumerate(tensors[:3])}
    if function is has_pair:
        table = {(p, 0): k + 4.0 for k, p in enumerate(tensors[:3])}
    elif function is by_address:
        table = {id(p): k + 4.0 for k, p in enumerate(tensors[:3])}
    elif function is by_hash:
        table = {hash(p): k + 4.0 for k, p in enumerate(tensors[:3])}
    return tensors, table


@pytest.mark.parametrize("given", ["outside", "argument"])
@pytest.mark.parametrize(
    "function", [reads, gets, has, has_pair, writes, exchanges, by_address, by_hash, goes_through],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_what_is_found_for_a_tensor_is_its_own(function, given):
    (tensors, table), (others, other_table) = made(function), made(function)
    if given == "outside":
        step, other = (lambda p: function(table, p)), torch.compile(lambda p: function(other_table, p))
    else:
        compiled = torch.compile(function)
        step, other = (lambda p: function(table, p)), (lambda p: compiled(other_table, p))
    last = 4 if function in (gets, has, has_pair, by_address, by_hash, goes_through) else 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for k in (0, 0, 1, 2, 0, 3, 3, 1):
            k = min(k, last - 1)
            assert other(others[k]).tolist() == step(tensors[k]).tolist()
    assert [p.tolist() for p in others] == [p.tolist() for p in tensors]


def test_tensors_from_outside_are_still_looked_up():
    p, q = torch.tensor([1.0]), torch.tensor([2.0])
    table, by_id = {p: 3.0, q: 4.0}, {id(p): 5.0}
    step = torch.compile(lambda x: x * table[p] + table[q] * by_id[id(p)], fullgraph=True)
    for k in range(4):
        assert step(torch.tensor([float(k)])).tolist() == [3.0 * k + 20.0]
    assert len(step._variants) == 1
