"""Direct calls of kernels: the same results as by the dispatcher, whatever arguments come later."""

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels import direct_call
from jitgrad.kernels.direct_call import DirectCalls, refuse
from jitgrad.kernels.launch import loop

CALLS = direct_call.CALLS + 3  # some before a direct call is made, some by it


@loop
def scale(x, out, factor, limit):
    """out = x * factor, but for what is beyond a limit."""
    for i in range(x.size):
        out[i] = x[i] * factor if x[i] < limit else limit


def settled(*args):
    """(its calls, the direct call) of ``scale`` after calls with these arguments."""
    calls, direct = DirectCalls(scale.variant(args[0].dtype)), refuse
    for _ in range(CALLS):
        if code := direct(*args):
            direct = calls.other(code, direct, args, args)
    return calls, direct


def vectors(n=5, dtype=np.float32):
    return np.arange(n).astype(dtype), np.zeros(n, dtype)


def test_arrays_and_numbers_may_change():
    _, direct = settled(*vectors(), 2.0, 3)
    assert direct is not refuse
    x, out = vectors()
    assert direct(x, out, 0.5, 2) == 0
    assert out.tolist() == [0.0, 0.5, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("last", [(2, 3), (2.0, 3.0), (True, 3), (2.0, np.int64(3)), (2.0, 1 << 63), (2.0, -1)])
def test_numbers_of_other_types_are_refused(last):
    _, direct = settled(*vectors(), 2.0, 3)
    x, out = vectors()
    assert direct(x, out, *last) == direct_call.REFUSED
    assert not out.any()


def test_refused_calls_are_the_dispatchers():
    calls, direct = settled(*vectors(), 2.0, 3)
    args = (*vectors(), 2.0, 1 << 62)
    assert direct(*args) == 0
    args = (*vectors(), 2.0, -1)  # an int that Python's C interface cannot tell from an error
    assert calls.other(direct(*args), direct, args, args) is direct
    assert args[1].tolist() == [-1.0] * 5


def test_what_is_no_array_is_refused():
    _, direct = settled(*vectors(), 2.0, 3)
    x, out = vectors()

    class Other(np.ndarray):
        pass

    for wrong in ([0.0] * 5, None, x.view(Other)):
        assert direct(wrong, out, 2.0, 3) == direct_call.REFUSED
    assert direct(x, out, 2.0) == direct_call.REFUSED


def test_errors_are_those_of_the_call():
    @loop
    def picky(x, out):
        """Refuses numbers below zero."""
        if x[0] < 0:
            raise ValueError("below zero")
        out[0] = x[0]

    calls, direct, out = DirectCalls(picky.variant(np.dtype(np.float32))), refuse, np.zeros(1, np.float32)
    good, bad = np.ones(1, np.float32), -np.ones(1, np.float32)
    for _ in range(CALLS):
        if code := direct(good, out):
            direct = calls.other(code, direct, (good, out), (good, out))
    assert direct is not refuse
    for _ in range(2):
        with pytest.raises(ValueError, match="below zero"):
            calls.other(direct(bad, out), direct, (bad, out), (bad, out))
        assert direct(good, out) == 0


def test_copies_in_the_place_of_arrays_have_no_direct_call():
    calls, direct = DirectCalls(scale.variant(np.dtype(np.float32))), refuse
    for _ in range(CALLS):
        x, out = vectors()
        direct = calls.other(direct(x, out, 2.0, 3), direct, (x, out, 2.0, 3), (x.copy(), out, 2.0, 3))
    assert direct is refuse
    assert out.tolist() == [0.0, 2.0, 4.0, 3.0, 3.0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "bool", "complex64"])
def test_ops_give_the_same_before_and_after(dtype):
    x, y = (torch.arange(12).reshape(3, 4).to(getattr(torch, dtype)) for _ in range(2))
    forms = [
        lambda: x + y, lambda: x.t() * y.t(), lambda: x * y[0], lambda: x + y[:, :1], lambda: x[:, ::2] * y[:, 1::2],
        lambda: x * x.new_ones(()), lambda: x.sum(0), lambda: x.sum(), lambda: x * 3, lambda: x.clone().mul_(y),
    ]  # fmt: skip
    for form in forms:
        first = form()
        for _ in range(CALLS):
            assert torch.equal(form(), first)


def test_a_plan_meets_lazy_arrays_after_plain_ones():
    x = torch.tensor([1 + 2j, 3 - 1j])
    for _ in range(CALLS):
        assert torch.equal(x * x, torch.tensor([-3 + 4j, 8 - 6j]))
    assert torch.equal(x.conj() * x.conj(), torch.tensor([-3 - 4j, 8 + 6j]))
    assert torch.equal(x * x, torch.tensor([-3 + 4j, 8 - 6j]))


def test_gradients_are_the_same_again_and_again():
    x = torch.linspace(-1, 1, 6, requires_grad=True)
    found = [torch.autograd.grad((x.reshape(2, 3).tanh() * x[:3]).sum(), x)[0] for _ in range(CALLS)]
    assert all(torch.equal(found[0], f) for f in found)


def test_launches_are_observed_after_a_direct_call_was_made():
    x = torch.ones(4)
    for _ in range(CALLS):
        x * x
    with torch.debug.tape() as tape:
        x * x
    assert [entry.kernel.name for entry in tape] == ["mul_forward"]
