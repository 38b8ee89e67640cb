"""Sums with the factor in front, as PyTorch's first versions had it."""

import warnings

import pytest

import jitgrad as torch
from jitgrad.core import user_frame


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda x, y: x.add_(2, y), [7, 9]),
        (lambda x, y: torch.add(x, 2, y), [7, 9]),
        (lambda x, y: x.sub(2, y), [-5, -7]),
        (lambda x, y: x.addcmul_(2, y, y), [19, 33]),
        (lambda x, y: torch.addcdiv(x, 2, y, y), [3, 3]),
        (lambda x, y: torch.addmv(2, x, 3, x.diag(), y), [11, 14]),
        (lambda x, y: x.addmv(2, x.diag(), y), [5, 6]),
        (lambda x, y: x.addmv_(2, 3, x.diag(), y), [11, 14]),
        (lambda x, y: torch.addmm(2, x, 3, x.diag(), y.diag()).diagonal(), [11, 14]),
        (lambda x, y: torch.addbmm(2, x, x.diag()[None], y.diag()[None]).diagonal(), [5, 6]),
        (lambda x, y: x.diag().baddbmm(2, 3, x.diag()[None], y.diag()[None])[0].diagonal(), [11, 14]),
        (lambda x, y: torch.addr(2, x, 3, x, y)[0], [11, 14]),
        (lambda x, y: x.diag().addr_(2, x, y)[0], [5, 4]),
    ],
)
def test_the_factor_in_front(call, wanted):
    with pytest.warns(UserWarning, match="This overload of .* is deprecated"):
        assert call(torch.ones(2), torch.tensor([3.0, 4.0])).tolist() == wanted


def test_other_arguments_are_refused():
    x = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (lambda: x.add(x, x), lambda: x.add_(x, 2), lambda: x.addcmul(x, x, x)):
            with pytest.raises(TypeError, match="positional arguments"):
                call()


def test_the_factors_in_front_have_gradients():
    x, m = torch.ones(2, 2, requires_grad=True), torch.full((2, 2), 3.0, requires_grad=True)
    with pytest.warns(UserWarning, match="deprecated"):
        torch.addmm(2, x, 5, m, m).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0]] * 2 and m.grad.tolist() == [[60.0, 60.0]] * 2


def test_it_warns_once(monkeypatch):
    monkeypatch.setattr(user_frame, "repeated", False)
    monkeypatch.setattr(user_frame, "_said", set())
    x = torch.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x.add(2, x).sub(2, x)
    assert [str(w.message).splitlines()[1] for w in caught] == ["\tadd(Number alpha, Tensor other)"]


def test_keywords_of_numpy():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.diff(x, axis=0).tolist() == [[3.0] * 3]
    assert torch.cross(x, x, axis=1).tolist() == [[0.0] * 3] * 2
    assert torch.fft.fft(x, axis=0).shape == torch.linalg.norm(x, axis=1).shape + (3,)
    assert torch.sum(a=x, axis=0, keepdims=True).shape == torch.sum(x=x, axis=0, keepdims=True).shape == (1, 3)
    assert torch.matmul(x1=x, x2=x.T).shape == (2, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        torch.roll(x, 1, axis=0)
