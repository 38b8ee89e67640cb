"""Compiled functions whose results' gradients are asked for outside of them."""

import contextlib
import gc
import warnings

import numpy as np
import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import check, normal

F = nn.functional


def perceptron():
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 3))


def test_a_model_in_a_training_loop():
    def losses(compiled):
        torch.manual_seed(0)
        net = perceptron()
        call = torch.compile(net) if compiled else net
        opt = torch.optim.Adam(net.parameters(), lr=0.01)
        found = []
        for k in range(8):
            torch.manual_seed(k)
            opt.zero_grad()
            loss = F.mse_loss(call(normal(4, 8, seed=k)), normal(4, 3))
            loss.backward()
            opt.step()
            found.append(loss.item())
        return found, [p.detach() for p in net.parameters()], call

    eager, compiled = losses(False), losses(True)
    np.testing.assert_allclose(eager[0], compiled[0], rtol=1e-5)
    for p, q in zip(eager[1], compiled[1], strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-4, atol=1e-6)
    assert len(compiled[2].forward._variants) == 1


def gradients(function, k, wanted):
    """Gradients of a random weighted sum of the results."""
    results = [r for r in function() if r.requires_grad]
    total = sum((r * normal(*r.shape, seed=k + n)).sum() for n, r in enumerate(results))
    return torch.autograd.grad(total, wanted, allow_unused=True)


def test_several_results_and_arguments_with_a_history():
    weight = normal(8, 8).requires_grad_()

    def function(x, y):
        a = torch.tanh(x @ weight)
        return a, (a * y).sum(1), x + 0, (y * 2).detach()

    compiled = torch.compile(function, fullgraph=True)
    for k in range(6):
        x, y = normal(4, 8, seed=k).requires_grad_() * 2, normal(4, 8, seed=k + 1).requires_grad_()
        expected = gradients(lambda x=x, y=y: function(x, y), k, (x, y, weight))
        found = gradients(lambda x=x, y=y: compiled(x, y), k, (x, y, weight))
        for e, f in zip(expected, found, strict=True):
            np.testing.assert_allclose(f.numpy(), e.numpy(), rtol=1e-5, atol=1e-6)


def test_results_without_gradient_reach_nothing():
    a, b = normal(3).requires_grad_(), normal(3, seed=1).requires_grad_()
    function = torch.compile(lambda: (a * a, b * b * b))
    for _ in range(4):
        x, _unused = function()
        assert torch.autograd.grad(x.sum(), (a, b), allow_unused=True)[1] is None
        _unused, y = function()
        y.sum().backward()
        assert a.grad is None
        torch.testing.assert_close(b.grad, 3 * b.detach() ** 2)
        b.grad = None


def test_two_calls_before_backward():
    weight = normal(8, 8).requires_grad_()
    function = torch.compile(lambda x: torch.exp(x @ weight * 0.1))
    for k in range(4):
        x, y = normal(4, 8, seed=k), normal(4, 8, seed=k + 1)
        first, second = function(x), function(y)
        (g,) = torch.autograd.grad(first.sum() + 2 * second.sum(), weight)
        (e,) = torch.autograd.grad(torch.exp(x @ weight * 0.1).sum() + 2 * torch.exp(y @ weight * 0.1).sum(), weight)
        torch.testing.assert_close(g, e)


def test_what_backward_refuses():
    weight = normal(4).requires_grad_()
    function = torch.compile(lambda x: (x * weight.exp()).exp() * weight)
    for _ in range(3):
        y = function(normal(4))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    y = function(normal(4))
    with torch.no_grad():
        weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = function(normal(4))
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(y.sum(), weight, create_graph=True)


def test_memory_of_a_graph_ends_with_it():
    weight = normal(256, 256).requires_grad_()
    function = torch.compile(lambda x: torch.tanh(torch.tanh(x @ weight)))
    for _ in range(3):
        function(normal(256, 256))
    y = function(normal(256, 256))
    node = y.grad_fn
    assert node.arrays
    y.sum().backward()
    assert not node.arrays
    del y, node
    gc.collect()


def test_numbers_put_into_tensors():
    def step(x):
        total = torch.tensor([0.0, 1.0])
        total += x
        other = torch.zeros(2)
        other[0] = x[1]
        return total, other, torch.tensor([2.0, 3.0]) * total

    check(lambda: (step, lambda k: (normal(2, seed=k),), list))


@pytest.mark.parametrize("side", [4, 600])
def test_gradients_of_any_size(side):
    weight = normal(side, side).requires_grad_()
    function = torch.compile(lambda x: x @ weight)
    for k in range(3):
        x = (8 * normal(side, side, seed=k)).round() / 8  # whose sums are exact in any order
        (found,) = torch.autograd.grad(function(x).sum(), weight)
        (expected,) = torch.autograd.grad((x @ weight).sum(), weight)
        torch.testing.assert_close(found, expected)


def test_backward_reads_what_forward_wrote_into_given_numbers():
    weight = normal(2).requires_grad_()

    def function(x):
        total = torch.tensor([1.0, 2.0])
        total += x
        return weight * total

    compiled = torch.compile(function, fullgraph=True)
    for k in range(4):
        x = normal(2, seed=k)
        (found,) = torch.autograd.grad(compiled(x).sum(), weight)
        torch.testing.assert_close(found, torch.tensor([1.0, 2.0]) + x)


def test_backward_reads_what_forward_wrote_outside():
    def make():
        weight = normal(3).requires_grad_()
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x):
            (weight * x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            return weight * weight

        return step, lambda k: (normal(3, seed=k),), lambda: [weight]

    check(make)


@pytest.mark.parametrize("values", [(1.0, 2.0, 3.0), (1.0, 0.0, 3.0), (0.0, 0.0, 3.0)])
def test_backward_that_decides_by_numbers(values):
    function = torch.compile(lambda x: x.prod())
    for given in [(1.0, 2.0, 3.0), values, values]:
        x = torch.tensor(given, requires_grad=True)
        (found,) = torch.autograd.grad(function(x), x)
        (expected,) = torch.autograd.grad(x.prod(), x)
        torch.testing.assert_close(found, expected)


def test_an_argument_made_from_a_parameter_that_the_function_uses_too():
    weight = normal(3).requires_grad_()
    function = torch.compile(lambda state: torch.tanh(state * weight), fullgraph=True)
    for _ in range(3):
        state, expected = normal(3), normal(3)
        for _ in range(4):
            state, expected = function(state), torch.tanh(expected * weight)
        (found,) = torch.autograd.grad(state.sum(), weight)
        torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), weight)[0])


def test_hooks_of_an_argument_run_once():
    weight, seen = normal(3).requires_grad_(), []
    function = torch.compile(lambda x: x * weight)
    for k in range(4):
        x = weight.detach().requires_grad_() * 2
        x.retain_grad()
        x.register_hook(lambda g: seen.append(g) or g * 10)
        function(x).sum().backward()
        assert len(seen) == k + 1
        torch.testing.assert_close(x.grad, 10 * weight.detach())


def test_hooks_registered_inside_run_once():
    weight, seen = normal(3).requires_grad_(), []

    def function(x):
        y = x * weight
        y.register_hook(lambda g: seen.append(g) or g * 10)
        return y * 2

    compiled = torch.compile(function)
    for k in range(4):
        (found,) = torch.autograd.grad(compiled(torch.ones(3)).sum(), weight)
        torch.testing.assert_close(found, torch.full((3,), 20.0))
        assert len(seen) == k + 1


def test_what_a_run_does_not_come_by_is_not_freed():
    w, v = normal(3).requires_grad_(), normal(3, seed=1).requires_grad_()
    compiled = torch.compile(lambda x: ((w * x).exp() * v, torch.sin(w)), fullgraph=True)
    for k in range(4):
        both, other = compiled(normal(3, seed=k))
        (of_v,) = torch.autograd.grad(both.sum(), v)  # without exp's own graph, which is still there
        torch.testing.assert_close(of_v, (w * normal(3, seed=k)).exp().detach())
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(both.sum(), [w, v])
        torch.testing.assert_close(torch.autograd.grad(other.sum(), w)[0], w.detach().cos())
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(other.sum(), w)


def test_what_comes_by_nothing_that_is_freed_may_run_again():
    w = normal(3).requires_grad_()
    compiled = torch.compile(lambda x, y: (x + torch.log(w), x.exp() + y), fullgraph=True)
    for k in range(4):
        x, y = normal(3, seed=k).requires_grad_(), normal(3, seed=k + 9).requires_grad_()
        first, second = compiled(x, y)
        (first.sum() + second.sum()).backward()
        for result in (first, second):
            with pytest.raises(RuntimeError, match="second time"):
                result.sum().backward()
        for result, wanted in ((first, x), (second, y)):
            assert torch.equal(torch.autograd.grad(result.sum(), wanted)[0], torch.ones(3))


def test_writes_to_what_only_other_gradients_need():
    """As uncompiled, a node refuses when it runs, whichever of what it has saved was written to, and no other does."""

    def found_after(writes, wanted, compiling):
        w, v, x = (normal(3, seed=k).requires_grad_() for k in range(3))
        base = normal(3, seed=3)
        part = base[1:]

        def function(x, part):
            return torch.exp(torch.sin(w) * part.square().sum()) * x * w, torch.tanh(x.view(3)), x * v

        run = torch.compile(function, fullgraph=True) if compiling else function
        for _ in range(3):
            results = run(x, part)
        tensors = {"w": w, "v": v, "x": x, "base": base, "r": results[1], "of r": results[1].detach()}
        with torch.no_grad():
            for name in writes:
                tensors[name].mul_(2)
        try:
            return torch.autograd.grad([r.sum() for r in results], [tensors[n] for n in wanted], allow_unused=True)
        except RuntimeError as error:
            return str(error)[:50]

    for writes in ["", "w", "v", "x", "r", "wx", ["base"], ["of r"], "vr"]:
        for wanted in ["w", "v", "x", "wv", "wx", "vx"]:
            eager, compiled = found_after(writes, wanted, False), found_after(writes, wanted, True)
            assert type(eager) is type(compiled), (writes, wanted)
            if isinstance(eager, str):
                assert eager == compiled
            else:
                for e, c in zip(eager, compiled, strict=True):
                    torch.testing.assert_close(c, e)


def test_hooks_registered_inside_on_what_is_outside():
    seen = []

    def of_argument(x, w):
        x.register_hook(lambda g: g * 10)
        return x * w

    def retained(x, w):
        x.retain_grad()
        return x * w

    def of_node(x, w):
        x.grad_fn.register_hook(lambda into, out: seen.append(1))
        return x * w

    def of_leaf(x, w):
        w.register_post_accumulate_grad_hook(lambda p: seen.append(2))
        return x * w

    for function in (of_argument, retained, of_node, of_leaf):
        found = []
        for run in (function, torch.compile(function)):
            del seen[:]
            for k in range(4):
                leaf, w = normal(3, seed=k).requires_grad_(), normal(3, seed=9).requires_grad_()
                x = leaf * 2
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", torch.compiler.CompileWarning)
                    run(x, w).sum().backward()
            found.append((leaf.grad.tolist(), w.grad.tolist(), x.retains_grad, len(seen)))
        assert found[0] == found[1]


def test_hooks_that_backward_inside_comes_by():
    seen = []

    def of_leaf(x, w):
        w.grad = None
        (w * x).sum().backward()
        return (w * x).exp()

    def of_argument(x, w):
        return torch.autograd.grad((x * x).sum(), x)[0] * w.detach()

    for function in (of_leaf, of_argument):
        found = []
        for run in (function, torch.compile(function)):
            w = normal(3, seed=9).requires_grad_()
            for k in range(7):
                x = normal(3, seed=k).requires_grad_() * 2
                target = w if function is of_leaf else x
                if k == 4:
                    hook = target.register_hook(lambda g: seen.append(1) or g * 10)
                if k == 5:
                    hook.remove()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", torch.compiler.CompileWarning)
                    found.append((run(x, w).tolist(), w.grad if w.grad is None else w.grad.tolist(), len(seen)))
            del seen[:]
        assert found[:7] == found[7:]


def test_gradients_that_are_forgotten_and_asked_for_outside():
    net = nn.Linear(3, 2)

    def forgetting(x):
        net.zero_grad()
        return net(x).sum()

    for function in (forgetting, torch.compile(forgetting, fullgraph=True)):
        for k in range(4):
            if k < 2:  # recorded where there is none
                net.zero_grad()
            function(torch.ones(1, 3)).backward()
            assert net.weight.grad.tolist() == [[1.0] * 3] * 2


def test_one_tensor_in_the_place_of_two_that_were_apart():
    weight = normal(3).requires_grad_()

    def of_second(x, y):
        (found,) = torch.autograd.grad((x * weight).sum(), y, allow_unused=True)
        return torch.zeros(3) if found is None else found * 2

    def of_weight(x, y):
        return torch.autograd.grad((x * weight).sum(), weight)[0] * 2 + y.detach()

    def asked(x, y):
        return x * (2 if x is y else 3)

    for function in (of_second, of_weight, asked):
        compiled = torch.compile(function)
        for k in range(8):
            x, y = normal(3, seed=k).requires_grad_(), normal(3, seed=9).requires_grad_()
            given = [(x, y), (x, x), (weight, y), (x, weight)][k % 4]
            torch.testing.assert_close(compiled(*given), function(*given))


def _partly_freed():
    """(function of x, w, v, whether compiled or not) that frees a part of the graph of what it returns."""
    w, v = normal(3).requires_grad_(), normal(3, seed=1).requires_grad_()

    def function(x):
        hidden = torch.tanh(x * w)
        (of_w,) = torch.autograd.grad(hidden.sum(), w)
        return (hidden.detach() * v + hidden).exp() * x, of_w, torch.sin(v)

    return function, w, v


@pytest.mark.parametrize("history", [False, True])
def test_part_of_the_graph_of_a_result_is_freed(history):
    """What can be asked for past that is found, what can't is refused, as uncompiled."""
    function, w, v = _partly_freed()
    compiled = torch.compile(function, fullgraph=True)
    first = normal(3, seed=9).requires_grad_()

    def outcome(call, k, wanted):
        x = normal(3, seed=k) + first if history else normal(3, seed=k)
        out, of_w, other = call(x)
        left = [out.detach(), of_w]
        for result in (out, other, out + other):
            try:
                found = torch.autograd.grad(result.sum(), wanted, retain_graph=True, allow_unused=True)
                left += [0 if g is None else g for g in found]
            except RuntimeError as error:
                left.append(str(error))
        with contextlib.suppress(RuntimeError):
            v.grad = None
            other.sum().backward()
            left.append(v.grad)
        return left

    for k in range(4):
        for wanted in ([v], [w], [v, w], [v, first], [first]):
            if not history and any(each is first for each in wanted):
                continue
            for e, f in zip(*(outcome(call, k, wanted) for call in (function, compiled)), strict=True):
                assert torch.allclose(e, f) if isinstance(e, torch.Tensor) else e == f
    assert compiled._variants


def test_of_two_results_one_has_the_freed_part():
    """A gradient that one result reaches through freed nodes and another without: that is not compiled."""
    w = normal(3).requires_grad_()

    def function(x):
        hidden = torch.tanh(x * w)
        hidden.sum().backward()
        return (hidden * w).exp(), torch.sin(w)

    compiled = torch.compile(function)
    with pytest.warns(torch.compiler.CompileWarning, match="part of the graph of a result has been freed"):
        for k in range(4):
            out, other = compiled(normal(3, seed=k))
            torch.testing.assert_close(torch.autograd.grad(other.sum(), w)[0], w.detach().cos())
            with pytest.raises(RuntimeError, match="second time"):
                torch.autograd.grad(out.sum(), w)
