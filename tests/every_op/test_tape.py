"""Nothing computes on a tensor's data outside ``launch``: a tape replayed on other values gives what eager gives."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.debug.launch_tape import dial, tape
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.registry import OPS
from jitgrad.kernels.launch import observers
from jitgrad.testing import op_samples
from tests.every_op.other_values import refill, tensors_in


def leaves(args, kwargs):
    return tensors_in(list(args)) + tensors_in(list(kwargs.values()))


def run(function, args, kwargs, wanted):
    """Forward and backward; returns results and gradients."""
    for t in wanted:
        t.grad = None
    outs = tensors_in(function(*args, **kwargs))
    differentiable = [o for o in outs if o.requires_grad]
    if differentiable:
        torch.autograd.backward(differentiable, [torch.ones_like(o) for o in differentiable])
    return [o.detach() for o in outs] + [t.grad for t in wanted if t.grad is not None]


class Unwritten:
    """Observes launches; asserts that kernels change no array but those that they say they write."""

    def before(self, kernel, args):
        written = [a for k, a in enumerate(args) if k in kernel.writes]
        self.others = [a for k, a in enumerate(args) if isinstance(a, np.ndarray) and k not in kernel.writes
                       and not any(np.may_share_memory(a, w) for w in written)]  # fmt: skip
        self.kept = [a.tobytes() for a in self.others]

    def __call__(self, kernel, args, seconds):
        assert [a.tobytes() for a in self.others] == self.kept, kernel


@pytest.fixture
def unwritten():
    observers.append(found := Unwritten())
    yield
    observers.remove(found)


@pytest.mark.usefixtures("unwritten")
@pytest.mark.parametrize("name", sorted(OPS))
def test_replay_on_other_values_equals_eager(name):
    for function, args, kwargs in op_samples(name):
        every = leaves(args, kwargs)
        wanted = [t for t in every if t.dtype.is_floating_point or t.dtype.is_complex]
        for t in wanted:
            t.requires_grad_()
        torch.manual_seed(0)  # before each of three runs: ops that draw numbers draw the same
        with tape() as recorded:
            outs = run(function, args, kwargs, wanted)
        refill(wanted, seed=1)
        torch.manual_seed(0)
        recorded.replay()
        replayed = [o.numpy(force=True).copy() for o in outs]
        torch.manual_seed(0)
        eager = run(function, args, kwargs, wanted)
        assert len(eager) == len(replayed)
        for e, r in zip(eager, replayed, strict=True):
            np.testing.assert_array_equal(e.numpy(force=True), r)


def test_every_structured_op_has_samples():
    missing = [n for n, op in OPS.items() if not isinstance(op, ElementwiseOp) and not list(op_samples(n))]
    assert missing == []


def test_a_training_step_replays():
    """An MLP with Adam: the same launches on new inputs train as eager does."""

    def build():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        return model, torch.optim.Adam(model.parameters(), lr=0.05)

    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((4, 6)).astype(np.float32), rng.integers(0, 3, 4)) for _ in range(5)]
    x, y = torch.tensor(data[0][0]), torch.tensor(data[0][1])

    def step(model, optimizer):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def feed(k):
        x._data[...], y._data[...] = data[k]

    model, optimizer = build()
    losses = []
    for k in range(5):
        feed(k)
        losses.append(step(model, optimizer).item())

    replayed_model, optimizer = build()
    feed(0)
    step(replayed_model, optimizer)
    feed(1)
    with tape() as recorded:
        loss = step(replayed_model, optimizer)
    replayed = [loss.item()]
    for k in range(2, 5):
        feed(k)
        recorded.replay()
        replayed.append(loss.item())
    np.testing.assert_array_equal(replayed, losses[1:])
    for p, q in zip(model.parameters(), replayed_model.parameters(), strict=True):
        np.testing.assert_array_equal(p._data, q._data)


def test_table_dot_and_html():
    x = torch.ones(2, 3)
    (x * x + x.t().t()).exp()  # a first use adds a line about the wait for machine code
    with tape() as recorded:
        (x * x + x.t().t()).exp()
    assert [e.kernel.name for e in recorded] == ["mul_forward", "add_forward", "exp_forward"]
    text = str(recorded)
    assert "mul_forward" in text and "float32[2, 3]" in text.replace("float32[6]", "float32[2, 3]")
    assert text.splitlines()[-1].startswith("3 launches")
    assert recorded.edges() == [(0, 1), (1, 2)]
    assert recorded.dot().startswith("digraph tape {") and "n0 -> n1;" in recorded.dot()
    assert "<table>" in recorded._repr_html_()


def test_only_this_thread_and_only_inside_the_block():
    import threading

    x = torch.ones(3)
    with tape() as recorded:
        thread = threading.Thread(target=lambda: x * x)
        thread.start()
        thread.join()
        x + x
    x - x
    assert [e.kernel.name for e in recorded] == ["add_forward"]


def test_dial_prints_launches(capsys):
    x = torch.ones(3)
    with dial(2):
        x * x
    shown = capsys.readouterr().err
    assert "mul_forward" in shown and "float32[3]" in shown
    with pytest.raises(ValueError, match="debug level 9 is unknown; use one of 0, 1, 2, 3"), dial(9):
        pass
