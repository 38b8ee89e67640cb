"""Modes that a program switches between calls of a compiled function, or inside of it."""

import contextlib
import warnings

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.distributions import Distribution, Normal
from jitgrad.nn.utils import parametrize

CASES = []


def case(make):
    """``make()`` returns a function of a tensor, and a context manager in which it does something else."""
    CASES.append(make)
    return make


@contextlib.contextmanager
def _set(switch, value, before):
    switch(value)
    try:
        yield
    finally:
        switch(before)


@case
def default_device():
    return lambda x: torch.zeros(2).device.type, lambda: _set(torch.set_default_device, "meta", None)


@case
def device_of_a_block():
    return lambda x: torch.zeros(2).device.type, lambda: torch.device("meta")


@case
def autocast_dtype():
    def function(x):
        with torch.autocast("cpu"):
            return (x @ torch.eye(2)).dtype

    return function, lambda: _set(lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16)


@case
def autocast_dtype_that_is_asked_for():
    def function(x):
        return x.to(torch.get_autocast_dtype("cpu")).dtype

    return function, lambda: _set(lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.float16, torch.bfloat16)


@case
def precision():
    def function(x):
        return (x * (2 if torch.get_float32_matmul_precision() == "highest" else 3)).tolist()

    return function, lambda: _set(torch.set_float32_matmul_precision, "high", "highest")


@case
def determinism():
    def function(x):
        return (x * (2 if torch.are_deterministic_algorithms_enabled() else 3)).tolist()

    return function, lambda: _set(torch.use_deterministic_algorithms, True, False)


@case
def checks_of_distributions():
    def function(x):
        try:
            return Normal(x, x - 2).loc.tolist()
        except ValueError:
            return "refused"

    return function, lambda: _set(Distribution.set_default_validate_args, False, True)


@case
def refused_hooks():
    weight = torch.ones(2, requires_grad=True)

    def function(x):
        try:
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return (weight * weight * x).tolist()
        except RuntimeError as error:
            return str(error)

    return function, lambda: torch.autograd.graph.disable_saved_tensors_hooks("no hooks")


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_switched_modes_are_noticed(make):
    function, switched = make()
    compiled = torch.compile(function)
    x = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for block in (contextlib.nullcontext, contextlib.nullcontext, switched, switched, contextlib.nullcontext):
            with block():
                found, wanted = compiled(x), function(x)
            assert found == wanted


@pytest.mark.parametrize("switch", [
    lambda: torch.set_float32_matmul_precision("high"), lambda: torch.use_deterministic_algorithms(True),
    lambda: torch.set_default_device("meta"),
], ids=["precision", "determinism", "device"])  # fmt: skip
def test_modes_that_a_function_switches(switch):
    def function(x):
        switch()
        return x * 2

    def modes():
        deterministic = torch.are_deterministic_algorithms_enabled()
        return torch.get_float32_matmul_precision(), deterministic, torch.get_default_device()

    def reset():
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)
        torch.set_default_device(None)

    compiled, x = torch.compile(function), torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        try:
            for _ in range(4):
                found = []
                for run in (compiled, function):
                    reset()
                    run(x)
                    found.append(modes())
                assert found[0] == found[1]
        finally:
            reset()


def test_parametrizations_that_are_cached_around_calls():
    class Doubled(nn.Module):
        def forward(self, weight):
            return weight * 2

    layer = nn.Linear(2, 2, bias=False)
    parametrize.register_parametrization(layer, "weight", Doubled())
    original = layer.parametrizations.weight.original
    compiled, x = torch.compile(lambda x: layer(x)), torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        for cached in (False, False, True, True, False):
            with parametrize.cached() if cached else contextlib.nullcontext():
                for _ in range(2):
                    assert compiled(x).tolist() == layer(x).tolist()
                    with torch.no_grad():
                        original.mul_(1.5)
