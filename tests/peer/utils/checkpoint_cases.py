"""Functions that are checkpointed under both libraries, and what they return, warn of or raise."""

import warnings

import pytest
import torch
import torch.utils.checkpoint

import jitgrad

LIBRARIES = (jitgrad, torch)
BOTH = pytest.mark.parametrize("reentrant", [False, True])


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        flat = value.detach().reshape(-1).tolist()
        return [round(float(v), 5) for v in flat], tuple(value.shape), value.requires_grad
    return value


def same(call, *args):
    """Both libraries give the same, or raise the same, with the same warnings."""
    results = []
    for lib in LIBRARIES:
        lib.manual_seed(5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = plain(call(lib, *args))
            except Exception as error:
                text = str(error).replace("jitgrad.", "torch.")
                result = type(error).__name__, " ".join(text.partition("\n\nTip:")[0].split())
        results.append((result, [(w.category.__name__, str(w.message)) for w in caught]))
    assert results[0] == results[1]
    return results[0]


def point(lib):
    return lib.utils.checkpoint.checkpoint


def values(lib, *shape, grad=True):
    return (lib.arange(float(torch.Size(shape).numel())).reshape(shape) / 7).requires_grad_(grad)


class Counted:
    """A function, and how often it was called and got to its end."""

    def __init__(self, function):
        self.function, self.calls, self.ends = function, 0, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        result = self.function(*args, **kwargs)
        self.ends += 1
        return result
