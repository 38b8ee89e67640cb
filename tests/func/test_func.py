"""Functions of functions: what they compute, how they nest, and that they leave nothing behind."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jitgrad as torch
from jitgrad.core.grad_mode import state
from jitgrad.core.tensor_observers import tensor_observers
from jitgrad.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from jitgrad.func.tree import broadcast_prefix, flatten, unflatten


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


def numerical(function, x, eps=1e-6):
    """Jacobian by central differences: (*output's shape, n)."""
    columns = []
    for k in range(x.numel()):
        step = torch.zeros_like(x)
        step[k] = eps
        columns.append((function(x + step) - function(x - step)).numpy() / (2 * eps))
    return np.stack(columns, -1)


FUNCTIONS = {
    "polynomial": lambda x: x**3 * x.sum(),
    "matrix": lambda x: torch.outer(x, x.sin()) @ x,
    "softmax": lambda x: x.softmax(0).log(),
    "indexed": lambda x: torch.stack([x[0] * x[1], x[1:].prod(), x[[2, 0]].sum()]),
    "written": lambda x: x.clone().mul_(x.flip(0)).cumsum(0),
    "sorted": lambda x: x.sort(descending=True)[0] * torch.arange(3.0, dtype=torch.float64),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_agree_with_differences_and_each_other(name):
    function, x = FUNCTIONS[name], vector(0.3, -0.7, 1.1)
    expected = numerical(function, x)
    np.testing.assert_allclose(jacrev(function)(x).numpy(), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(jacfwd(function)(x).numpy(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
def test_second_derivatives_by_any_two_modes(name, outer, inner):
    function, x = FUNCTIONS[name], vector(0.3, -0.7, 1.1)
    expected = numerical(lambda v: jacrev(function)(v), x)
    np.testing.assert_allclose(outer(inner(function))(x).numpy(), expected, rtol=1e-5, atol=1e-7)


def test_a_tower_of_derivatives():
    f = torch.sin
    for expected in (np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin):
        f = grad(f)
        assert f(vector(0.4)[0]).item() == pytest.approx(float(expected(0.4)))
    f = torch.sin
    for expected in (np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v)):
        f = (lambda inner: lambda x: jvp(inner, (x,), (torch.ones_like(x),))[1])(f)
        assert f(vector(0.4)[0]).item() == pytest.approx(float(expected(0.4)))


def test_perturbations_are_not_confused():
    one = vector(1.0)[0]
    assert jvp(lambda x: x * jvp(lambda y: x + y, (one,), (one,))[1], (one,), (one,))[1].item() == 1.0
    assert grad(lambda x: x * grad(lambda y: x + y)(one))(one).item() == 1.0
    assert jvp(lambda x: x * grad(lambda y: x * y)(one), (one,), (one,))[1].item() == 2.0


def test_results_have_no_history_of_their_own_variables():
    x = vector(1.0, 2.0)
    value = grad(lambda a: (a**2).sum())(x)
    assert not value.requires_grad and not x.requires_grad
    w = vector(3.0, 4.0).requires_grad_()
    assert grad(lambda a: (a * w).prod())(x).requires_grad
    assert not grad(lambda a: (a * a).sum() + w.sum())(x).requires_grad
    with torch.no_grad():
        assert not grad(lambda a: (a * w).prod())(x).requires_grad
    assert w.grad is None


def test_nothing_stays_open_when_a_function_raises():
    def fail(x):
        raise ValueError("on purpose")

    x = torch.ones(2, 3)
    for transform in (vmap(fail), grad(fail), jacfwd(fail), jacrev(fail), lambda v: jvp(fail, (v,), (v,)),
                      vmap(grad(fail)), lambda v: vjp(fail, v)):  # fmt: skip
        with pytest.raises(ValueError, match="on purpose"):
            transform(x)
        assert state.levels == () and state.enabled


def test_lifted_tensors_die_with_their_last_reference():
    gc.disable()
    try:
        kept = []
        vmap(grad(lambda a: kept.append(weakref.ref(a)) or (a * a).sum()))(torch.ones(3, 2))
        jvp(lambda a: kept.append(weakref.ref(a)) or a.sin(), (torch.ones(3),), (torch.ones(3),))
        assert [ref() for ref in kept] == [None, None]
    finally:
        gc.enable()


def test_values_beside_gradients():
    x = vector(1.0, 2.0)
    found, (value, aux) = grad_and_value(lambda a: ((a * a).sum(), {"twice": a * 2}), has_aux=True)(x)
    assert (found.tolist(), value.item(), aux["twice"].tolist()) == ([2.0, 4.0], 5.0, [2.0, 4.0])
    out, products = vjp(lambda a: (a.sum(), a * a), x)
    assert out[1].tolist() == [1.0, 4.0]
    assert products((vector(1.0)[0], x))[0].tolist() == [3.0, 9.0]
    assert products((vector(0.0)[0], x))[0].tolist() == [2.0, 8.0]  # again
    out, push = linearize(lambda a: a * a, x)
    assert push(vector(1.0, 10.0)).tolist() == [2.0, 40.0]
    assert hessian(lambda a: (a**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_users_ops_take_part():
    def twice(x, out):
        for k in range(x.size):
            out[k] = 2.0 * x[k] * x[k]

    def back(g, x, grad_x):
        for k in range(x.size):
            grad_x[k] += 4.0 * x[k] * g[k]

    op = torch.kernel_pair(twice, back, rule=lambda g, x: 4.0 * x * g)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    assert vmap(op)(x).tolist() == (2 * x * x).tolist()
    assert vmap(grad(lambda a: op(a).sum()))(x).tolist() == (4 * x).tolist()
    assert jvp(op, (x[0],), (vector(1.0, 10.0),))[1].tolist() == [4.0, 80.0]
    assert hessian(lambda a: op(a).sum())(x[0]).tolist() == [[4.0, 0.0], [0.0, 4.0]]


def test_modules_and_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    mapped = vmap(model)(x)
    np.testing.assert_allclose(mapped.detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    jacobians = vmap(jacrev(model))(x)
    assert jacobians.shape == (5, 2, 3) and jacobians.requires_grad
    jacobians.square().sum().backward()
    assert model[0].weight.grad.abs().sum() > 0


NESTS = st.recursive(
    st.integers(), lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=2), inner, max_size=3), max_leaves=8,
)  # fmt: skip


@given(NESTS)
@settings(max_examples=60, deadline=None)
def test_nests_come_back(nest):
    leaves, structure = flatten(nest)
    assert unflatten(leaves, structure) == nest
    assert structure.num_leaves == len(leaves)
    assert broadcast_prefix(0, structure) == [0] * len(leaves)
    assert broadcast_prefix(nest, structure) == leaves


@given(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.data())
@settings(max_examples=40, deadline=None)
def test_vmap_moves_any_dim_anywhere(size, other, out, data):
    shape = [other, 2]
    dim = data.draw(st.integers(-3, 2))
    shape.insert(dim % 3, size)
    x = torch.arange(float(size * other * 2)).reshape(shape)
    found = vmap(lambda a: a * 2 + a.sum(), in_dims=dim, out_dims=out)(x)
    samples = [x.select(dim, k) for k in range(size)]
    expected = torch.stack([s * 2 + s.sum() for s in samples], out)
    assert found.tolist() == expected.tolist()


def test_scopes_of_threads_do_not_meet():
    """Threads that differentiate at once know their own tensors from each other's."""
    barrier, shared = Barrier(2), torch.zeros(3)

    def work(write_shared):
        def f(x):
            barrier.wait()
            buffer = torch.zeros(3)
            barrier.wait()
            buffer.copy_(x)
            if write_shared:
                shared.copy_(x)
            return (buffer * x).sum()

        try:
            return grad(f)(torch.ones(3)).tolist()
        except RuntimeError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        fine, refused = pool.map(work, (False, True))
    assert fine == [2.0, 2.0, 2.0]
    assert "mutate a captured Tensor" in refused
    assert not tensor_observers


def test_results_do_not_hold_the_graph_of_arguments():
    class Mark:
        pass

    x = torch.ones(3, requires_grad=True) * 2
    mark = x.grad_fn.metadata["mark"] = Mark()
    gone = weakref.ref(mark)
    kept = []
    with torch.no_grad():
        grad(lambda y: (kept.append(torch.zeros(3)), y.sum())[1])(x)
    del x, mark
    assert gone() is None
    assert kept[0].tolist() == [0.0, 0.0, 0.0]


def test_variables_made_inside_an_inner_function_end_with_the_outer_one():
    x = torch.ones(3)

    def inner(y):
        return y * x * torch.ones(3, requires_grad=True)

    def outer(z):
        out, _ = torch.func.vjp(inner, z)
        return out.sum(), out

    found, (value, out) = torch.func.grad_and_value(outer, has_aux=True)(x)
    assert found.tolist() == [1, 1, 1] and not any(t.requires_grad for t in (found, value, out))


def test_variables_of_functions_that_have_returned_give_results_no_history():
    _, pull = torch.func.vjp(torch.sin, torch.zeros(2))
    found = torch.func.jacrev(lambda v: pull(v)[0])(torch.ones(2))
    assert found.tolist() == [[1, 0], [0, 1]] and not found.requires_grad

    w = torch.ones(2, requires_grad=True)
    _, pull = torch.func.vjp(lambda x: x * w, torch.zeros(2))
    assert torch.func.jacrev(lambda v: pull(v)[0])(torch.ones(2)).requires_grad


def test_variables_that_nobody_holds_any_more_give_results_no_history():
    x = torch.ones(3)
    found, value = torch.func.grad_and_value(lambda y: (y * torch.ones(3, requires_grad=True).exp()).sum())(x)
    assert not (found.requires_grad or value.requires_grad)


def test_hooks_on_variables_hold_no_graph():
    seen = []

    def f(x):
        x.register_hook(lambda g: None)
        seen.append(weakref.ref(x))
        return (x * x).sum()

    gc.disable()  # by reference count
    try:
        assert grad(f)(torch.ones(3)).tolist() == [2, 2, 2]
        assert seen[0]() is None
    finally:
        gc.enable()


def left_to_the_collector(call):
    """What of jitgrad's a call leaves in cycles; whatever else this process has left meanwhile is not its doing."""
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        call()
        gc.collect()
        named = [getattr(o, "__module__", None) or type(o).__module__ for o in gc.garbage]
        return [n for n in named if n == "jitgrad" or str(n).startswith("jitgrad.")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_transforms_leave_nothing_to_the_collector():
    x = torch.ones(3)
    gc.disable()
    try:
        for call in (grad(lambda y: (y * y).sum()), jacrev(torch.sin), jacfwd(torch.sin), vmap(grad(torch.sin))):
            call(x)  # plans, and compiles
            assert not left_to_the_collector(lambda call=call: call(x))
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ["jacrev", "jacfwd", "hessian"])
def test_derivatives_of_a_number_by_a_number(name):
    found = getattr(torch.func, name)(lambda x: x**3)(torch.tensor(2.0))
    assert found.shape == () and found.item() == 12
