"""Direct calls of kernels in parts: the same results as by `SplitCall`, whatever comes later."""

import os
import threading

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels import direct_call, threads
from jitgrad.kernels.direct_call import refuse
from jitgrad.kernels.direct_parts import DirectParts
from jitgrad.kernels.launch import loop

CALLS = direct_call.CALLS + 3  # some before a direct call is made, some by it
N = 1 << 16


@pytest.fixture(autouse=True)
def two_threads():
    count = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(count)


@loop(split=("x", "out"))
def scaled(x, out, factor, limit):
    """out = x * factor, but for what is beyond a limit, which may not be negative."""
    if limit < 0:
        raise ValueError("below zero")
    for i in range(x.size):
        out[i] = x[i] * factor if x[i] < limit else limit


def settled(*args):
    """(its calls, the direct call) of ``scaled`` in parts, after calls with these arguments."""
    calls, direct = DirectParts(scaled.in_parts(args[0].dtype)), refuse
    for _ in range(CALLS):
        if code := direct(*args):
            direct = calls.other(code, direct, args, args)
    assert direct is not refuse
    return calls, direct


def vectors(n=N):
    return np.arange(n).astype(np.float32), np.zeros(n, np.float32)


def expected(x, factor, limit):
    return np.where(x < limit, x * np.float32(factor), np.float32(limit))


def test_arrays_and_numbers_may_change():
    _, direct = settled(*vectors(), 2.0, 3)
    x, out = vectors()
    assert direct(x, out, 0.5, N // 2) == 0
    np.testing.assert_array_equal(out, expected(x, 0.5, N // 2))


@pytest.mark.parametrize("last", [(2, 3), (2.0, 3.0), (True, 3), (2.0, np.int64(3)), (2.0, 1 << 63), (2.0, -1)])
def test_numbers_of_other_types_are_refused(last):
    _, direct = settled(*vectors(), 2.0, 3)
    x, out = vectors()
    for _ in range(2):  # and leave the pool free
        assert direct(x, out, *last) == direct_call.REFUSED
        assert not out.any()
    assert direct(x, out, 2.0, 3) == 0
    np.testing.assert_array_equal(out, expected(x, 2.0, 3))


def test_what_is_no_array_is_refused():
    _, direct = settled(*vectors(), 2.0, 3)
    x, out = vectors()

    class Other(np.ndarray):
        pass

    for wrong in ([0.0] * 5, None, x.view(Other)):
        assert direct(wrong, out, 2.0, 3) == direct_call.REFUSED
    assert direct(x, out, 2.0) == direct_call.REFUSED


def test_errors_are_those_of_the_call():
    calls, direct = settled(*vectors(), 2.0, 3)
    x, out = vectors()
    with pytest.raises(ValueError, match="below zero"):
        calls.other(direct(x, out, 2.0, -2), direct, (x, out, 2.0, -2), (x, out, 2.0, -2))
    assert direct(x, out, 2.0, 3) == 0


def test_another_number_of_threads_has_other_parts():
    args = *vectors(), 2.0, 3
    calls, direct = settled(*args)
    for count in (1, 3, 2):
        torch.set_num_threads(count)
        assert direct(*args) == direct_call.REFUSED
        for _ in range(CALLS):
            if code := direct(*args):
                direct = calls.other(code, direct, args, args)
        args[1][:] = 0
        assert direct(*args) == 0
        np.testing.assert_array_equal(args[1], expected(args[0], 2.0, 3))


def test_two_threads_at_once():
    """One has the pool, the other one's call is refused and runs as ever."""
    calls, direct = settled(*vectors(), 2.0, 3)
    wrong = []

    def work(factor):
        x, out = vectors()
        for _ in range(300):
            out[:] = 0
            if code := direct(x, out, factor, N):
                calls.other(code, direct, (x, out, factor, N), (x, out, factor, N))
            if not np.array_equal(out, expected(x, factor, N)):
                wrong.append(factor)

    both = [threading.Thread(target=work, args=(f,)) for f in (0.5, 3.0)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_threads_of_its_own():
    args = *vectors(), 2.0, 3
    calls, direct = settled(*args)
    child = os.fork()
    if child == 0:
        fine = direct(*args) == direct_call.REFUSED
        for _ in range(CALLS):
            if code := direct(*args):
                direct = calls.other(code, direct, args, args)
        fine = fine and direct(*args) == 0 and np.array_equal(args[1], expected(args[0], 2.0, 3))
        os._exit(0 if fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert direct(*args) == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "bool", "complex64"])
def test_ops_give_the_same_before_and_after(dtype):
    x, y = (torch.arange(1 << 17).reshape(256, 512).remainder(100).to(getattr(torch, dtype)) for _ in range(2))
    forms = [
        lambda: x + y, lambda: x.t() * y.t(), lambda: x * y[0], lambda: x + y[:, :1], lambda: x[:, ::2] * y[:, 1::2],
        lambda: x * x.new_ones(()), lambda: x.sum(0), lambda: x.sum(), lambda: x * 3, lambda: x.clone().mul_(y),
        lambda: x.t().contiguous(), lambda: x[:, 1:] + y[:, :-1], lambda: torch.where(x == y, x, y),
    ]  # fmt: skip
    for form in forms:
        first = form()
        for _ in range(CALLS):
            assert torch.equal(form(), first)
        torch.set_num_threads(1)
        assert torch.equal(form(), first)
        torch.set_num_threads(2)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "cross_entropy", "gather", "cumsum", "max", "sort"])
def test_structured_ops_give_the_same_gradients(name):
    x, index = torch.randn(512, 256, requires_grad=True), torch.randint(0, 256, (512, 256))
    functional = torch.nn.functional
    function = {
        "softmax": lambda: torch.softmax(x, 1), "layer_norm": lambda: functional.layer_norm(x, (256,)),
        "cross_entropy": lambda: functional.cross_entropy(x, index[:, 0]), "gather": lambda: x.gather(1, index),
        "cumsum": lambda: x.cumsum(1), "max": lambda: x.max(1).values, "sort": lambda: x.sort(1).values,
    }[name]  # fmt: skip
    found = []
    for _ in range(CALLS):
        out = function()
        found.append((out.detach(), *torch.autograd.grad(out, x, torch.ones_like(out))))
    for pair in found[1:]:
        assert all(map(torch.equal, pair, found[0]))


def test_lazy_arrays_after_plain_ones():
    x = torch.arange(1 << 17).to(torch.complex64) * (1 + 2j)
    want = (x * x).conj()
    for _ in range(CALLS):
        x * x
    assert torch.equal(x.conj() * x.conj(), want)


def test_the_pool_is_free_after_each_call():
    _, direct = settled(*vectors(), 2.0, 3)
    x, out = vectors()
    for _ in range(3):
        assert direct(x, out, 2.0, 3) == 0
    done = []
    threads.run_together([(done.append, (k,)) for k in range(4)])
    assert sorted(done) == list(range(4))
