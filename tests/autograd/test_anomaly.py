"""Anomaly mode: NaN checks, tracebacks of forward, and nothing left of it while it is off."""

import warnings

import pytest

import jitgrad as torch
from jitgrad.core.node import node_observers
from jitgrad.engine import engine


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def root_of_zero(x):
    return (x * 0).sqrt() * 0


def run(function):
    """The error of a run in anomaly mode, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(Exception) as error, torch.autograd.detect_anomaly():
            function()
    return error.value, [str(w.message) for w in caught]


def test_nan_is_found_with_the_line_that_made_it():
    error, told = run(lambda: root_of_zero(leaf(1.0)).backward())
    assert str(error) == "Function 'SqrtBackward0' returned nan values in its 0th output."
    assert told[0].startswith("Anomaly Detection has been enabled.")
    assert told[1].startswith("Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n")
    assert told[1].rstrip().endswith("return (x * 0).sqrt() * 0") and "jitgrad/autograd" not in told[1]


def test_forward_outside_of_the_block():
    y = root_of_zero(leaf(1.0))
    _, told = run(y.backward)
    assert told[1].startswith("Error detected in SqrtBackward0. No forward pass information available.")


def test_what_led_to_a_failing_node():
    def fail(g):
        raise ValueError("second")

    def twice():
        x, g = leaf(2.0), leaf(1.0)
        (first,) = torch.autograd.grad(x.exp(), x, g, create_graph=True)
        first.register_hook(fail)
        first.backward()

    error, told = run(twice)
    assert str(error) == "second" and told[1].startswith("Error detected in MulBackward0.")
    assert "Previous calculation was induced by ExpBackward0." in told[2]


def test_a_written_tensor_is_named_with_better_advice():
    def write():
        y = leaf(1.0).exp()
        y.add_(1)
        y.backward()

    error, told = run(write)
    assert "Hint: the backtrace further above shows the operation that failed" in str(error)
    assert "Error detected in ExpBackward0" in told[1]


def test_the_mode_is_set_and_left():
    assert not torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
        x = leaf(1.0)
        root_of_zero(x).backward()
        assert str(x.grad.tolist()) == "[nan]"
    assert not torch.is_anomaly_enabled() and not node_observers and not engine.observers
