"""``_foreach_*`` is the op on each tensor of a list."""

import pytest

import jitgrad as torch
from jitgrad.ops.foreach import NAMES


def lists():
    return [torch.ones(2), torch.full((3,), 4.0)], [torch.full((2,), -3.0), torch.arange(3.0) + 0.5]


def test_all_are_published():
    assert all(callable(getattr(torch, f"_foreach_{name}")) for name in NAMES)


CALLS = [
    (lambda a, b: torch._foreach_add(a, 1), [[2, 2], [5, 5, 5]]),
    (lambda a, b: torch._foreach_add(a, b, alpha=2), [[-5, -5], [5, 7, 9]]),
    (lambda a, b: torch._foreach_mul(a, [2, 3]), [[2, 2], [12, 12, 12]]),
    (lambda a, b: torch._foreach_pow(2.0, a), [[2, 2], [16, 16, 16]]),
    (lambda a, b: torch._foreach_addcmul(a, a, b, [1, 2]), [[-2, -2], [8, 16, 24]]),
    (lambda a, b: torch._foreach_addcdiv_(a, a, a, torch.tensor([1.0, 2.0])), [[2, 2], [6, 6, 6]]),
    (lambda a, b: torch._foreach_lerp_(a, b, [0.5, 1.0]), [[-1, -1], [0.5, 1.5, 2.5]]),
    (lambda a, b: torch._foreach_maximum_(b, 1), [[1, 1], [1, 1.5, 2.5]]),
    (lambda a, b: torch._foreach_norm(a, 1), [2, 12]),
    (lambda a, b: torch._foreach_copy_(a, b), [[-3, -3], [0.5, 1.5, 2.5]]),
    (lambda a, b: torch._foreach_zero_(a), [[0, 0], [0, 0, 0]]),
]


@pytest.mark.parametrize(("call", "wanted"), CALLS)
def test_values(call, wanted):
    a, b = lists()
    found = call(a, b)
    assert [t.tolist() for t in found] == wanted
    assert isinstance(found, tuple) or found is a or found is b


def test_bad_lists():
    a, _ = lists()
    with pytest.raises(RuntimeError, match="Tensor lists must have the same number of tensors, got 2 and 1"):
        torch._foreach_add(a, a[:1])
    with pytest.raises(RuntimeError, match="Tensor list must have at least one tensor"):
        torch._foreach_neg([])
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch._foreach_add(1, 1)


def test_gradients():
    a = [torch.tensor([3.0], requires_grad=True), torch.tensor([5.0], requires_grad=True)]
    sum(torch._foreach_mul(a, a)).backward()
    assert [t.grad.item() for t in a] == [6, 10]
