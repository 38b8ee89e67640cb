"""Modules and functions that run under both libraries, and what they return or raise."""

import warnings

import torch

import jitgrad

LIBRARIES = (jitgrad, torch)


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return value.tolist(), value.requires_grad, value.grad_fn.name() if value.grad_fn is not None else None
    return value


def same(call, *args):
    """Both libraries give the same, or raise the same, with the same warnings."""
    results = []
    for lib in LIBRARIES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = plain(call(lib, *args))
            except Exception as error:
                text = str(error).replace("jitgrad.", "torch.").replace(".modules.", ".")
                result = type(error).__name__, text
        results.append((result, [(w.category.__name__, str(w.message)) for w in caught]))
    assert results[0] == results[1]
    return results[0]


def scale(lib):
    """A module with one parameter that multiplies."""

    class Scale(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(2) * 3)

        def forward(self, x, times=1):
            return x * self.weight * times

    return Scale()


def leaf(lib):
    return lib.ones(2, requires_grad=True)


def function(lib, forward):
    """A module without parameters."""

    class Given(lib.nn.Module):
        pass

    Given.forward = lambda self, *args, **kwargs: forward(*args, **kwargs)
    return Given()
