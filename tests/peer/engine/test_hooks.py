"""Hooks beside PyTorch: the same code under both, its notes and errors compared.

Each case is a function of the engine that returns what it has seen: plain Python values.
"""

import warnings

import pytest
import torch

import jitgrad

ENGINES = (jitgrad, torch)


def plain(value):
    """Tensors as lists, at any depth."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def outcome(case, engine):
    """What a case returns, or the class and words of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(case(engine))
        except Exception as error:
            return type(error).__name__, str(error)


def agree(case):
    ours, theirs = (outcome(case, engine) for engine in ENGINES)
    assert ours == theirs


def leaf(e, *values):
    return e.tensor(list(values), dtype=e.float64, requires_grad=True)


def ones(e, *shape, dtype="float64"):
    return e.ones(*shape, dtype=getattr(e, dtype))


# -- what a hook may return ------------------------------------------------------------------------

RETURNED = {
    "nothing": lambda e: None,
    "like it": lambda e: ones(e, 2) * 5,
    "int": lambda e: 3,
    "bool": lambda e: False,
    "str": lambda e: "a",
    "list": lambda e: [1],
    "tuple": lambda e: (ones(e, 2),),
    "longer": lambda e: ones(e, 3),
    "no dims": lambda e: ones(e),
    "another dim": lambda e: ones(e, 2, 1),
    "float32": lambda e: ones(e, 2, dtype="float32"),
    "int64": lambda e: ones(e, 2, dtype="int64"),
    "complex": lambda e: ones(e, 2, dtype="complex128"),
}


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("on_leaf", [False, True])
def test_tensor_hook_returns(returned, on_leaf):
    def case(e):
        x = leaf(e, 1.0, 2.0)
        y = x * 3

        def hook(g):
            return RETURNED[returned](e)

        (x if on_leaf else y).register_hook(hook)
        y.sum().backward()
        return x.grad

    agree(case)


NODE_RETURNED = {
    "nothing": lambda e: None,
    "tensor": lambda e: ones(e, 2),
    "one": lambda e: (ones(e, 2) * 5,),
    "two": lambda e: (ones(e, 2) * 5, ones(e, 2) * 6),
    "None": lambda e: (None,),
    "two Nones": lambda e: (None, None),
    "empty": lambda e: (),
    "int": lambda e: 3,
    "list": lambda e: [ones(e, 2)],
    "longer": lambda e: (ones(e, 3),),
    "longer and another": lambda e: (ones(e, 3), ones(e, 2)),
    "float32": lambda e: (ones(e, 2, dtype="float32"),),
    "number": lambda e: (3,),
}


@pytest.mark.parametrize("returned", NODE_RETURNED)
@pytest.mark.parametrize("number", [False, True])
@pytest.mark.parametrize("of_leaf", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_node_hook_returns(returned, number, of_leaf, before):
    def case(e):
        x, w = leaf(e, 1.0, 2.0), leaf(e, 1.0, 2.0)
        y = x * (3 if number else w)
        node = y.grad_fn.next_functions[0][0] if of_leaf else y.grad_fn

        def hook(*grads):
            return NODE_RETURNED[returned](e)

        (node.register_prehook if before else node.register_hook)(hook)
        y.sum().backward()
        return x.grad, w.grad

    agree(case)


# -- when hooks are called --------------------------------------------------------------------------


def everything(e, log):
    """x, y = 2x and z = 3y, all hooks taking notes and multiplying."""
    x = leaf(e, 1.0)
    y = x * 2
    z = y * 3
    node, end = y.grad_fn, y.grad_fn.next_functions[0][0]
    y.register_hook(lambda g: (log.append(["y", plain(g)]), g * 10)[1])
    x.register_hook(lambda g: (log.append(["x", plain(g)]), g * 100)[1])
    node.register_prehook(lambda g: (log.append(["pre", plain(g)]), (g[0] * 7,))[1])
    node.register_hook(lambda gi, go: log.append(["post", plain(gi), plain(go)]))
    end.register_prehook(lambda g: (log.append(["leaf pre", plain(g)]), (g[0] * 3,))[1])
    end.register_hook(lambda gi, go: log.append(["leaf post", plain(gi), plain(go)]))
    x.register_post_accumulate_grad_hook(lambda t: log.append(["after", plain(t.grad)]))
    return x, y, z


RUNS = {
    "backward": lambda e, x, y, z: z.backward(),
    "backward to x": lambda e, x, y, z: z.backward(inputs=[x]),
    "backward to y": lambda e, x, y, z: z.backward(inputs=[y]),
    "backward to both": lambda e, x, y, z: z.backward(inputs=[y, x]),
    "grad of x": lambda e, x, y, z: e.autograd.grad(z, x),
    "grad of y": lambda e, x, y, z: e.autograd.grad(z, y),
    "grad of both": lambda e, x, y, z: e.autograd.grad(z, [y, x]),
    "grad of y to itself and x": lambda e, x, y, z: e.autograd.grad(y, [y, x]),
}


@pytest.mark.parametrize("run", RUNS)
def test_order_and_captures(run):
    def case(e):
        log = []
        x, y, z = everything(e, log)
        found = RUNS[run](e, x, y, z)
        return found, log, x.grad, y.grad, y.retains_grad

    agree(case)


def test_none_reaches_hooks_where_no_gradient_does():
    def case(e):
        class Ends(e.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return None

        log = []
        x = leaf(e, 1.0)
        y = x.exp()
        y.register_hook(lambda g: log.append(["y", plain(g)]))
        x.register_hook(lambda g: log.append(["x", plain(g)]))
        y.grad_fn.register_hook(lambda gi, go: log.append([plain(gi), plain(go)]))
        x.register_post_accumulate_grad_hook(lambda t: log.append("after"))
        Ends.apply(y).backward()
        log.append(plain(x.grad))
        y.backward()  # freed, though no gradient came
        return log

    agree(case)


def test_none_for_outputs_without_a_gradient():
    def case(e):
        x = e.arange(6.0, dtype=e.float64).reshape(3, 2).requires_grad_()
        a, b, c = x.unbind(0)
        log = []
        b.register_hook(lambda g: log.append(["b", plain(g)]))
        a.register_hook(lambda g: log.append(["a", plain(g)]))
        a.grad_fn.register_prehook(lambda go: log.append(plain(go)))
        a.grad_fn.register_hook(lambda gi, go: log.append([plain(gi), plain(go)]))
        (a * 2).sum().backward()
        return log, x.grad

    agree(case)


def test_none_is_not_replaced():
    def case(e):
        a, b = leaf(e, 1.0, 2.0).unbind(0)
        a.grad_fn.register_prehook(lambda go: tuple(ones(e) for _ in go))
        a.backward()

    agree(case)


def test_removal_during_backward():
    def case(e):
        x, log, handles = leaf(e, 1.0), [], []

        def first(g):
            log.append(1)
            handles[1].remove()

        handles.append(x.register_hook(first))
        handles.append(x.register_hook(lambda g: log.append(2)))
        handles.append(x.register_hook(lambda g: handles.append(x.register_hook(lambda g: log.append(3)))))
        (x * 2).backward()
        log.append("again")
        (x * 2).backward()
        for handle in handles:
            handle.remove()
            handle.remove()
        (x * 2).backward()
        return log, x.grad

    agree(case)


def test_hooks_round_a_write_in_place():
    def case(e):
        x, log = leaf(e, 1.0), []
        y = x * 2
        y.register_hook(lambda g: log.append(["before", plain(g)]))
        y.retain_grad()
        y.mul_(5)
        y.register_hook(lambda g: log.append(["after", plain(g)]))
        (y * 3).sum().backward()
        return log, y.grad, y.retains_grad, x.grad

    agree(case)


def test_retained_gradients_are_those_after_all_hooks():
    def case(e):
        x = leaf(e, 1.0)
        y = x * 2
        y.register_hook(lambda g: g * 10)
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        z = y * 3
        z.backward(retain_graph=True)
        kept = y.grad
        z.backward(retain_graph=True)
        found = e.autograd.grad(z, x)
        return y.grad, kept is y.grad, x.grad, found

    agree(case)


def test_a_hook_that_writes_into_its_gradient():
    def case(e):
        x, g = leaf(e, 1.0), ones(e, 1)
        x.register_hook(lambda g: g.mul_(5))
        x.backward(g)
        y = x * 2
        y.register_hook(lambda g: g.mul_(5))
        (y * 3).backward()
        return x.grad, g

    agree(case)


def test_a_kept_gradient_is_not_added_into():
    def case(e):
        x, kept = leaf(e, 1.0, 2.0), []
        y = x * 2
        y.register_hook(kept.append)
        x.register_hook(kept.append)
        y.grad_fn.register_hook(lambda gi, go: kept.extend([gi[0], go[0]]))
        (y.exp() + y.sin() + y * y).sum().backward()
        before = plain(kept)
        (x * x).sum().backward()
        return plain(kept[:4]) == before[:4], plain(kept)

    agree(case)


def test_grad_mode_in_hooks():
    def case(e):
        x, log = leaf(e, 1.0), []
        x.register_hook(lambda g: log.append([e.is_grad_enabled(), g.requires_grad]))
        (x * x).backward()
        (x * x).backward(create_graph=True)
        return log

    agree(case)


def test_hooks_of_a_dropped_leaf():
    def case(e):
        log = []

        def build():
            x = leaf(e, 1.0)
            y = x * 2
            x.register_hook(lambda g: log.append(plain(g)))
            x.register_post_accumulate_grad_hook(lambda t: log.append(plain(t.grad)))
            return y + x

        build().backward()
        return log

    agree(case)


REFUSED = {
    "hook": lambda e: ones(e, 2).register_hook(print),
    "after": lambda e: ones(e, 2).register_post_accumulate_grad_hook(print),
    "after, no leaf": lambda e: (leaf(e, 1.0) * 2).register_post_accumulate_grad_hook(print),
    "detached": lambda e: (leaf(e, 1.0) * 2).detach().register_hook(print),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_refused(refused):
    agree(REFUSED[refused])


def test_what_an_after_hook_returns():
    def case(e, value):
        x = leaf(e, 1.0)
        x.register_post_accumulate_grad_hook(lambda t: value)
        (x * 2).backward()
        return x.grad

    agree(lambda e: case(e, 5))
    agree(lambda e: case(e, ones(e, 1)))


def test_what_is_no_function_fails_when_called():
    def case(e):
        x = leaf(e, 1.0)
        x.register_hook(3)
        (x * 2).backward()

    agree(case)


def test_a_hook_that_raises():
    def case(e):
        x, z = leaf(e, 1.0), leaf(e, 2.0)
        y = x * 2
        w = (y * z).exp()

        def fail(g):
            raise KeyError("in the hook")

        y.register_hook(fail)
        found = []
        for _ in range(2):
            try:
                w.backward()
            except Exception as error:
                found.append([type(error).__name__, str(error)[:60]])
        return found, e.is_grad_enabled(), x.grad, z.grad

    agree(case)


def test_hooks_of_the_node_follow_what_was_accumulated():
    def case(e):
        x = leaf(e, 1.0, 2.0)
        node = x.view_as(x).grad_fn.next_functions[0][0]
        notes = []
        x.register_hook(lambda g: g - 2)
        node.register_prehook(lambda grads: (grads[0] / 5,))
        x.register_post_accumulate_grad_hook(lambda t: notes.append(t.grad.add_(0.5).clone()))

        def after(_, grads):
            notes.append(grads[0].clone())
            x.grad = grads[0] * 10

        node.register_hook(after)
        x.sum().backward()
        return notes, x.grad

    agree(case)


def test_hooks_of_what_requires_no_grad_wait():
    def case(e):
        x, notes = e.ones(2), []
        x._backward_hooks = {}
        x._backward_hooks["one"] = lambda g: notes.append(g)
        y = leaf(e, 1.0, 2.0)
        (x * y).sum().backward()
        silent = list(notes)
        x.requires_grad_()
        (x * y).sum().backward()
        return silent, notes, list(x._backward_hooks)

    agree(case)


def test_a_leaf_with_other_memory_is_another_variable():
    def case(e):
        x = leaf(e, 1.0, 2.0)
        edge = e.autograd.graph.get_gradient_edge(x)
        y = x * x
        with e.no_grad():
            x.set_(e.zeros(2, dtype=e.float64))
        found = e.autograd.grad(y.sum(), [x, edge], retain_graph=True, allow_unused=True)
        x.register_hook(lambda g: g * 2)
        y.sum().backward()
        return found, x.grad

    agree(case)
