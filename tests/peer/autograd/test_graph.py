"""``autograd.graph`` beside PyTorch: nodes, edges, versions, hooks on several gradients, the order of nodes."""

import pytest
import torch

import jitgrad

from .function_cases import Cases
from .graph_cases import leaf, outcome, plain

case = Cases()


# -- what nodes show --------------------------------------------------------------------------------


@case
def raw_saved(e):
    x, log = leaf(e, 2.0), []
    y = x * x
    node = y.grad_fn
    log += [node._saved_self is x, node is y.grad_fn]
    node._raw_saved_self.register_hooks(
        lambda t: (log.append("packed"), t)[1], lambda t: (log.append("unpacked"), t * 10)[1]
    )
    y.backward(retain_graph=True)
    seen = node._saved_self
    return log, x.grad, seen, seen.requires_grad, node._saved_other


@case
def raw_twice(e):
    node = (lambda x: x * x)(leaf(e, 2.0)).grad_fn
    for _ in range(2):
        node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@case
def raw_freed(e):
    x = leaf(e, 2.0)
    y = x * x
    raw = y.grad_fn._raw_saved_self
    y.backward()
    raw.register_hooks(lambda t: t, lambda t: t)


@case
def raw_of_none(e):
    node = (leaf(e, 2.0) * 2).grad_fn
    assert node._saved_self is None
    node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


@case
def saved_freed(e):
    x = leaf(e, 2.0)
    y = x * x
    y.backward()
    return y.grad_fn._saved_self


@case
def saved_written(e):
    u = leaf(e, 2.0) * 1
    y = u * u
    u.add_(1)
    return y.grad_fn._saved_self


@case
def saved_result(e):
    y = leaf(e, 2.0).exp()
    saved = y.grad_fn._saved_result
    return saved, saved is y, saved.grad_fn is y.grad_fn, saved.requires_grad


SHOWN = "x.pow(2) | x.softmax(0) | x.t() | x.sum() | x.atan2(x) | x.exp() | x[0] | x.sigmoid() | x.clamp(0, 1)"


@pytest.mark.parametrize("expression", [e.strip() for e in SHOWN.split("|")])
def test_saved_attributes(expression):
    def run(e):
        node = eval(expression, {"x": leaf(e, 0.5)}).grad_fn
        names = [n for n in dir(node) if n.startswith(("_saved_", "_raw_saved"))]
        return node.name(), {n: plain(getattr(node, n)) for n in names if n[1] == "s"}, names

    assert outcome(run, jitgrad) == outcome(run, torch)


@case
def node_attributes(e):
    x = leaf(e, 2.0)
    y = x * x
    z = y * 2
    y.grad_fn.metadata["note"] = 1
    end = y.grad_fn.next_functions[0][0]
    return (y.grad_fn._sequence_nr() < z.grad_fn._sequence_nr(), y.grad_fn.metadata, end._sequence_nr(), end.name(),
            end.variable is x, y.grad_fn.requires_grad, isinstance(y.grad_fn, e.autograd.graph.Node))  # fmt: skip


# -- edges, versions, hooks on several gradients -----------------------------------------------------


@case
def edges(e):
    x = leaf(e, 2.0)
    y = x * x
    of_y, of_x = map(e.autograd.graph.get_gradient_edge, (y, x))
    z = (y * 3).sum()
    grad = e.autograd.grad
    return (type(of_y).__name__, of_y.node is y.grad_fn, of_y.output_nr, of_x.node.name(),
            grad(z, of_y, retain_graph=True), grad(z, [of_x, of_y], retain_graph=True),
            grad(of_y, x, retain_graph=True), grad(of_y, x, e.ones(1, dtype=e.float64), retain_graph=True),
            grad(x * 1, of_y, allow_unused=True))  # fmt: skip


@case
def backward_from_and_to_edges(e):
    x = leaf(e, 2.0)
    y = x * x
    of_y, of_x = map(e.autograd.graph.get_gradient_edge, (y, x))
    e.autograd.backward(of_y, e.ones(1, dtype=e.float64), retain_graph=True)
    (y * 3).backward(inputs=[of_x])
    return x.grad


case += [
    lambda e: e.autograd.graph.get_gradient_edge(e.ones(1)),
    lambda e: (lambda x: e.autograd.grad(x * 1, e.autograd.graph.get_gradient_edge(x * x)))(leaf(e, 1.0)),
    lambda e: (lambda x: e.autograd.grad(x * 1, e.autograd.graph.get_gradient_edge(x * x), materialize_grads=True))(
        leaf(e, 1.0)
    ),
    lambda e: e.autograd.grad(e.autograd.graph.get_gradient_edge(leaf(e, 1.0) * 2), leaf(e, 1.0), e.ones(3)),
    lambda e: e.autograd.graph.increment_version(3),
]


@case
def versions(e):
    x = e.ones(3)
    before = x._version
    e.autograd.graph.increment_version(x)
    e.autograd.graph.increment_version([x, x])
    return x._version - before


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_on_several_gradients(mode):
    def run(e):
        a, b, c = leaf(e, 1.0), leaf(e, 2.0), leaf(e, 3.0)
        log = []
        x, y, z = a * 1, b * 1, c * 1
        handle = e.autograd.graph.register_multi_grad_hook((x, y, z), lambda g: log.append(plain(g)), mode=mode)
        (x + y * 2).backward(retain_graph=True)
        (x + y * 2 + z * 3).backward(retain_graph=True)
        (x * 5).backward(retain_graph=True)
        e.autograd.grad(x + y, a, retain_graph=True)
        handle.remove()
        handle.remove()
        (x + y).backward()
        return log

    assert outcome(run, jitgrad) == outcome(run, torch)


case += [
    lambda e: e.autograd.graph.register_multi_grad_hook((leaf(e, 1.0),), print, mode="some"),
    lambda e: e.autograd.graph.register_multi_grad_hook((e.ones(1),), print),
]


# -- what index nodes saved ---------------------------------------------------------------------------


@case
def saved_indices(e):
    x = leaf(e, 1.0, 2.0, 3.0, 4.0).view(2, 2)
    rows, columns = e.tensor([0, 1, 1]), e.tensor([1, 0, 1])
    nodes = [x[rows].grad_fn, x[:, rows].grad_fn, x[rows, columns].grad_fn]
    y = x.clone()
    y[:, rows] = 1.0
    return [n._saved_indices for n in (*nodes, y.grad_fn)]


@case
def hooks_on_saved_indices(e):
    x = leaf(e, 1.0, 2.0, 3.0, 4.0)
    y, notes = x.view(2, 2)[:, e.tensor([0, 1, 1])], []
    y.grad_fn._raw_saved_indices[1].register_hooks(lambda t: (notes.append(t), t)[1], lambda t: t)
    y.sum().backward()
    y = x.view(2, 2)[:, e.tensor([0])]
    return notes, x.grad, y.grad_fn._raw_saved_indices[0].register_hooks(lambda t: t, lambda t: t)


# -- the order of nodes -------------------------------------------------------------------------------


def order(e, numbers):
    x = leaf(e, 1.0, 2.0)
    a, b = x * 2, x * 3
    c = a + b
    d = c * a
    seen = []
    for name, t in {"a": a, "b": b, "c": c, "d": d}.items():
        if name in numbers:
            t.grad_fn._set_sequence_nr(numbers[name])
        t.register_hook(lambda g, name=name: seen.append(name))
    d.sum().backward()
    return seen, x.grad, [t.grad_fn._sequence_nr() for t in (a, b, c, d) if len(numbers) == 4]


@case
def numbers_order_nodes_that_could_run(e):
    rising, falling = {"a": 1, "b": 2, "c": 3, "d": 4}, {"a": 100, "b": 99, "c": 98, "d": 97}
    return [order(e, n) for n in (rising, falling, {"a": 50, "b": 70, "c": 60, "d": 1}, {})]


@case
def numbers_and_chosen_inputs(e):
    x, y = leaf(e, 1.0), leaf(e, 2.0)
    a = x * y
    b = a * y
    a.grad_fn._set_sequence_nr(1 << 40)
    b.sum().backward(inputs=[y], retain_graph=True)
    return y.grad, x.grad, e.autograd.grad(b, [x, a])


@pytest.mark.parametrize("function", case, ids=lambda f: f.__name__)
def test_case(function):
    assert outcome(function, jitgrad) == outcome(function, torch)
