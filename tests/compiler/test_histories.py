"""Compiled functions whose arguments have another history than those that they were recorded with."""

import warnings

import pytest

import jitgrad as torch
from jitgrad.utils._pytree import tree_leaves
from tests.compiler.alike import normal

grad = torch.autograd.grad


def leaf(k=0):
    return normal(2, 2, seed=k).requires_grad_()


def alike(function, arguments):
    """Compare a function compiled with the function, called twice with each of these arguments."""
    compiled = torch.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, make in enumerate([make for make in arguments for _ in range(2)]):
            found = []
            for call in (function, compiled):
                given, leaves = make()
                result = call(*given)
                found.append([result, *(v.grad for v in leaves)])
            for f, e in zip(*map(tree_leaves, found), strict=True):
                assert (f is None) == (e is None) and (e is None or torch.equal(f, e)), f"call {k}"
    return compiled


W = leaf(1)
V = leaf(2)


def one_leaf():
    x = leaf()
    return (x,), (x,)


def of_w():
    W.grad = None
    return (W * 2,), (W,)


def of_v():
    return (V * 2,), (V,)


@pytest.mark.parametrize("first", [one_leaf, of_v])
@pytest.mark.parametrize("keeps", [False, True])
def test_gradients_toward_what_the_history_of_an_argument_leads_to(first, keeps):
    def function(x):
        found = grad((V * x + W).sum(), W, retain_graph=keeps)[0]
        return (found, x * 2) if keeps else found

    assert alike(function, [first, first, of_w, first])._variants  # which the histories that are apart still have


def test_backward_through_the_history_of_an_argument():
    def function(x):
        (x * 3).sum().backward()
        return x * 2

    alike(function, [one_leaf, one_leaf, of_w, one_leaf])


def test_backward_toward_given_inputs():
    def function(x):
        ((x + W) * 3).sum().backward(inputs=[W])
        return x * 2

    def apart():
        W.grad = None
        return (V * 2,), (W,)

    alike(function, [apart, apart, of_w, apart])


def two_leaves():
    return (leaf(3), leaf(4)), ()


def two_apart():
    return (leaf(3) * 1, leaf(4) * 2), ()


def of_one_leaf():
    x = leaf(3)
    return (x, x * 2), ()


def one_of_the_other():
    x = leaf(3) * 1
    return (x, x * 2), ()


def of_one_node():
    return torch.stack([leaf(3), leaf(4)]).unbind(), ()


@pytest.mark.parametrize("first", [two_leaves, two_apart, of_one_node])
@pytest.mark.parametrize("keeps", [False, True])
def test_one_argument_made_of_another(first, keeps):
    def function(x, y):
        z = (x * y).sum()
        return (grad(z, x, retain_graph=True), x * y) if keeps else grad(z, [x, y])

    alike(function, [first, first, of_one_leaf, first, one_of_the_other, first])


def sets_the_flag(x):
    try:
        x.requires_grad = True  # of leaves only
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize(
    "fact",
    [
        lambda x: x.is_leaf,
        lambda x: x.grad_fn is None,
        lambda x: x.output_nr == 0,
        lambda x: not x.retains_grad,
        lambda x: "Select" in type(x.grad_fn).__name__,
        lambda x: x._base is None,
        lambda x: x._is_view(),
        lambda x: "Accumulate" in torch.autograd.graph.get_gradient_edge(x).node.name(),
        lambda x: x[:]._base is x,
        lambda x: "Accumulate" in (x + 1).grad_fn.next_functions[0][0].name(),
        sets_the_flag,
    ],
)
def test_what_is_asked_of_a_history(fact):
    def function(x):
        return x * 2 if fact(x) else x * 3

    def second():
        return (torch.stack([leaf(3), leaf(4)]).unbind()[1],), ()

    def retains():
        x = leaf() * 2
        x.retain_grad()
        return (x,), ()

    for first in (one_leaf, of_w, second):
        alike(function, [first, first, one_leaf, of_w, second, retains])


def test_whether_a_tensor_was_made_in_inference_mode():
    def made_in_inference_mode():
        with torch.inference_mode():
            return (torch.ones(2, 2),), ()

    def plain():
        return (torch.ones(2, 2),), ()

    alike(lambda x: x * 2 if x.is_inference() else x * 3, [plain, plain, made_in_inference_mode])


def test_a_function_of_parts_that_finds_an_argument_in_a_variable():
    def function(x):
        if float(x.max()) < 1:
            x = x * 2 + W

        def inner(y):
            return y * 0.5 + x

        y = inner(V)
        return grad((V * y + W).sum(), W)[0]

    def small():
        return (normal(2, 2) * 0.1,), ()

    def large():
        return (normal(2, 2).abs() + 1,), ()

    alike(function, [small, small, large, large, small, large])


def test_results_of_which_part_of_the_graph_has_been_freed():
    def function(x, y):
        known = V.exp()
        grad(known.sum(), V)
        return known + W * y, known + x

    compiled = torch.compile(function, fullgraph=True)
    for k in range(5):
        x, y = leaf(k), normal(2, 2, seed=k)
        first, second = compiled(x, y)
        assert torch.equal(grad(first.sum(), W)[0], y)
        for _ in range(2):  # that comes by nothing that is freed
            assert torch.equal(grad(second.sum(), x)[0], torch.ones(2, 2))
        with pytest.raises(RuntimeError, match="second time"):
            grad(second.sum(), V)


def test_a_loss_whose_graph_has_been_freed():
    def function(y):
        W.grad = None
        loss = (W * y).square().sum() + V.sum() * 0.1
        loss.backward()
        return loss

    compiled = torch.compile(function, fullgraph=True)
    for k in range(4):
        loss = compiled(normal(2, 2, seed=k))
        with pytest.raises(RuntimeError, match="second time"):
            grad(loss, W)
    assert compiled._variants


def _leaf_and_node():
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    return leaf, leaf.view_as(leaf).grad_fn.next_functions[0][0]


@pytest.mark.parametrize("given", [False, True], ids=["from_outside", "argument"])
@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
def test_hooks_on_the_node_of_a_leaf(kind, given):
    leaf, node = _leaf_and_node()
    calls = []

    def step(leaf):
        leaf.grad = None
        (leaf * 2).sum().backward()

    compiled = torch.compile(step if given else lambda: step(leaf))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for k in range(8):
            if k == 3:
                handle = getattr(node, kind)(lambda *grads: calls.append(1))
            if k == 6:
                handle.remove()
            compiled(*[leaf] * given)
            assert leaf.grad.tolist() == [2.0, 2.0] and len(calls) == min(max(k - 2, 0), 3)


@pytest.mark.parametrize("inside", [True, False])
def test_a_written_argument_that_shares_its_counter_with_one_that_backward_needs(inside):
    weight = torch.tensor([1.0, 2.0], requires_grad=True)

    def step(a, b):
        loss = (a * weight).sum()
        b.add_(1)
        if inside:
            loss.backward()
        return loss

    compiled = torch.compile(step)

    def outcome(function, shared):
        base = torch.arange(4.0)
        weight.grad = None
        a, b = (base[:2], base[2:]) if shared else (base[:2].clone(), base[2:].clone())
        try:
            loss = function(a, b)
            if not inside:
                loss.backward()
        except RuntimeError as error:
            return str(error)[:60]
        return loss.item(), weight.grad.tolist(), b.tolist()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for shared in (False, False, True, True, False):
            assert outcome(compiled, shared) == outcome(step, shared)


def test_a_written_view_of_what_has_become_a_leaf_that_requires_grad():
    def double(x):
        x.mul_(2)
        return x.sum()

    compiled = torch.compile(double)

    def outcome(function, required):
        base = torch.tensor([1.0, 2.0, 3.0])
        view = base[:2]
        base.requires_grad_(required)
        try:
            return function(view).item()
        except RuntimeError as error:
            return str(error)[:60]

    for required in (False, False, True, True, False):
        assert outcome(compiled, required) == outcome(double, required)
