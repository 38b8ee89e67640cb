"""Checkpointing: every op in a region, what is alive when, random numbers, debugging, errors."""

import functools
import gc
import threading
import weakref

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.core import saved_tensors as saved
from jitgrad.debug.launch_tape import tape
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.op_calls import add_observer, remove_observer
from jitgrad.dispatch.registry import FUNCTIONS, OPS
from jitgrad.testing import op_samples
from jitgrad.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)  # fmt: skip

BOTH = pytest.mark.parametrize("reentrant", [False, True])


@pytest.fixture(autouse=True)
def leaves_nothing_behind():
    yield
    assert not saved.thread.hooks and torch.is_grad_enabled()


def differentiable(value):
    return isinstance(value, torch.Tensor) and value.dtype.category >= 2


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_in_a_region(name):
    for function, args, kwargs in op_samples(name):
        args = [a.detach().requires_grad_() if differentiable(a) else a for a in args]
        inputs = [a for a in args if differentiable(a)]
        found = []
        for region in (False, True):
            torch.manual_seed(0)
            # The op's own input has a history, so that it too has to be saved and found again.
            call = lambda *a: function(*[v * 1 if v is a[0] and differentiable(v) else v for v in a], **kwargs)
            outs = checkpoint(call, *args, use_reentrant=False) if region else call(*args)
            outs = [o for o in (outs if isinstance(outs, (tuple, list)) else [outs]) if differentiable(o)]
            outs = [o for o in outs if o.requires_grad]
            if not (outs and inputs):
                return
            seeds = [torch.ones_like(o) for o in outs]
            second = torch.autograd.grad(outs, inputs, seeds, create_graph=True, allow_unused=True)
            found.append([*second, *torch.autograd.grad(outs, inputs, seeds, allow_unused=True)])
        for plain, again in zip(*found, strict=True):
            assert (plain is None) == (again is None)
            if plain is not None:
                np.testing.assert_array_equal(plain.detach().numpy(), again.detach().numpy())


class Watch:
    """How many of the tensors that a function made are alive."""

    def __init__(self):
        self.references, self.most = [], 0

    def __call__(self, tensor):
        self.references.append(weakref.ref(tensor._data))
        self.look()
        return tensor

    def look(self):
        self.references = [r for r in self.references if r() is not None]
        self.most = max(self.most, len(self.references))
        return len(self.references)


def test_what_is_alive_in_forward_and_in_backward():
    def part(x):
        for _ in range(10):
            x = watch(x.sin())
        return x

    def run(wrap):
        nonlocal watch
        watch = Watch()
        x = torch.ones(3, requires_grad=True)
        y = x
        for _ in range(10):
            y = wrap(part, y)
        kept = watch.look()
        y.sum().backward()
        del y
        return kept, watch.most, watch.look(), x.grad.tolist()

    watch = None
    plain = run(lambda f, x: f(x))
    point = run(lambda f, x: checkpoint(f, x, use_reentrant=False))
    older = run(lambda f, x: checkpoint(f, x, use_reentrant=True))
    assert plain[0] == 100 and point[0] <= 11 and older[0] <= 11
    assert plain[1] == 100 and point[1] <= 22 and older[1] <= 22
    assert plain[2:] == point[2:] == older[2:]


def test_a_region_nobody_needs_dies_with_its_graph():
    x = torch.ones(3, requires_grad=True)
    held = torch.ones(3) * 1
    gone = weakref.ref(held)
    y = checkpoint(lambda x, h: (x * h).exp(), x, held, use_reentrant=False)
    del held
    assert gone() is not None
    gc.disable()
    try:
        del y
        assert gone() is None
    finally:
        gc.enable()


@BOTH
def test_the_same_dropout_mask(reentrant):
    masks = []

    def part(x):
        masks.append(torch.nn.functional.dropout(torch.ones(20)))
        return x.exp() * masks[-1]

    torch.manual_seed(1)
    x = torch.ones(20, requires_grad=True)
    y = checkpoint(part, x, use_reentrant=reentrant)
    after = torch.rand(1)
    y.sum().backward()
    assert masks[0].tolist() == masks[1].tolist() and len(masks) == 2
    torch.manual_seed(1)
    torch.nn.functional.dropout(torch.ones(20))
    assert torch.rand(1).item() == after.item()


@BOTH
def test_networks_learn_the_same(reentrant):
    def train(point):
        torch.manual_seed(0)
        nn = torch.nn
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        for _ in range(3):
            x = torch.rand(16, 4, requires_grad=True)
            out = checkpoint_sequential(net, 3, x, use_reentrant=reentrant) if point else net(x)
            optimizer.zero_grad()
            (out**2).sum().backward()
            optimizer.step()
        return [p.tolist() for p in net.parameters()]

    assert train(True) == train(False)


def test_deep_nesting():
    def nest(depth, x):
        return checkpoint(lambda x: nest(depth - 1, x.sin()).cos(), x, use_reentrant=False) if depth else x.exp()

    x = torch.ones(2, requires_grad=True)
    nest(6, x).sum().backward()
    found, x.grad = x.grad.tolist(), None

    def plain(depth, x):
        return plain(depth - 1, x.sin()).cos() if depth else x.exp()

    plain(6, x).sum().backward()
    assert found == x.grad.tolist()


def test_runs_of_the_engine_in_two_threads():
    x = torch.ones(3, requires_grad=True)
    y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False)
    found = []
    work = lambda: found.append(torch.autograd.grad(y.sum(), x, retain_graph=True)[0].tolist())
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(f == found[0] for f in found)


def test_debug_lists_the_ops_of_both_runs():
    turns = iter([lambda x: x.exp().sin(), lambda x: x.exp()])
    x = torch.ones(3, requires_grad=True)
    with set_checkpoint_debug_enabled(True):
        y = checkpoint(lambda x: next(turns)(x), x, use_reentrant=False, early_stop=False)
    with pytest.raises(CheckpointError) as error:
        y.sum().backward()
    text = str(error.value)
    forward, again = text.split("Operations executed during recomputation")
    assert "aten::sin [[3]]" in forward and "aten::sin" not in again and "aten::exp [[3]]" in again
    assert text.startswith("An error happened while unpacking tensors; dumping logs of latest computation")
    assert "You are seeing this error because you passed `debug=True` to checkpoint" in again
    assert __file__ in forward and "different number of tensors" in str(error.value.__cause__)


def test_an_error_while_computing_anew_is_the_users():
    turns = iter([0, 1])

    def part(x):
        if next(turns):
            raise ValueError("the second time")
        return x.exp()

    x = torch.ones(3, requires_grad=True)
    y = checkpoint(part, x, use_reentrant=False)
    with pytest.raises(ValueError, match="the second time"):
        y.sum().backward()


def test_switches_are_put_back():
    with pytest.raises(KeyError), set_checkpoint_early_stop(False), set_checkpoint_debug_enabled(True):
        raise KeyError
    calls = []
    x = torch.ones(1, requires_grad=True)
    checkpoint(lambda x: [x.exp(), calls.append(1)][0], x, use_reentrant=False).backward()
    assert len(calls) == 1


def test_inputs_written_to_are_refused():
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    z = checkpoint(lambda y: y.exp(), y, use_reentrant=False)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


# -- with some results kept ---------------------------------------------------------------------------


def keeping(wanted):
    return functools.partial(create_selective_checkpoint_contexts, wanted)


def keep_all(context, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if not isinstance(op, ElementwiseOp)))
def test_every_op_with_its_result_kept(name):
    for function, args, kwargs in op_samples(name):
        found = []
        for selective in (False, True):
            torch.manual_seed(0)
            inputs = [a.detach().requires_grad_() if differentiable(a) else a for a in args]
            leaves = [a for a in inputs if differentiable(a)]

            def part(*inputs, function=function, kwargs=kwargs):
                outs = function(*[a * 1 if differentiable(a) else a for a in inputs], **kwargs)
                outs = outs if isinstance(outs, (tuple, list)) else [outs]
                return sum((o * o).abs().sum() for o in outs if differentiable(o))

            out = checkpoint(part, *inputs, use_reentrant=False, context_fn=keeping(keep_all)) if selective else (
                part(*inputs))  # fmt: skip
            if leaves and isinstance(out, torch.Tensor) and out.requires_grad:
                grads = torch.autograd.grad(out, leaves, allow_unused=True)
                found.append([g if g is None else g.tolist() for g in grads])
        assert not found or found[0] == found[1]


def test_what_is_kept_is_not_computed_anew():
    def part(x, y):
        return (x.cos() @ y).sin() @ y

    x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    expected = torch.autograd.grad(part(x, y).sum(), [x, y])
    mm = torch.ops.aten.mm.default
    policies = {2: keep_all, 1: lambda ctx, op, *args, **kwargs: op is mm, 0: lambda *args, **kwargs: False}
    plain = None
    for policy in (policies[0], policies[1], [mm], keep_all):
        out = checkpoint(part, x, y, use_reentrant=False, early_stop=False, context_fn=keeping(policy)).sum()
        with tape() as recorded:
            found = torch.autograd.grad(out, [x, y])
        products = sum(e.kernel.name == "small_product" for e in recorded)
        plain = products if plain is None else plain
        assert products == (plain if policy is policies[0] else plain - 2)
        assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_nothing_is_left_of_selective_checkpoints():
    before = [dict(FUNCTIONS), dict(vars(torch.Tensor)), dict(vars(torch)), dict(vars(torch.nn.functional))]
    x = torch.ones(3, 3, requires_grad=True)
    out = checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=keeping([torch.ops.aten.mm.default]))
    out.sum().backward()
    with pytest.raises(ZeroDivisionError):
        checkpoint(lambda x: 1 / 0, x, use_reentrant=False, context_fn=keeping(keep_all))
    after = [dict(FUNCTIONS), dict(vars(torch.Tensor)), dict(vars(torch)), dict(vars(torch.nn.functional))]
    for a, b in zip(before, after, strict=True):
        assert all(b[k] is v for k, v in a.items() if k != "__warningregistry__")


def test_kept_results_die_with_their_use_and_with_the_graph():
    seen = []

    def policy(context, op, *args, **kwargs):
        if op is torch.ops.aten.mm.default:
            seen.append(weakref.ref(context.op_output._data))
            return True
        return False

    x = torch.ones(3, 3, requires_grad=True)
    for use in (lambda out: out.sum().backward(retain_graph=True), lambda out: None):
        out = checkpoint(lambda x: (x @ x).exp().sin(), x, use_reentrant=False, context_fn=keeping(policy))
        assert seen[-1]() is not None
        use(out)
        del out
        assert seen[-1]() is None


def test_selective_checkpoints_within_each_other_and_in_threads():
    def inner(x):
        return (x @ x).tanh()

    def outer(x):
        y = checkpoint(inner, x * 2, use_reentrant=False, context_fn=keeping([torch.ops.aten.mm.default]))
        return y @ x

    x = torch.randn(3, 3, requires_grad=True)
    expected = torch.autograd.grad((inner(x * 2) @ x).sum(), x)[0].tolist()
    found = []

    def work():
        out = checkpoint(outer, x, use_reentrant=False, context_fn=keeping(keep_all))
        found.append(torch.autograd.grad(out.sum(), x)[0].tolist())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 3


def test_ops_as_objects():
    aten = torch.ops.aten
    assert aten.mm.default is aten.mm.default and aten.mm.default != aten.bmm.default
    assert str(aten.mm.default) == "aten.mm.default" and str(aten.mm) == "aten.mm"
    assert aten.mul.Tensor.name() == "aten::mul" and aten.mul.Tensor is aten.mul.Scalar
    assert aten.mm.default(torch.ones(1, 2), torch.ones(2, 1)).tolist() == [[2]] and aten.exp(torch.zeros(1)) == 1
    assert aten._softmax.default is aten.softmax.default and aten.native_layer_norm.default is not None
    assert not hasattr(aten, "no_such_op")


def test_observers_of_op_calls_stop_in_any_order():
    def first(op, call, args, kwargs):
        calls.append(1)
        return call(*args, **kwargs)

    def second(op, call, args, kwargs):
        calls.append(2)
        return call(*args, **kwargs)

    exp = torch.exp  # taken out before: the function itself is observed, not the place it is called from
    plain, calls, x = exp.__code__, [], torch.ones(2)
    add_observer(first)
    add_observer(second)
    exp(x)
    remove_observer(first)
    x.exp()
    remove_observer(second)
    exp(x)
    assert calls == [2, 1, 2] and exp.__code__ is plain


def test_observed_calls_take_every_keyword_and_name_the_op_in_errors():
    def observer(op, call, args, kwargs):
        return call(*args, **kwargs)

    add_observer(observer)
    try:
        assert torch.Tensor.new_zeros(self=torch.ones(2), size=(3,)).tolist() == [0, 0, 0]
        with pytest.raises(TypeError, match=r"^exp\(\) missing"):
            torch.exp()
    finally:
        remove_observer(observer)


@pytest.mark.parametrize("reentrant", [False, True])
def test_autocast_of_forward_is_that_of_the_second_run(reentrant):
    dtypes, net = [], torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))

    def run(x):
        y = net[:2](x)
        dtypes.append(y.dtype)
        return net[2](y)

    def gradients(apply, enabled):
        x = torch.arange(6.0).reshape(2, 3).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            loss = apply(x).float().pow(2).sum()
        loss.backward()  # outside of the region, as it should be
        return torch.cat([x.grad.flatten(), *(p.grad.flatten() for p in net.parameters())])

    for enabled in (True, False):
        net.zero_grad()
        expected = gradients(run, enabled)
        net.zero_grad()
        dtypes.clear()
        found = gradients(lambda x: checkpoint(run, x, use_reentrant=reentrant), enabled)
        assert torch.equal(found, expected)
        assert dtypes == [torch.bfloat16 if enabled else torch.float32] * 2
    assert not torch.is_autocast_enabled("cpu")
