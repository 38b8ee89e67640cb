"""What ``compile(mode=..., options=...)`` takes, and what ``explain()`` tells of a run."""

import copy
import pickle

import pytest

import jitgrad as torch
from jitgrad.kernels.program import Passes
from tests.compiler.alike import normal, same


def rows(x, w):
    y = torch.softmax(torch.tanh(x * 2) * w + 1, 1)
    unused = torch.tanh(x * 2).exp()
    (y.log() * x).sum().backward()
    return y.detach(), unused.shape[0]


def recorded(**options):
    step = torch.compile(rows, options=options or None)
    for k in range(3):
        x, w = normal(64, 128, seed=k).requires_grad_(), normal(128, seed=k)
        wanted = rows(x, w), x.grad
        x.grad = None
        same((step(x, w), x.grad), wanted, k)
    (recording,) = step.explain().recordings
    return recording


@pytest.mark.parametrize("name", vars(Passes()))
def test_each_pass_on_and_off(name):
    assert recorded(**{name: False}).launches >= recorded(**{name: True}).launches == recorded().launches


def test_switches_have_an_effect():
    assert any("fused" in name for name in recorded().kernels)
    assert not any("fused" in name for name in recorded(fusion=False).kernels)
    none = dict.fromkeys(vars(Passes()), False)
    assert recorded(**none).launches == recorded().recorded


def test_names_of_pytorch():
    for mode in (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        assert torch.compile(lambda x: x + 1, mode=mode)(torch.ones(2)).sum() == 4
    torch.compile(rows, options={"triton.cudagraphs": True, "max-autotune": False})
    torch.compile(rows, backend="eager", options={"anything": 3})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"options": {"fussion": True}}, r"^Unexpected optimization option fussion, known options are \['dead'"),
        ({"options": {"fusion": 1}}, "^Unexpected type of attr fusion, got int should be bool$"),
        ({"mode": "fast"}, "^Unrecognized mode=fast, should be one of: default, "),
        ({"mode": "default", "options": {}}, "^Either mode or options can be specified, but both can't be "),
    ],
)
def test_errors(given, message):
    with pytest.raises(RuntimeError, match=message):
        torch.compile(rows, **given)


def test_copies_keep_options():
    step = torch.compile(torch.nn.Linear(2, 2), options={"fusion": False})
    for other in (copy.deepcopy(step), pickle.loads(pickle.dumps(step))):
        options = other.forward._options
        assert options == step.forward._options and not options.passes.fusion


def test_times_of_launches():
    recording = recorded(**{"trace.times": True})
    assert set(recording.times) >= set(recording.kernels) and all(t > 0 for t in recording.times.values())
    step = torch.compile(rows, options={"trace.times": True})
    for _ in range(3):
        step(normal(4, 4).requires_grad_(), normal(4))
    assert " us " in str(step.explain())
    assert recorded().times == {}


def test_a_picture_in_a_notebook():
    step = torch.compile(lambda x, y: (x @ y).exp().sum() + y.sum())
    for _ in range(2):
        step(normal(4, 4), normal(4, 4))
    explained = step.explain()
    (picture,) = explained.pictures()
    names = [box.lines[0] for box in picture.boxes]
    arrows = {(names[int(a.start[1:])], names[int(a.end[1:])]) for a in picture.arrows}
    assert ("exp_forward", "sum_rows") in arrows and ("sum_rows", "add_forward") in arrows
    assert "<svg" in explained._repr_html_() and "exp_forward" in explained._repr_html_()
