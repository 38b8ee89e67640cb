"""backward and grad as PyTorch's users call them: arguments, accumulation, flags, warnings, refusals."""

import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest

import jitgrad

from ..beside import outcome, same

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(2).standard_normal((3, 4))
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def names(node, depth=3):
    """grad_fns by name, as a tree."""
    if node is None or depth == 0:
        return None if node is None else "..."
    return [node.name(), [(names(n, depth - 1), k) for n, k in node.next_functions]]


# -- backward -------------------------------------------------------------------------------------------


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


# -- grad -------------------------------------------------------------------------------------------------


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


# -- flags and what grad may be -------------------------------------------------------------------------


@program
def flags(m, x):
    a = x.clone().requires_grad_()
    b = a * 2
    c = b.detach()
    return [(t.requires_grad, t.is_leaf, t.grad_fn is None, t.output_nr, t._version) for t in (x, a, b, c, b[0])]


@program
def change_a_nonleaf(m, x):
    (x.requires_grad_() * 2).requires_grad_(False)


@program
def whole_numbers_cannot(m, x):
    m.ones(2, dtype=m.int64).requires_grad_()


@program
def whole_numbers_cannot_be_made(m, x):
    m.ones(2, dtype=m.int64, requires_grad=True)


@program
def assign_grad(m, x):
    x.requires_grad_()
    x.grad = m.ones(3, 4, dtype=m.float64)
    (x * 2).sum().backward()
    first = x.grad
    del x.grad
    return first, x.grad


@program
def assign_grad_of_another_shape(m, x):
    x.grad = m.ones(4, dtype=m.float64)


@program
def assign_grad_of_another_dtype(m, x):
    x.grad = m.ones(3, 4)


@program
def assign_grad_of_another_kind(m, x):
    x.grad = 3


@program
def grad_of_a_nonleaf_warns(m, x):
    y = x.requires_grad_() * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = y.grad
        _ = x.grad
    return found, [str(w.message)[:100] for w in caught]


@program
def set_data(m, x):
    a = x.clone().requires_grad_()
    b = a * 1
    a.data = m.zeros(3, 4, dtype=m.float64)
    b.sum().backward()
    return a, a.grad, a._version


@program
def set_data_of_another_shape(m, x):
    a = x.clone().requires_grad_()
    b = (a * a).sum()
    a.data = m.zeros(2, dtype=m.float64)
    return a.shape, a.requires_grad


@program
def write_through_data(m, x):
    a = x.clone().requires_grad_()
    b = (a * a).sum()
    a.data.zero_()
    b.backward()
    return a.grad, a._version


@program
def write_through_detach(m, x):
    a = x.clone().requires_grad_()
    b = (a * a).sum()
    a.detach().zero_()
    b.backward()


@program
def copies(m, x):
    a = x.clone().requires_grad_()
    (a * 2).sum().backward()
    b = copy.deepcopy(a)
    c = pickle.loads(pickle.dumps(a))
    return b, b.grad, b.requires_grad, c, c.requires_grad


@program
def deep_copy_of_a_nonleaf(m, x):
    copy.deepcopy(x.requires_grad_() * 2)


@program
def numpy_of_what_requires_grad(m, x):
    x.requires_grad_().numpy()


@program
def dtype_conversions(m, x):
    x.requires_grad_()
    y = x.float().double().to(m.float32)
    (y * 2).sum().backward()
    z = m.ones(2, requires_grad=True)
    (z.double() * m.ones(2, dtype=m.float64)).sum().backward()
    return x.grad, z.grad, names(y.grad_fn)


# -- graphs -------------------------------------------------------------------------------------------------


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
    a = (x.requires_grad_() * 1)
    b = a * a
    a.mul_(2)
    b.sum().backward()


@program
def written_where_nothing_is_saved(m, x):
    a = (x.requires_grad_() * 1)
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    same(outcome(PROGRAMS[name], jitgrad, VALUES), outcome(PROGRAMS[name], torch, VALUES))
