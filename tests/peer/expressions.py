"""Expressions evaluated by both libraries: values, dtypes, strides, grad_fns, errors and their words must agree."""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")

NAMES = {"np": np, "copy": copy, "pickle": pickle, "pytest": pytest}
SETUP = """
r = torch.arange(6.).reshape(2, 3).requires_grad_()
x = torch.arange(24.).reshape(2, 3, 4)
s = torch.tensor(1.5, requires_grad=True)
c = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
i = torch.tensor([1, 0, 1])
"""


def evaluate(library, expression, setup=SETUP):
    scope = {"torch": library, "L": library.tensor, **NAMES}
    try:
        exec(setup, scope)
        *statements, last = expression.split("; ")
        exec("\n".join(statements), scope)
        return eval(last, scope)
    except Exception as error:
        return error


def plain(value):
    """A comparable form of a result."""
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        node = value.grad_fn
        history = (type(node).__name__ if node is not None else None, value.requires_grad)
        return (str(value.dtype), tuple(value.shape), tuple(value.stride()), *history, value.detach().cpu().numpy())
    if isinstance(value, Exception):
        text = re.sub(r" \(Triggered internally.*|\nException raised from.*", "", str(value), flags=re.S)
        return type(value).__name__, text.replace("jitgrad.", "torch.")
    if isinstance(value, (tuple, list)) and not hasattr(value, "numel"):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return value
    return re.sub(r" at 0x\w+", "", repr(value)).replace("jitgrad.", "torch.")


def same(ours, theirs):
    if isinstance(ours, np.ndarray):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)
        assert ours.dtype == theirs.dtype
    elif isinstance(ours, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        assert ours == theirs


def check(expression, setup=SETUP):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = plain(evaluate(jitgrad, expression, setup)), plain(evaluate(torch, expression, setup))
    try:
        same(ours, theirs)
    except AssertionError:
        pytest.fail(f"{expression}\n  jitgrad: {ours}\n  PyTorch: {theirs}", pytrace=False)


def listed(text):
    return [line for line in text.strip().splitlines() if line]
