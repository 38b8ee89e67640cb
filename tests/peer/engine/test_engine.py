"""The engine beside PyTorch: accumulation, graphs that are kept or freed, runs within runs, errors."""

import threading
import warnings
from collections import OrderedDict

import pytest
import torch

import jitgrad

CASES = []


def case(function):
    CASES.append(function)
    return function


def plain(value):
    """Tensors as values and strides, at any depth; numbers to twelve digits."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        return plain(value.tolist()), list(value.stride()), type(value.grad_fn).__name__
    return float(f"{value:.12g}") if isinstance(value, float) else value


def outcome(function, engine):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(function(engine))
        except Exception as error:
            return type(error).__name__, str(error)


def leaf(e, *values):
    return e.tensor(list(values), dtype=e.float64, requires_grad=True)


# -- what .grad becomes -------------------------------------------------------------------------------


@case
def identity_of_grad(e):
    x = leaf(e, 1.0, 2.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    kept = x.grad is first, first.tolist()
    (x * x).sum().backward(create_graph=True)
    second = x.grad
    (x * x).sum().backward()
    return kept, second is first, first, x.grad is second, x.grad


@case
def first_grad_under_create_graph(e):
    x = leaf(e, 1.0, 2.0)
    (x * x).sum().backward(create_graph=True)
    return x.grad.tolist(), x.grad.requires_grad, x.grad is x.grad


@case
def root_gradient_is_not_taken(e):
    x, g = leaf(e, 1.0), e.ones(1, dtype=e.float64)
    (x + 0).backward(g)
    x.grad.mul_(5)
    x.grad = None
    x.backward(g)
    x.grad.mul_(7)
    return g, x.grad


@case
def strides_of_grad(e):
    x = e.ones(2, 3, dtype=e.float64).t().requires_grad_()
    (x * 2).sum().backward()
    y = e.ones(2, 3, dtype=e.float64).requires_grad_()
    y.t().exp().sum().backward()
    z = e.ones(2, 4, dtype=e.float64)[:, ::2].requires_grad_()
    (z * z).sum().backward()
    w = e.ones(2, 3, dtype=e.float64).t().requires_grad_()
    w.sum().backward()
    return x.grad, y.grad, z.grad, w.grad


@case
def grad_that_requires_grad(e):
    x = leaf(e, 1.0)
    x.grad = e.ones(1, dtype=e.float64, requires_grad=True)
    before = x.grad
    (x * 2).backward()
    return x.grad is before, x.grad.tolist()


@case
def grad_of_repeated_memory(e):
    x = leaf(e, 1.0, 2.0)
    x.grad = e.zeros(1, dtype=e.float64).expand(2)
    (x * 3).sum().backward()


@case
def many_uses_in_any_order(e):
    x, y = leaf(e, 1.0, 2.0), leaf(e, 3.0, 4.0)
    a, b = x + y, x - y
    c, d = a + b, a - b
    total = (a * b + c * d + a + a + b.expand(2, 2).sum(0) + c.reshape(1, 2).sum(0) + x + x).sum()
    total.backward()
    return x.grad, y.grad


# -- graphs kept and freed ----------------------------------------------------------------------------


@case
def kept_graph(e):
    x = leaf(e, 2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    first = x.grad.tolist()
    (x + 1).sum().backward()
    z = x + 1  # nothing is saved: it may run again
    z.backward()
    z.backward()
    return first, x.grad


@case
def freed_in_part(e):
    x = leaf(e, 2.0)
    y = x.exp()
    a, b = y * 2, y * 3
    a.backward()
    b.backward()


@case
def grad_frees_only_what_ran(e):
    x, w = leaf(e, 2.0), leaf(e, 3.0)
    y = w.exp()
    z = x * x + y
    e.autograd.grad(z, x)
    y.backward()
    return w.grad


@case
def inputs_of_backward(e):
    x, w = leaf(e, 2.0), leaf(e, 3.0)
    y = x * w
    z = y * y
    z.backward(inputs=[y, w], retain_graph=True)
    seen = [y.grad, y.retains_grad, x.grad, w.grad]
    z.backward(inputs=x)
    return seen, y.grad, x.grad, w.grad


CASES += [
    lambda e: leaf(e, 1.0).backward(inputs=[]),
    lambda e: (leaf(e, 1.0) * 2).backward(inputs=[e.ones(1)]),
    lambda e: e.autograd.grad(leaf(e, 1.0) * 2, leaf(e, 1.0)),
    lambda e: (lambda x: e.autograd.grad(x * 2, [x, leaf(e, 1.0)]))(leaf(e, 1.0)),
    lambda e: e.autograd.grad(leaf(e, 1.0) * 2, e.ones(1)),
    lambda e: (lambda x: e.autograd.grad(x * 2, [x, leaf(e, 1.0)], materialize_grads=True))(leaf(e, 1.0)),
    lambda e: (lambda x: e.autograd.grad([x * 2, x * 3], [x, x]))(leaf(e, 1.0)),
]


# -- runs within runs, callbacks, threads --------------------------------------------------------------


@case
def backward_in_a_hook(e):
    x = leaf(e, 1.0)
    y = x * 2

    def nested(g):
        (x * 5).sum().backward()

    y.register_hook(nested)
    y.sum().backward()
    return x.grad


@case
def backward_of_the_same_graph_in_a_hook(e):
    x, calls = leaf(e, 1.0), []
    y = (x * 2).exp()

    def nested(g):
        calls.append(1)
        if len(calls) < 3:
            y.backward(retain_graph=True)

    y.register_hook(nested)
    y.backward()
    return x.grad, len(calls)


@case
def an_error_in_a_nested_run(e):
    x = leaf(e, 1.0)
    y = x * 2

    def nested(g):
        (x * 2).backward(e.ones(3))

    y.register_hook(nested)
    try:
        y.backward()
    except RuntimeError as error:
        found = str(error)
    (x * 3).backward()
    return found, x.grad, e.is_grad_enabled()


@case
def callbacks(e):
    queue, log = e.autograd.Variable._execution_engine.queue_callback, []
    x = leaf(e, 1.0)

    def last():
        log.append(["callback", x.grad.tolist(), e.is_grad_enabled()])
        queue(lambda: log.append("queued by it"))

    def hook(g):
        log.append("hook")
        queue(last)

    y = x * 2
    y.register_hook(hook)
    y.backward()
    return log


@case
def callback_outside(e):
    e.autograd.Variable._execution_engine.queue_callback(print)


@case
def grad_mode_of_another_thread(e):
    x, seen = leaf(e, 1.0), []
    y = x * x

    def work():
        seen.append(e.is_grad_enabled())
        y.backward()

    with e.no_grad():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return seen, x.grad


@case
def multithreading_setting(e):
    set_enabled = e.autograd.set_multithreading_enabled
    seen = []

    def note():
        with set_enabled(True) as _:
            pass
        seen.append(True)

    with set_enabled(False):
        x = leaf(e, 2.0)
        (x * x).backward()
    note()

    @set_enabled(False)
    def decorated():
        return (x * x).requires_grad

    found = decorated()
    set_enabled(True)
    return seen, x.grad, found


# -- what gradients are asked for ---------------------------------------------------------------------


@case
def inputs_in_any_collection(e):
    x, y = leaf(e, 1.0, 2.0), leaf(e, 3.0, 4.0)
    (x * y).sum().backward(inputs=(t for t in [x]))
    (x * y).sum().backward(inputs={"y": y})
    by_name = e.autograd.grad((x * y).sum(), {"x": x, "y": y})
    e.autograd.backward(t for t in [x.sum()])
    return x.grad, y.grad, list(by_name), list(by_name.values()), e.autograd.grad((x * y).sum(), iter([y]))


@case
def mappings_that_are_no_dictionaries(e):
    x = leaf(e, 1.0)
    e.autograd.grad(x.sum(), OrderedDict(x=x))


@case
def no_inputs_in_a_dictionary(e):
    leaf(e, 1.0).sum().backward(inputs={})


@case
def inputs_that_are_no_tensors(e):
    e.autograd.grad(leaf(e, 1.0).sum(), [3])


@case
def outputs_that_are_no_tensors(e):
    e.autograd.grad([3], leaf(e, 1.0))


@case
def materialized_gradients_may_be_differentiated(e):
    x, a = leaf(e, 0.5), leaf(e, 2.0)
    first = e.autograd.grad(x * a, x, create_graph=True)
    second = e.autograd.grad(first, x, create_graph=True, materialize_grads=True)
    return second, e.autograd.grad(second, x, materialize_grads=True)


@case
def a_leaf_that_has_nothing_to_do_with_the_input(e):
    x, y = leaf(e, 1.0, 2.0), leaf(e, 3.0, 4.0)
    rows = e.ones(3, 2, dtype=e.float64)
    return (
        e.autograd.grad(y, x, rows[0], allow_unused=True),
        e.autograd.grad(y, x, rows, allow_unused=True, is_grads_batched=True),
        e.autograd.grad(y, x, rows, materialize_grads=True, is_grads_batched=True),
    )


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_case(function):
    assert outcome(function, jitgrad) == outcome(function, torch)
