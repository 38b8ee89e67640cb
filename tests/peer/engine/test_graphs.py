"""Graphs as PyTorch's users see them: their nodes, their lives, what was written between forward and backward."""

import gc
import weakref

import pytest

import jitgrad

from ..beside import outcome, same
from .programs import VALUES, Programs, names

torch = pytest.importorskip("torch")
program = Programs()


@program
def next_functions(m, x):
    x.requires_grad_()
    w = m.ones(4, dtype=m.float64)
    return [names(t.grad_fn) for t in (x * w, (x + 1) * x, x.sum(0).exp(), x[0], m.cat([x, x]), x @ x.t())]


@program
def graph_dies_with_its_last_tensor(m, x):
    class Witness:
        pass

    gc.disable()
    try:
        witness = Witness()
        seen = weakref.ref(witness)
        a = x.clone().requires_grad_()
        b = (a * 2).exp()
        b.grad_fn.metadata["w"] = witness
        c = (b * b).sum()
        del witness, b
        alive = seen() is not None
        c.backward()
        del c
        return alive, seen() is None
    finally:
        gc.enable()


@program
def written_between(m, x):
    x.requires_grad_()
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@program
def written_input(m, x):
    a = x.requires_grad_() * 1
    b = a * a
    a.mul_(2)
    b.sum().backward()


@program
def written_where_nothing_is_saved(m, x):
    a = x.requires_grad_() * 1
    b = a + 1
    a.mul_(2)
    (a.sum() + b.sum()).backward()
    return x.grad


@program
def under_no_grad(m, x):
    x.requires_grad_()
    with m.no_grad():
        y = x * 2
        with m.enable_grad():
            z = x * 3
    return y.requires_grad, z.requires_grad, m.is_grad_enabled()


@program
def in_place_on_a_leaf(m, x):
    x.requires_grad_().add_(1)


@program
def in_place_on_a_leaf_under_no_grad(m, x):
    x.requires_grad_()
    with m.no_grad():
        x.add_(1)
    (x * x).sum().backward()
    return x.grad, x._version, x.is_leaf


@program
def broadcast_gradients(m, x):
    a = m.ones(4, dtype=m.float64, requires_grad=True)
    b = m.ones(3, 1, dtype=m.float64, requires_grad=True)
    c = m.tensor(2.0, requires_grad=True)
    (x * a * b * c).sum().backward()
    return a.grad, b.grad, c.grad


@program
def shared_subexpressions(m, x):
    x.requires_grad_()
    y = x
    for _ in range(30):
        y = (y + y) / 2
    y.sum().backward()
    return x.grad


@program
def ops_that_stop(m, x):
    x.requires_grad_()
    return [t.requires_grad for t in (x > 0, x.argmax(0), x.sort(0)[1], x.round(), x.sign(), x.int(), x.detach())]


@program
def dead_ends(m, x):
    x.requires_grad_()
    values, places = x.sort(0)
    values.sum().backward()
    return x.grad, places.requires_grad


@pytest.mark.parametrize("name", program)
def test_program(name):
    same(outcome(program[name], jitgrad, VALUES), outcome(program[name], torch, VALUES))
