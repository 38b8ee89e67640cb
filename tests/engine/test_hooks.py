"""Hooks on tensors and nodes: who is called when, what hooks may return, who keeps whom alive."""

import gc
import weakref

import pytest

import jitgrad as torch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_all_hooks_in_order():
    x, log = leaf(1.0), []
    y = x * 2
    node, end = y.grad_fn, y.grad_fn.next_functions[0][0]
    node.register_hook(lambda gi, go: log.append(("node", gi[0].tolist(), gi[1], go[0].tolist())))
    node.register_prehook(lambda go: log.append(("before node", go[0].tolist())))
    end.register_hook(lambda gi, go: log.append(("leaf's node", gi, go[0].tolist())))
    end.register_prehook(lambda go: log.append(("before leaf's node", go[0].tolist())))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("after x", t.grad.tolist())))
    x.register_hook(lambda g: log.append(("x", g.tolist())))
    y.register_hook(lambda g: log.append(("y", g.tolist())))
    y.backward()
    assert log == [
        ("y", [1.0]), ("before node", [1.0]), ("node", [2.0], None, [1.0]), ("x", [2.0]),
        ("before leaf's node", [2.0]), ("after x", [2.0]), ("leaf's node", (), [2.0]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "returned, error, words",
    [
        (3, TypeError, "expected Variable, but hook returned 'int'"),
        (torch.ones(3), RuntimeError, "hook 'hook' has changed the size of value"),
        (torch.ones(2, dtype=torch.float64), RuntimeError,
         r"hook 'hook' has changed the type of value \(was torch.FloatTensor got torch.DoubleTensor\)"),
    ],
)  # fmt: skip
def test_what_tensor_hooks_may_not_return(returned, error, words):
    x = leaf(1.0, 2.0)

    def hook(g):
        return returned

    x.register_hook(hook)
    with pytest.raises(error, match=words):
        (x * 2).sum().backward()
    assert x.grad is None


def test_what_node_hooks_may_not_return():
    def run(returned):
        y = leaf(1.0) * leaf(2.0)
        y.grad_fn.register_hook(lambda gi, go: returned)
        y.backward()

    with pytest.raises(TypeError, match="expected tuple, but hook returned 'Tensor'"):
        run(torch.ones(1))
    with pytest.raises(RuntimeError, match=r"incorrect number of values \(got 1, but expected 2\)"):
        run((torch.ones(1),))
    run((torch.ones(1), None))


def test_hooks_stay_with_the_value_before_a_write():
    x, log = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda g: log.append(("old", g.tolist())))
    y.retain_grad()
    y.mul_(5)
    y.register_hook(lambda g: log.append(("new", g.tolist())))
    (y * 3).backward()
    assert log == [("new", [3.0]), ("old", [15.0])] and y.grad.tolist() == [3.0]


def test_removed_hooks_are_called_no_more():
    x, log = leaf(1.0), []
    with x.register_hook(lambda g: log.append(1)):
        (x * 2).backward()
    node = (x * 2).grad_fn
    handle = node.register_hook(lambda gi, go: log.append(2))
    handle.remove()
    handle.remove()
    (x * 2).backward()
    assert log == [1]


def test_a_dropped_leaf_keeps_its_hooks_while_its_graph_lives():
    log = []

    def build():
        x = leaf(1.0)
        y = x * 2
        x.register_hook(lambda g: log.append(g.tolist()))
        x.register_post_accumulate_grad_hook(lambda t: log.append(t.grad.tolist()))
        return y + x

    build().backward()
    assert log == [[3.0], [3.0]]


def test_hooks_make_no_cycles():
    x = leaf(1.0)
    early = x * 2
    x.register_hook(lambda g: None)
    x.register_post_accumulate_grad_hook(lambda t: None)
    late = early * x
    late.register_hook(lambda g: None)
    late.grad_fn.register_hook(lambda gi, go: None)
    late.retain_grad()
    late.backward()
    alive = [weakref.ref(x), weakref.ref(late), weakref.ref(late.grad_fn)]
    gc.disable()
    try:
        del x, early, late
        assert [a() for a in alive] == [None] * 3
    finally:
        gc.enable()


def test_one_node_for_a_leaf_with_hooks():
    x = leaf(1.0)
    before = (x * 2).grad_fn.next_functions[0][0]
    x.register_hook(lambda g: None)
    y, z = x * 3, x * 4
    assert before.variable is x
    assert y.grad_fn.next_functions[0][0] is z.grad_fn.next_functions[0][0] is before
    (y + z).backward()
    assert x.grad.tolist() == [7.0]


def test_a_hook_sees_none_where_no_gradient_arrives():
    a, b = leaf(1.0, 2.0).unbind(0)
    seen = []
    b.register_hook(seen.append)
    a.backward()
    assert seen == [None]


def test_gradients_that_hooks_keep_stay_as_they_are():
    x, kept = leaf(1.0), []
    y = x * 2
    x.register_hook(kept.append)
    y.grad_fn.register_hook(lambda gi, go: kept.append(gi[0]))
    (y + x).backward()
    (x * 5).backward()
    assert [g.tolist() for g in kept] == [[2.0], [3.0], [5.0]] and x.grad.tolist() == [8.0]


def test_hooks_by_their_old_name():
    x = torch.ones(2, requires_grad=True)
    assert x._backward_hooks is None
    handle = x.register_hook(lambda g: g * 2)
    assert list(x._backward_hooks) == [handle.id]
    x._backward_hooks = {"any": lambda g: g * 5}
    (x * 1).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    torch.ones(2)._backward_hooks = {"any": None}  # requires no grad: never called
    with pytest.raises(RuntimeError, match="Deletion of _backwards_hooks not allowed!"):
        del x._backward_hooks
