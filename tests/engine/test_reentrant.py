"""Backward in several threads, backward within backward, errors deep inside, callbacks at the end."""

import gc
import threading
import weakref

import numpy as np
import pytest

import jitgrad as torch

from .leaves import leaf


def test_threads_share_leaves():
    x = torch.ones(1000, requires_grad=True)

    def work():
        for _ in range(20):
            (x * 2.0).sum().backward()

    work()
    x.grad = None
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert np.asarray(x.grad).tolist() == [160.0] * 1000


def test_a_hook_that_raises_reaches_the_caller():
    x = leaf(1.0)
    y = (x * 2.0).exp()

    def fail(g):
        raise ZeroDivisionError("in the hook")

    handle = y.register_hook(fail)
    with pytest.raises(ZeroDivisionError, match="in the hook"):
        y.sum().backward(retain_graph=True)
    assert x.grad is None and torch.is_grad_enabled()
    handle.remove()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0]), rtol=1e-6)


def test_threads_run_the_same_kept_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).exp().sum()
    (expected,) = torch.autograd.grad(y, x, retain_graph=True)

    def work():
        for _ in range(20):
            y.backward(retain_graph=True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_allclose(x.grad.numpy(), 80 * expected.numpy(), rtol=1e-4)


def test_runs_within_runs_thousands_deep():
    x, depth = leaf(1.0), 3_000

    def nested(g):
        nonlocal depth
        depth -= 1
        if depth:
            with torch.enable_grad():
                y = x * 1.0
            y.register_hook(nested)
            y.backward()

    y = x * 1.0
    y.register_hook(nested)
    y.backward()
    assert depth == 0 and x.grad.tolist() == [3_000.0] and torch.is_grad_enabled()


def test_an_error_deep_inside_reaches_the_caller():
    x, depth = leaf(1.0), 60

    def nested(g):
        nonlocal depth
        depth -= 1
        if not depth:
            raise KeyError("deep")
        with torch.enable_grad():
            y = x * 1.0
        y.register_hook(nested)
        y.backward()

    y = x * 1.0
    y.register_hook(nested)
    with pytest.raises(KeyError, match="deep"):
        y.backward()
    assert x.grad is None
    (x * 2).backward()
    assert x.grad.tolist() == [2.0]


def test_an_error_deep_inside_holds_no_graph_once_caught():
    class Deep(Exception):
        pass

    def nested(left):
        y = leaf(1.0) * 2

        def hook(g):
            if not left:
                raise Deep
            with torch.enable_grad():
                nested(left - 1)

        y.register_hook(hook)
        y.backward()

    gc.disable()  # by reference count
    try:
        nested(60)
    except Deep as error:
        gone = weakref.ref(error)
    finally:
        gc.enable()
    assert gone() is None


def test_callbacks_at_the_end_of_backward():
    from jitgrad.engine import engine

    x, seen = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda g: engine.queue_callback(lambda: seen.append(x.grad.tolist())))
    y.backward()
    assert seen == [[2.0]]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass."):
        engine.queue_callback(print)
