"""Compiled functions in inference mode, and given tensors that were made in it."""

import warnings

import pytest

import jitgrad as torch
from jitgrad import nn
from tests.compiler.alike import normal


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.compiler.CompileWarning)
        yield


def matrix(k):
    return normal(4, 8, seed=k)


def made_in_inference(k):
    with torch.inference_mode():
        return matrix(k) * 1


def test_one_recording_in_the_mode():
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3))
    compiled = torch.compile(net, fullgraph=True)
    for k in range(6):
        with torch.inference_mode():
            found, expected = compiled(matrix(k)), net(matrix(k))
        assert found.is_inference() and not found.requires_grad
        torch.testing.assert_close(found, expected)
        with pytest.raises(RuntimeError, match="cannot be saved for backward"):
            found * nn.Parameter(torch.ones(3))
    assert len(compiled.explain().recordings) == 1
    assert not compiled(matrix(0)).is_inference() and compiled(matrix(0)).requires_grad
    with torch.inference_mode():
        assert compiled(matrix(0)).is_inference()
    assert len(compiled.explain().recordings) == 2


def test_the_mode_inside():
    def function(x):
        with torch.inference_mode():
            y = torch.tanh(x) * 2
            rows = y[1:]
        return y, rows, x + 1

    compiled = torch.compile(function, fullgraph=True)
    for k in range(4):
        found, expected = compiled(matrix(k)), function(matrix(k))
        for f, e in zip(found, expected, strict=True):
            assert torch.equal(f, e) and f.is_inference() == e.is_inference()
        assert found[1]._base is found[0]
    assert len(compiled._variants) == 1


def test_writes_in_the_mode():
    buffer = made_in_inference(9)
    other = buffer.clone()

    def step(x, kept):
        return kept.mul_(0.5).add_(x).sum() * 2

    compiled = torch.compile(step, fullgraph=True)
    with torch.inference_mode():
        for k in range(4):
            assert torch.equal(compiled(matrix(k), buffer), step(matrix(k), other))
    assert torch.equal(buffer, other) and len(compiled._variants) == 1


def test_tensors_of_the_mode_outside():
    compiled = torch.compile(lambda x: torch.tanh(x) + 1, fullgraph=True)
    for k in range(4):
        x = made_in_inference(k)
        y = compiled(x)
        assert torch.equal(y, torch.tanh(x) + 1) and not y.is_inference()
    weight = nn.Parameter(torch.ones(8))
    compiled = torch.compile(lambda x: (x * weight).sum(), fullgraph=True)
    for k in range(3):
        compiled(matrix(k)).backward()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        compiled(made_in_inference(0))


def test_a_recorded_write_does_not_reach_them():
    compiled = torch.compile(lambda x: x.mul_(2), fullgraph=True)
    for k in range(3):
        compiled(matrix(k))
    x = made_in_inference(0)
    before = x.clone()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        compiled(x)
    assert torch.equal(x, before)


def of_a_view(x):
    return x[1:].is_inference()


def by_the_method(x):
    return x.is_inference()


@pytest.mark.parametrize("reads", [torch.is_inference, torch.Tensor.is_inference, by_the_method, of_a_view])
def test_asking_whether_a_tensor_is_one(reads):
    compiled = torch.compile(lambda x: x * 2 if reads(x) else x + 1, fullgraph=True)
    for make in (matrix, made_in_inference) * 3:
        x = make(0)
        assert torch.equal(compiled(x), x * 2 if make is made_in_inference else x + 1)
    assert len(compiled._variants) == 2
