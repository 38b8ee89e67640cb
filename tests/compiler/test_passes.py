"""What passes over a program's launches must respect of what Python sees."""

import pytest

import jitgrad as torch


def results(function, arguments, calls=4):
    torch.manual_seed(3)
    return [function(*arguments(k)) for k in range(calls)]


def unused_draw(x):
    torch.rand(5)
    return torch.rand(5000) * x


def written_after_zeros(x):
    out = torch.zeros(64, 100)
    out[:, :50] = x[:3200].view(64, 50)
    return torch.softmax(out, 1) + out


def numbers_from_python(x):
    t = torch.tensor([1.0, 2.0, 3.0])
    t.mul_(2)
    other = t.clone()
    t.add_(1)
    return t + other + x[:3]


@pytest.mark.parametrize("function", [unused_draw, written_after_zeros, numbers_from_python])
def test_as_eager(function):
    x = torch.rand(5000)
    found, wanted = (results(f, lambda k: (x,)) for f in (torch.compile(function), function))
    for got, want in zip(found, wanted, strict=True):
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_arguments_that_share_memory_in_one_call_only():
    def function(a, b):
        a.add_(1)
        b.mul_(2)
        return a * b

    compiled = torch.compile(function)
    for shared in ("", "", "", "same", "", "view"):
        a, other = torch.rand(5000), torch.rand(5000)
        pairs = [(x, {"": other.clone(), "same": x, "view": x[:]}[shared]) for x in (a.clone(), a.clone())]
        assert torch.allclose(compiled(*pairs[0]), function(*pairs[1]))
        assert all(torch.allclose(x, y) for x, y in zip(*pairs, strict=True))
