"""autograd.graph: hooks on saved tensors, what nodes show, edges, hooks on several gradients."""

import gc
import math
import threading
import weakref

import pytest

import jitgrad as torch
from jitgrad.autograd import graph
from jitgrad.core.node import node_observers
from jitgrad.kernels import launch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_packed_and_unpacked():
    x, log = leaf(2.0), []
    with graph.saved_tensors_hooks(lambda t: log.append(t.tolist()) or ("packed", t.tolist()),
                                   lambda p: torch.tensor(p[1])):  # fmt: skip
        y = (x * x).exp()
    assert log == [[2.0], [2.0], pytest.approx([54.59815])] and type(y.grad_fn).__name__ == "ExpBackward0"
    y.backward()
    assert x.grad.tolist() == pytest.approx([4 * 54.59815], rel=1e-5)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_nothing_is_left_when_hooks_are_off():
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t), graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert len(node_observers) == 1
    assert not node_observers


def test_hooks_of_one_thread_leave_others_alone():
    x, done = leaf(2.0), []

    def work():
        done.append((x * x).grad_fn)

    with graph.saved_tensors_hooks(lambda t: 1 / 0, lambda t: t):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert done[0]._saved_self is x


def test_packed_tensors_are_dropped():
    x = leaf(1.0)
    y = x * 1
    with graph.saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
        z = y * y
    alive = weakref.ref(y)
    gc.disable()
    try:
        del y
        assert alive() is None
    finally:
        gc.enable()
    z.backward()
    assert x.grad.tolist() == [2.0]


def test_higher_order_through_packed_tensors():
    x = leaf(3.0)
    with graph.save_on_cpu():
        y = x * x * x
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g, x, create_graph=True)
    assert h.tolist() == [18.0]


def test_structured_ops_and_lists():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    with graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = (torch.stack([x, w]).softmax(0) @ w).sum() + torch.einsum("i,i->", x, w) + x.max(0).values
    y.backward()
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    ((torch.stack([a, b]).softmax(0) @ b).sum() + torch.einsum("i,i->", a, b) + a.max(0).values).backward()
    assert x.grad.tolist() == a.grad.tolist() and w.grad.tolist() == b.grad.tolist()


def test_errors():
    x = leaf(1.0)
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"),
    ):
        x.exp()
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type int"):
        y.backward()
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.save_on_cpu(),
    ):
        pass
    with graph.save_on_cpu():
        pass


def test_writes_to_saved_tensors_allowed():
    with graph.allow_mutation_on_saved_tensors():
        x = leaf(1.0, 2.0)
        y = x.clone()
        out = (y**2).sum()
        y.sin_()
        out.backward()
        late = (x * x).sum()
    assert x.grad.tolist() == [2.0, 4.0]
    with pytest.raises(AssertionError, match="outside of the 'allow_mutation_on_saved_tensors'"):
        late.backward()


def test_what_nodes_show():
    x = leaf(2.0)
    node = (x * x).grad_fn
    assert node._saved_self is x and node._saved_other is x
    y = x.exp()
    saved = y.grad_fn._saved_result
    assert saved.tolist() == y.tolist() and saved.grad_fn is y.grad_fn is y.grad_fn
    assert x.sum().grad_fn._saved_self_sym_sizes == (1,) and x.softmax(0).grad_fn._saved_dim == 0
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        (x * 2).grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    node._raw_saved_self.register_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v) * 10)
    assert node._saved_self.tolist() == [20.0] and node._saved_self.requires_grad


def test_edges():
    x = leaf(2.0)
    y = x * x
    edge = graph.get_gradient_edge(y)
    z = y * 3
    del y
    assert torch.autograd.grad(z, edge, retain_graph=True)[0].tolist() == [3.0]
    assert torch.autograd.grad(edge, x)[0].tolist() == [4.0]
    with pytest.raises(RuntimeError, match="It is not possible to get the gradient edge"):
        graph.get_gradient_edge(torch.ones(1))


def test_versions():
    x = leaf(2.0) * 1
    y = x * x
    graph.increment_version(x)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        y.backward()


def test_hooks_on_several_gradients():
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    seen, first = [], []
    handle = graph.register_multi_grad_hook((a, b, c), lambda g: seen.append([t and t.tolist() for t in g]))
    with graph.register_multi_grad_hook([a, b], lambda g: first.append(g.tolist()), mode="any"):
        (a * b).backward()
        (a + b + c).backward()
    handle.remove()
    (a + b + c).backward()
    assert seen == [[[2.0], [1.0], None], [[1.0], [1.0], [1.0]]] and len(first) == 2


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_on_several_gradients_count_each_run_for_itself(mode):
    a, b, seen = leaf(1.0), leaf(1.0), []
    y = a * 5

    def within(g):
        with torch.enable_grad():
            (a * 7).backward()

    y.register_hook(within)
    graph.register_multi_grad_hook((a, b), lambda found: seen.append(found), mode=mode)
    (y + b * 3).backward()
    told = [[g and g.tolist() for g in found] for found in seen] if mode == "all" else [g.tolist() for g in seen]
    assert told == ([[[7.0], None], [[5.0], [3.0]]] if mode == "all" else [[3.0], [7.0]])


def test_saved_tensors_are_not_made_by_hand():
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        torch.autograd.SavedTensor()
    y = torch.ones(2, requires_grad=True).exp()
    assert isinstance(y.grad_fn._raw_saved_result, torch.autograd.SavedTensor)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        y.grad_fn._raw_saved_result.register_hooks(lambda t: t)


WRITES = {
    "word": lambda y: y.sin_(), "number": lambda y: y.mul_(3), "tensor": lambda y: y.add_(torch.ones(2, 3)),
    "copy": lambda y: y.copy_(torch.ones(3)), "zero": lambda y: y.zero_(), "fill": lambda y: y.fill_(4.0),
    "index": lambda y: y.__setitem__(0, 5.0), "mask": lambda y: y.masked_fill_(y > 2, 0.0),
    "scan": lambda y: y.cumsum_(1), "random": lambda y: y.normal_(), "transposed": lambda y: y.t()[1:].mul_(2),
    "rows": lambda y: y.index_add_(0, torch.tensor([1]), torch.ones(1, 3)),
    "out": lambda y: torch.mul(torch.ones(2, 3), 2, out=y), "base": lambda y: y._base.mul_(2),
    "triangle": lambda y: y.tril_(), "clamp": lambda y: y.clamp_(0, 1), "compare": lambda y: y.gt_(1),
    "optimizer": lambda y: torch.optim.SGD([with_grad(y)], lr=0.5).step(),
}  # fmt: skip


def with_grad(y):
    y.grad = torch.ones(2, 3)
    return y


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_to_is_copied_first(name):
    scale = leaf(1.0, 2.0, 3.0)
    with graph.allow_mutation_on_saved_tensors() as kept:
        y = torch.arange(7.0)[1:].view(2, 3)
        out = (y * scale).sum() + (y[1] * scale).sum()
        assert len(kept.original) == 2 and not kept.cloned
        WRITES[name](y)
        assert len(kept.cloned) == 2 and not kept.original
        assert y.tolist() != [[1, 2, 3], [4, 5, 6]]
        out.backward()
        assert not kept.cloned
    assert scale.grad.tolist() == [9, 12, 15]


def test_only_what_is_needed_is_copied():
    with graph.allow_mutation_on_saved_tensors() as kept:
        x = leaf(1.0, 2.0)
        y, other = x.clone(), x.detach().clone()
        first, second = y**2, y**2
        other.sin_()
        assert not kept.cloned  # nobody saved it
        y.mul_(2)
        assert len(kept.cloned) == 1  # one copy for both
        third = y.exp()
        third.add_(1)
        assert len(kept.cloned) == 2
        del first, second
        assert len(kept.cloned) == 1
        third.sum().backward()
        y.sin_()
        assert not kept.cloned
    assert x.grad.tolist() == pytest.approx([2 * math.exp(2), 2 * math.exp(4)])
    assert not launch.observers
