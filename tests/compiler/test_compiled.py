"""The object that compile returns: explanations, copies, modules, threads, what is turned off."""

import copy
import io
import threading

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import normal


def matrix(k):
    return normal(4, 8, seed=k)


def test_explain():
    weight = normal(64, 64).requires_grad_()

    @torch.compile
    def step(x):
        weight.grad = None
        y = torch.tanh(x @ weight) * 2 + 1
        y.sum().backward()
        return y.detach()

    for k in range(3):
        step(normal(64, 64, seed=k))
    text = str(step.explain())
    assert text.startswith("1 recording\n0: float32[64, 64]")
    assert "launches recorded" in text and "guards" in text and "in one block" in text
    assert "tanh" in step.source()
    branching = torch.compile(lambda x: x * 2 if x.sum() > 0 else x)
    branching(matrix(0))
    assert "not recorded: item()" in str(branching.explain()) and "test_compiled.py" in str(branching.explain())


def test_modules_compile_their_forward():
    net = nn.Sequential(nn.Linear(8, 3), nn.ReLU())
    expected = net(matrix(1))
    net.compile()
    for _ in range(3):
        assert (net(matrix(1)) == expected).all()
    assert net.forward._variants
    assert list(net.state_dict()) == ["0.weight", "0.bias"]


def test_copies_have_recordings_of_their_own():
    net = torch.compile(nn.Linear(8, 3))
    net(matrix(0))
    net(matrix(0))
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.weight.zero_()
        other.bias.zero_()
    assert (other(matrix(0)) == 0).all() and not (net(matrix(0)) == 0).all()
    assert net.weight.shape == (3, 8) and len(list(net.parameters())) == 2


def test_saved_and_loaded():
    net = nn.Linear(8, 3)
    net.compile()
    net(matrix(0))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    other = nn.Linear(8, 3)
    other.load_state_dict(torch.load(file))
    torch.testing.assert_close(other(matrix(0)), net(matrix(0)))


@pytest.mark.parametrize("rows", [4, 20_000])  # a run that keeps Python's lock, and one that lets go of it
def test_several_threads(rows):
    weight = normal(8, 8)
    step = torch.compile(lambda x: torch.tanh(x @ weight).sum(1) * 3)
    given = [normal(rows, 8, seed=k) for k in range(8)]
    expected = [step(x) for x in given]
    wrong = []

    def work(k):
        for _ in range(100):
            if not torch.allclose(step(given[k]), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(step._variants) == 1


def test_reset_disable_and_is_compiling():
    seen = []

    @torch.compiler.disable
    def outside(x):
        return x * 2

    step = torch.compile(lambda x: outside(x) + 1)
    with pytest.warns(torch.compiler.CompileWarning, match="disable"):
        for _ in range(3):
            step(matrix(0))
    assert not step._variants
    other = torch.compile(lambda x: x + torch.compiler.is_compiling())
    assert (other(matrix(0)) == matrix(0) + 1).all()
    assert other._variants
    torch.compiler.reset()
    assert not other._variants and not seen
    assert not torch.compiler.is_compiling()


def test_tensors_freed_between_calls():
    step = torch.compile(lambda x: (x * 2 + 1).tanh())
    for k in range(50):
        x = matrix(k)
        y = step(x)
        expected = (x * 2 + 1).tanh()
        del x
        torch.testing.assert_close(y, expected)


def test_functions_of_sparse_tensors_run_uncompiled():
    graph, x = torch.eye(3).to_sparse(), torch.ones(3, 2)
    for function, given in ((lambda x: graph @ x, (x,)), (lambda x, graph: graph @ x, (x, graph))):
        compiled = torch.compile(function)
        with pytest.warns(torch.compiler.CompileWarning, match="uses a sparse tensor"):
            assert all(torch.equal(compiled(*given), x) for _ in range(4))
    with pytest.raises(RuntimeError, match="uses a sparse tensor"):
        torch.compile(lambda x: graph @ x, fullgraph=True)(x)
