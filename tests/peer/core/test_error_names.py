"""Errors that name a dtype name it as PyTorch does, which has three ways."""

import pytest
import torch

import jitgrad

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128"]


def cases(lib, name):
    x, mask = lib.ones(2, 2).to(getattr(lib, name)), lib.ones(2, 2, dtype=lib.bool)
    other = lib.float32 if name == "float64" else lib.float64
    y = lib.ones(2, 2).to(other)
    return {
        "masked_fill_ by a mask": lambda: lib.ones(2, 2).masked_fill_(x, 1),
        "masked_fill_ with a complex number": lambda: x.clone().masked_fill_(mask, 1e300 + 1j),
        "masked_fill_ with a large number": lambda: x.clone().masked_fill_(mask, 1e300),
        "fill_": lambda: x.clone().fill_(1e300),
        "set_": lambda: y.clone().set_(x),
        "lerp from": lambda: lib.lerp(x, y, 0.5),
        "lerp to": lambda: lib.lerp(lib.ones(2, 2), x, 0.5),
        "lerp by": lambda: lib.lerp(lib.ones(2, 2), lib.ones(2, 2), x),
        "cumsum_ of": lambda: x.clone().cumsum_(0, dtype=other),
        "cumsum_ as": lambda: y.clone().cumsum_(0, dtype=x.dtype),
        "mm": lambda: lib.mm(x, y),
        "grad": lambda: setattr(y.clone().requires_grad_(), "grad", x),
    }


def outcome(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return "passed"


@pytest.mark.parametrize("name", DTYPES)
def test_names_of_dtypes(name):
    theirs = {case: outcome(call) for case, call in cases(torch, name).items()}
    assert {case: outcome(call) for case, call in cases(jitgrad, name).items()} == theirs
