"""Programs of views and writes in place, run by both libraries: everything that is left behind is compared.

After a program each variable must agree in values, layout, version, history and flags; then backward
runs from all that has a history, and the leaves' gradients must agree. A program that raises must
raise the same class with the same words, and leave the same variables.
"""

import copy
import pickle
import re
import warnings

import numpy as np
import pytest

import jitgrad

torch = pytest.importorskip("torch")
SETUP = """
w = torch.tensor([0.5, -1.5, 2.0], requires_grad=True)
m = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -0.75]], requires_grad=True)
n = m * 2
p = torch.arange(6.0).reshape(2, 3)
q = torch.tensor([2.0, -1.0, 0.5])
k = torch.tensor([2, 0])
c = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
"""


def words(error):
    text = str(error).replace("jitgrad.", "torch.")
    return re.sub(r" ?\(Triggered internally.*|\nException raised from.*| at 0x\w+", "", text, flags=re.S)


def seen(value):
    """What can be seen of a value, in comparable form; numbers apart, since they are compared loosely."""
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        node = value.grad_fn
        marks = {
            "dtype": str(value.dtype).replace("jitgrad.", "torch."), "shape": tuple(value.shape),
            "stride": [s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1],
            "requires_grad": value.requires_grad, "is_leaf": value.is_leaf,
            "grad_fn": None if node is None else type(node).__name__, "output_nr": value.output_nr,
            "version": value._version, "is_view": value._is_view(), "retains_grad": value.retains_grad,
            "bits": (value.is_conj(), value.is_neg()),
            "next": None if node is None else [e and type(e).__name__ for e, _ in node.next_functions],
        }  # fmt: skip
        return marks, value.detach().resolve_conj().resolve_neg().numpy().copy()
    if isinstance(value, BaseException):
        return type(value).__name__, words(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "numel"):
        return [seen(v) for v in value]
    return re.sub(r" at 0x\w+", "", repr(value)).replace("jitgrad.", "torch.")


def look(value):
    """``seen``, where looking itself may raise."""
    try:
        return seen(value)
    except RuntimeError as error:
        return type(error).__name__, words(error)


def gradients(scope, results):
    """Gradients of the leaves, backward having run from all that has a history."""
    values = [v for v in [*scope.values(), *results] if isinstance(v, (torch.Tensor, jitgrad.Tensor))]
    total = 0
    try:
        for v in values:
            if v.grad_fn is not None and v.dtype.is_floating_point:
                total = total + (v * v).sum()
            elif v.grad_fn is not None and v.dtype.is_complex:
                total = total + (v.real * v.real + 2 * v.imag * v.imag).sum()
        if not isinstance(total, int):
            total.backward()
    except RuntimeError as error:
        return seen(error)
    leaves = {n: v for n, v in scope.items() if any(v is w for w in values) and v.is_leaf and v.requires_grad}
    return {n: None if v.grad is None else seen(v.grad.detach())[1] for n, v in leaves.items()}


def run(library, program):
    scope = {"torch": library, "np": np, "copy": copy, "pickle": pickle}
    exec(SETUP, scope)
    *statements, last = [s.strip() for s in program.split(";")]
    if re.match(r"[\w.\[\], :]+ [-+*]?= |with |del ", last):
        statements, last = [*statements, last], "None"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for statement in statements:
                exec(statement, scope)
            value = eval(last, scope)
        except Exception as error:
            value = error
    results = list(value) if isinstance(value, (list, tuple)) else [value]
    variables = {n: v for n, v in scope.items() if isinstance(v, (torch.Tensor, jitgrad.Tensor, list, tuple))}
    left = {name: look(v) for name, v in variables.items()} | {"result": look(value)}
    left["warnings"] = [words(w.message) for w in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return left | {"gradients": gradients(scope, results)}


def differences(ours, theirs, place=""):
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*ours, *theirs}):
            yield from differences(ours.get(key, "nothing"), theirs.get(key, "nothing"), f"{place}.{key}")
    elif isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, 1e-4, 1e-5, equal_nan=True):
            yield f"{place}: {ours.tolist()} instead of {theirs.tolist()}"
    elif isinstance(theirs, (tuple, list)) and type(ours) is type(theirs) and len(ours) == len(theirs):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(a, b, f"{place}[{number}]")
    elif type(ours) is not type(theirs) or ours != theirs:
        yield f"{place}: {ours} instead of {theirs}"


def check(program):
    found = list(differences(run(jitgrad, program), run(torch, program)))
    found = [f for f in found if "discards the imaginary part" not in f]  # PyTorch warns once a process
    if found:
        pytest.fail("\n  ".join([program, *found]), pytrace=False)


def listed(text):
    return [line for line in text.strip().splitlines() if line and not line.startswith("#")]
