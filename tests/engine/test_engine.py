"""Backward: sums over paths, order, what is saved, freed and owned."""

import gc
import threading
import weakref

import numpy as np
import pytest

import jitgrad as torch

from .leaves import leaf


def test_diamond_sums_both_paths():
    x = leaf(2.0, 3.0)
    y = x * x
    (y * y + y).sum().backward()
    assert x.grad.tolist() == [4 * 8 + 4, 4 * 27 + 6]


def test_lattice_of_2_to_the_500_paths():
    x = leaf(1.0)
    y = x
    for _ in range(500):
        y = (y + y) * 0.5
    y.backward()
    assert x.grad.tolist() == [1.0]


def test_one_use_many_times_accumulates_in_an_owned_buffer():
    x = leaf(1.0)
    total = x * 0
    for k in range(1, 101):
        total = total + x * float(k)
    total.backward()
    assert x.grad.tolist() == [5050.0]


def test_long_chain_runs_and_is_freed_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(30_000):
        y = y + x
    y.backward()
    assert x.grad.tolist() == [30_001.0]
    del y
    gc.collect()


def test_backward_twice_adds():
    x = leaf(3.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [12.0]


def test_second_backward_without_retaining_raises():
    x = leaf(3.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == [6.0]


def test_nonscalar_needs_a_gradient():
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (leaf(1.0, 2.0) * 2).backward()


def test_nothing_to_differentiate():
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    with pytest.raises(RuntimeError, match=message):
        torch.tensor(1.0).backward()


def test_gradient_of_another_shape():
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of"):
        (leaf(1.0, 2.0) * 2).backward(torch.ones(3))


def test_saved_tensor_modified():
    x = leaf(1.0, 2.0)
    y = x.exp()
    z = y * y
    y.mul_(2.0)
    message = (
        r"one of the variables needed for gradient computation has been modified by an inplace operation: "
        r"\[torch.FloatTensor \[2\]\], which is output 0 of Mul, is at version 1; expected version 0 instead"
    )
    with pytest.raises(RuntimeError, match=message):
        z.sum().backward()


def test_saved_output_modified():
    y = leaf(1.0).exp()
    y.add_(1.0)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        y.sum().backward()


def test_a_result_that_no_rule_names_may_be_modified():
    x = leaf(1.0)
    y = x + 1.0
    y.add_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_leaf_that_requires_grad_cannot_be_written():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x.add_(1.0)
    assert x.tolist() == [1.0]
    with torch.no_grad():
        x.add_(1.0)
    assert x.tolist() == [2.0] and x._version == 1


def test_gradients_do_not_alias_each_other():
    a, b = leaf(1.0), leaf(2.0)
    g = torch.ones(1)
    (a + b).backward(g)
    a.grad.mul_(5.0)
    assert b.grad.tolist() == [1.0] and g.tolist() == [1.0]


def test_a_kept_grad_is_added_into():
    x = leaf(1.0)
    (x * 2).backward()
    kept = x.grad
    (x * 3).backward()
    assert kept is x.grad and kept.tolist() == [5.0]


def test_grad_returns_and_does_not_accumulate():
    x, y = leaf(2.0), leaf(5.0)
    gx, gy = torch.autograd.grad((x * y).sum(), [x, y])
    assert gx.tolist() == [5.0] and gy.tolist() == [2.0]
    assert x.grad is None and y.grad is None


def test_grad_of_an_intermediate_result():
    x = leaf(2.0)
    y = x * 3
    (g,) = torch.autograd.grad((y * y).sum(), y)
    assert g.tolist() == [12.0]


def test_unused_input():
    x, y = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 0 appears to not have been used"):
        torch.autograd.grad(x.sum(), y)
    assert torch.autograd.grad(x.sum(), y, allow_unused=True) == (None,)
    assert torch.autograd.grad(x.sum(), y, materialize_grads=True)[0].tolist() == [0.0]


def test_grad_of_several_outputs():
    x = leaf(2.0)
    (g,) = torch.autograd.grad([x * 2, x * 3], x, [torch.ones(1), torch.tensor([10.0])])
    assert g.tolist() == [32.0]


def test_third_order():
    x = leaf(2.0)
    y = (x * x * x * x).sum()
    for expected in (32.0, 48.0, 48.0):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.tolist() == [expected]


def test_backward_into_chosen_inputs():
    x, y = leaf(2.0), leaf(3.0)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [3.0] and y.grad is None


def test_graph_dies_with_its_last_tensor():
    x = leaf(1.0, 2.0)
    y = x.exp().tanh()
    node, middle = weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.next_functions[0][0])
    gc.disable()
    try:
        del y
        assert node() is None and middle() is None
    finally:
        gc.enable()


def test_leaf_and_its_node_form_no_cycle():
    x = leaf(1.0)
    (x * 2).backward()
    alive = weakref.ref(x)
    gc.disable()
    try:
        del x
        assert alive() is None
    finally:
        gc.enable()


def test_intermediate_values_are_freed_during_backward():
    x = leaf(1.0)
    y = x.exp()
    node = y.grad_fn
    y.sum().backward()
    assert node.saved is None


def test_grad_mode_is_per_thread():
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
        assert not torch.is_grad_enabled()
    assert seen == [True] and torch.is_grad_enabled()


def test_grad_mode_survives_errors_and_generators():
    @torch.no_grad()
    def numbers():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()

    stream = numbers()
    assert next(stream) is False and torch.is_grad_enabled() and next(stream) is False
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        raise ZeroDivisionError
    assert torch.is_grad_enabled()


def test_set_grad_enabled_as_function_and_block():
    torch.set_grad_enabled(False)
    try:
        assert not (leaf(1.0) * 2).requires_grad
        with torch.set_grad_enabled(True):
            assert (leaf(1.0) * 2).requires_grad
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_broadcast_gradients_are_summed():
    x, y = torch.ones(2, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    z = torch.ones(2, 1, requires_grad=True)
    (x * y * z).sum().backward()
    assert y.grad.tolist() == [2.0] * 3 and z.grad.tolist() == [[3.0], [3.0]]


def test_observers_see_every_node():
    from jitgrad.engine import engine

    seen = []

    def observe(node, phase, grads):
        seen.append((node.name(), phase))

    y = leaf(1.0).exp() * 2.0
    engine.observers.append(observe)
    try:
        y.sum().backward()
    finally:
        engine.observers.remove(observe)
    names = ["SumBackward0", "MulBackward0", "ExpBackward0"]
    assert seen == [(n, p) for n in names for p in ("before", "after")]


def test_hooks_see_and_replace_gradients():
    x = leaf(1.0, 2.0)
    y = x * 3.0
    seen = []
    first = y.register_hook(lambda g: seen.append(("y", g.tolist())))
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: seen.append(("x", g.tolist())))
    y.sum().backward(retain_graph=True)
    assert seen == [("y", [1.0, 1.0]), ("x", [30.0, 30.0])] and x.grad.tolist() == [30.0, 30.0]
    first.remove()
    first.remove()
    y.sum().backward()
    assert [name for name, _ in seen] == ["y", "x", "x"] and x.grad.tolist() == [60.0, 60.0]


def test_hooks_after_accumulation():
    x = leaf(1.0)

    def double(t):
        t.grad.mul_(2.0)

    x.register_post_accumulate_grad_hook(double)
    (x * x).sum().backward()
    assert x.grad.tolist() == [4.0]
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_hooks_need_a_gradient():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(1).register_hook(print)


def test_only_what_leads_to_an_input_runs():
    x, w = leaf(1.0), leaf(2.0)
    beside = w.exp()
    called = []
    beside.register_hook(lambda g: called.append(g))
    torch.autograd.grad(x * 3 + beside, x)
    assert not called
    beside.backward()  # was not freed either
    assert len(called) == 1


def test_rules_instead_of_kernels():
    from jitgrad.engine import engine

    x = leaf(1.0, 2.0)
    y = (x * x.exp()).sum() + (x * 2).sum()
    with torch.debug.tape() as tape:
        (found,) = engine.run([y.grad_fn], [torch.ones(())], True, False, [x._leaf_edge], False, rules=True)
    assert not any("backward" in entry.kernel.name for entry in tape)
    (expected,) = torch.autograd.grad(y, x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)
    assert not found.requires_grad


def test_gradients_are_summed_into_buffers_that_nobody_else_holds():
    x, kept = leaf(1.0, 2.0), []
    a, b = x * 1.0, x * 1.0
    for _ in range(4):
        a, b = a + b, a - b
        a.register_hook(lambda g: kept.append((g, g.tolist())))
    g = torch.ones(2)
    (a + b).backward(g)
    assert g.tolist() == [1.0, 1.0] and all(now.tolist() == then for now, then in kept)
    assert x.grad.tolist() == [8.0, 8.0]


def test_multithreading_setting():
    assert torch.autograd.is_multithreading_enabled()
    with torch.autograd.set_multithreading_enabled(False):
        assert not torch.autograd.is_multithreading_enabled()
    assert torch.autograd.is_multithreading_enabled()
