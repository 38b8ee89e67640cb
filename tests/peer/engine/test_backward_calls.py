"""``backward`` as PyTorch's users call it: arguments, accumulation, what is retained, refusals."""

import pytest

import jitgrad

from ..beside import outcome, same
from .programs import VALUES, Programs

torch = pytest.importorskip("torch")
program = Programs()


@program
def accumulates(m, x):
    x.requires_grad_()
    (x**2).sum().backward()
    first = x.grad
    (x**2).sum().backward()
    return first is x.grad, x.grad


@program
def accumulates_out_of_place_under_create_graph(m, x):
    x.requires_grad_()
    (x**2).sum().backward(create_graph=True)
    first = x.grad
    (x**2).sum().backward(create_graph=True)
    return first is x.grad, x.grad, x.grad.requires_grad, x.grad.grad_fn.name()


@program
def the_gradient_passed_in_is_not_kept(m, x):
    x.requires_grad_()
    g = m.ones(3, 4, dtype=m.float64)
    x.backward(g)
    same_object = x.grad is g
    g.add_(1)
    return same_object, x.grad


@program
def gradient_of_an_expanded_sum(m, x):
    x.requires_grad_()
    x.sum().backward()
    return x.grad, x.grad.stride(), x.grad.is_contiguous()


@program
def gradient_of_a_transposed_leaf(m, x):
    y = x.t().detach().requires_grad_()
    (y * 2).sum().backward()
    return y.grad, y.grad.stride()


@program
def several_roots(m, x):
    x.requires_grad_()
    y, z = x.sin(), x.cos()
    m.autograd.backward([y, z], [m.ones_like(x), m.ones_like(x) * 2])
    return x.grad


@program
def the_same_root_twice(m, x):
    x.requires_grad_()
    y = x.sin().sum()
    m.autograd.backward([y, y])
    return x.grad


@program
def a_root_behind_a_root(m, x):
    x.requires_grad_()
    y = x.sin()
    z = y.cos()
    m.autograd.backward([z.sum(), y.sum()])
    return x.grad


@program
def a_leaf_as_root(m, x):
    x.requires_grad_()
    x.backward(m.ones_like(x) * 3)
    return x.grad


@program
def inputs_only(m, x):
    x.requires_grad_()
    w = m.ones(4, dtype=m.float64, requires_grad=True)
    y = x * w
    y.sum().backward(inputs=[w])
    return x.grad, w.grad


@program
def inputs_that_are_no_leaves(m, x):
    x.requires_grad_()
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    return x.grad, y.grad


@program
def inputs_as_one_tensor(m, x):
    x.requires_grad_()
    (x * x).sum().backward(inputs=x)
    return x.grad


@program
def no_inputs(m, x):
    x.requires_grad_()
    (x * x).sum().backward(inputs=[])


@program
def inputs_without_grad(m, x):
    (x.clone().requires_grad_() * 2).sum().backward(inputs=[x])


@program
def retained(m, x):
    x.requires_grad_()
    y = x * 2
    y.retain_grad()
    z = y.sin()
    z.sum().backward(retain_graph=True)
    first = y.grad.clone()
    z.sum().backward()
    return first, y.grad, y.retains_grad, x.retains_grad, x.grad


@program
def retained_then_written(m, x):
    x.requires_grad_()
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    y.sin().sum().backward()
    return y.grad, x.grad


@program
def retain_grad_of_what_needs_none(m, x):
    x.retain_grad()


@program
def twice(m, x):
    x.requires_grad_()
    y = x.sin().sum()
    y.backward()
    y.backward()


@program
def twice_with_nothing_saved(m, x):
    x.requires_grad_()
    y = (x + 1).sum()
    y.backward()
    y.backward()
    return x.grad


@program
def twice_retained(m, x):
    x.requires_grad_()
    y = x.sin().sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@program
def part_of_the_graph_is_freed(m, x):
    x.requires_grad_()
    y = x.sin()
    (y * 2).sum().backward()
    (y * 3).sum().backward()


@program
def of_a_vector(m, x):
    (x.requires_grad_() * 2).backward()


@program
def of_what_needs_none(m, x):
    x.sum().backward()


@program
def gradient_shape(m, x):
    (x.requires_grad_() * 2).backward(m.ones(4, dtype=m.float64))


@program
def gradient_dtype(m, x):
    x.requires_grad_()
    (x * 2).sum().backward(m.tensor(1.0))
    return x.grad


@program
def of_complex(m, x):
    z = m.complex(x, x).requires_grad_()
    (z * z).sum().backward()


@program
def of_complex_with_a_gradient(m, x):
    z = m.complex(x, x * 2).requires_grad_()
    y = (z * z).sum()
    y.backward(m.ones_like(y))
    return z.grad


@program
def complex_gradient_of_a_real(m, x):
    x.requires_grad_()
    (x * 2).sum().backward(m.tensor(1j))


@program
def counts(m, x):
    y = x.requires_grad_() * 2
    m.autograd.backward([y, y], [m.ones_like(y)])


@program
def retain_graph_of_scalars(m, x):
    return m.autograd.backward(x.requires_grad_().sum(), retain_graph=True), x.grad


@program
def deprecated_grad_variables(m, x):
    x.requires_grad_()
    m.autograd.backward(x * 2, grad_variables=m.ones_like(x))
    return x.grad


@pytest.mark.parametrize("name", program)
def test_program(name):
    same(outcome(program[name], jitgrad, VALUES), outcome(program[name], torch, VALUES))
