"""``autograd.grad`` as PyTorch's users call it: inputs, unused ones, second order, batches, refusals."""

import pytest

import jitgrad

from ..beside import outcome, same
from .programs import VALUES, Programs

torch = pytest.importorskip("torch")
program = Programs()


@program
def grad_leaves_alone(m, x):
    x.requires_grad_()
    found = m.autograd.grad((x**2).sum(), x)
    return found, x.grad


@program
def grad_of_a_nonleaf(m, x):
    x.requires_grad_()
    y = x * 2
    z = y.sin()
    return m.autograd.grad(z.sum(), [y, x], retain_graph=True), m.autograd.grad(z.sum(), z)


@program
def grad_of_several(m, x):
    x.requires_grad_()
    return m.autograd.grad([x.sin().sum(), x.cos().sum()], [x], [None, m.tensor(2.0, dtype=m.float64)])


@program
def the_same_input_twice(m, x):
    x.requires_grad_()
    return m.autograd.grad((x**2).sum(), (x, x))


@program
def unused_input(m, x):
    w = m.ones(2, requires_grad=True)
    m.autograd.grad(x.requires_grad_().sum(), (x, w))


@program
def unused_allowed(m, x):
    w = m.ones(2, requires_grad=True)
    return m.autograd.grad(x.requires_grad_().sum(), (x, w), allow_unused=True)


@program
def unused_materialized(m, x):
    w = m.ones(2, requires_grad=True)
    return m.autograd.grad(x.requires_grad_().sum(), (x, w), materialize_grads=True)


@program
def materialize_against_allow(m, x):
    m.autograd.grad(x.requires_grad_().sum(), x, allow_unused=False, materialize_grads=True)


@program
def grad_of_nothing(m, x):
    m.autograd.grad(x.requires_grad_().sum(), [])


@program
def grad_at_what_needs_none(m, x):
    m.autograd.grad((x.clone().requires_grad_() * 2).sum(), x)


@program
def grad_of_what_needs_none(m, x):
    m.autograd.grad(x.sum(), x.clone().requires_grad_())


@program
def second_order(m, x):
    x.requires_grad_()
    (g,) = m.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return g, h, g.requires_grad


@program
def hessian_vector(m, x):
    x.requires_grad_()
    y = m.ones(3, 4, dtype=m.float64, requires_grad=True)
    z = x**2 + y * x + y**2
    z.backward(m.ones_like(x), create_graph=True)
    total = x.grad + y.grad
    total.backward(m.ones_like(x))
    return x.grad, y.grad


@program
def batched(m, x):
    x.requires_grad_()
    y = (x @ x.t()).sin().sum(0)
    return m.autograd.grad(y, x, m.eye(3, dtype=m.float64), is_grads_batched=True)


@program
def batched_of_two(m, x):
    x.requires_grad_()
    y, z = x.sum(0), x.sum(1)
    return m.autograd.grad([y, z], x, [m.ones(2, 4, dtype=m.float64), m.ones(2, 3, dtype=m.float64)],
                           is_grads_batched=True)  # fmt: skip


@program
def batched_of_an_edge(m, x):
    x.requires_grad_()
    edge, rows = m.autograd.graph.get_gradient_edge(x.exp()), m.arange(24.0, dtype=m.float64).view(2, 3, 4)
    return m.autograd.grad(edge, x, rows, is_grads_batched=True)


@program
def batched_frees_what_ran_and_no_more(m, x):
    x.requires_grad_()
    z = m.ones(3, 4, dtype=m.float64, requires_grad=True)
    side = z.exp()
    y = x.exp() * side
    m.autograd.grad(y, x, m.ones(2, 3, 4, dtype=m.float64), is_grads_batched=True)
    side.sum().backward()
    return z.grad, outcome(lambda *_: y.sum().backward(), m, 0)


@program
def batched_refuses(m, x):
    x.requires_grad_()
    y = x.exp()
    rows = m.ones(2, 3, 4, dtype=m.float64)
    given = [([y], [None]), ([y.sum()], [None]), ([y], [1.0]), ([y, y], [rows]), ([y, y], [rows, rows[:1]]),
             ([y, y.sum()], [rows, None])]  # fmt: skip
    grad = m.autograd.grad
    return [outcome(lambda *_, o=outs, g=g: grad(o, x, g, is_grads_batched=True), m, 0) for outs, g in given]


@program
def counts_come_first(m, x):
    return outcome(lambda *_: m.autograd.grad([x, x], x, [m.ones_like(x)]), m, 0)


@program
def unreachable(m, x):
    x.requires_grad_()
    y = x * 2
    z = y.detach() * 3
    return z.requires_grad, m.autograd.grad((y * z).sum(), x)


@program
def grad_through_an_edge(m, x):
    x.requires_grad_()
    y = x * 2
    edge = m.autograd.graph.get_gradient_edge(y)
    z = y.sin()
    del y
    return m.autograd.grad(z.sum(), edge, retain_graph=True), m.autograd.grad(edge, x, m.ones_like(x))


@pytest.mark.parametrize("name", program)
def test_program(name):
    same(outcome(program[name], jitgrad, VALUES), outcome(program[name], torch, VALUES))
