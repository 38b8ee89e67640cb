"""``_foreach_*``: an op for every tensor of a list."""

import pytest

import jitgrad as torch
from jitgrad.ops.foreach import NAMES


def test_operands():
    a = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    b = [torch.tensor([2.0, 2.0]), torch.tensor([4.0])]

    def values(results):
        assert isinstance(results, tuple)
        return [x.tolist() for x in results]

    assert values(torch._foreach_add(a, b, alpha=2)) == [[5, 6], [11]]
    assert values(torch._foreach_mul(a, 3)) == values(torch._foreach_mul(a, [3, 3])) == [[3, 6], [9]]
    assert values(torch._foreach_mul(a, torch.tensor(3.0))) == [[3, 6], [9]]
    assert values(torch._foreach_addcdiv(a, b, b, [1.0, 2.0])) == [[2, 3], [5]]
    assert values(torch._foreach_addcmul(a, b, b, value=2)) == [[9, 10], [35]]
    assert values(torch._foreach_lerp(a, b, 0.5)) == [[1.5, 2], [3.5]]
    assert values(torch._foreach_maximum(a, 2.0)) == [[2, 2], [3]]
    assert values(torch._foreach_pow(2.0, a)) == [[2, 4], [8]]
    assert values(torch._foreach_norm(a, 1)) == [3, 3] and values(torch._foreach_sqrt(b))[1] == [2]


def test_in_place():
    a = [torch.tensor([1.0, 4.0]), torch.tensor([9.0])]
    first = a[0]
    assert torch._foreach_sqrt_(a) is a and a[0] is first and a[1].item() == 3
    torch._foreach_minimum_(a, 2.5)
    torch._foreach_copy_(a, torch._foreach_neg(a))
    assert [x.tolist() for x in a] == [[-1, -2], [-2.5]]
    torch._foreach_zero_(a)
    assert not any(x.any() for x in a)


def test_gradients_pass():
    x = torch.tensor([2.0], requires_grad=True)
    torch._foreach_mul([x], [x])[0].backward()
    assert x.grad.item() == 4


def test_errors():
    one, two = [torch.ones(1)], [torch.ones(1), torch.ones(1)]
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        torch._foreach_add(two, one)
    with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
        torch._foreach_add_(two, [1.0])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        torch._foreach_exp([])
    with pytest.raises(TypeError, match="must be tuple of Tensors, not int"):
        torch._foreach_exp(3)
    with pytest.raises(AttributeError):
        torch._foreach_nothing
    assert [x.item() for x in two] == [1, 1] and all(callable(getattr(torch, name)) for name in NAMES)
