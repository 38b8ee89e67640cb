"""A function is followed by its text: only where that is the text of the code which runs uncompiled."""

import importlib
import os
import sys
import time
import types
import warnings

import pytest

import jitgrad as torch
from jitgrad import nn
from jitgrad.compiler.definitions import definition


@pytest.fixture
def module(tmp_path, monkeypatch):
    """``module(text)``: a module's file gets a text, and the module is what was imported of it at first."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file, times = tmp_path / "edited_by_a_test.py", iter(range(100))

    def write(text):
        file.write_text(text)
        at = time.time() + 10 * next(times)
        os.utime(file, (at, at))
        return importlib.import_module(file.stem)

    yield write
    sys.modules.pop(file.stem, None)


def called(function, recordings):
    compiled = torch.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.compiler.CompileWarning)
        found = [compiled(torch.ones(1)).item() for _ in range(4)]
    assert len(compiled._variants) == recordings
    return found


def scaled_by(number):
    return f"import math\n\n\ndef scaled(x):\n    return x * {number}\n"


def test_an_edited_file_is_not_what_runs(module):
    made = module(scaled_by(2))
    module(scaled_by(3))
    assert called(made.scaled, 0) == [2.0] * 4
    importlib.reload(made)
    assert called(made.scaled, 1) == [3.0] * 4
    module(scaled_by(4))
    assert called(made.scaled, 1) == [3.0] * 4  # whose text was looked at before
    importlib.reload(made)
    assert called(made.scaled, 1) == [4.0] * 4


def test_a_function_that_is_called_has_been_edited(module):
    made = module(scaled_by(2))
    module(scaled_by(3))
    assert called(lambda x: made.scaled(x) + 1, 0) == [3.0] * 4


def test_asserts_that_pytest_has_rewritten():
    def scaled(x):
        assert x.ndim == 1, x.shape
        return (lambda y: y * 2)(x)

    assert called(scaled, 1) == [2.0] * 4


def test_code_that_was_made_in_another_way():
    def scaled(x):
        return x * 2

    code = scaled.__code__
    scaled.__code__ = code.replace(co_consts=tuple([7 if c == 2 else c for c in code.co_consts]))
    assert called(scaled, 0) == [7.0] * 4


def test_equal_code_of_two_files(module, tmp_path):
    made = module(scaled_by(2))
    other = tmp_path / "other.py"
    other.write_text(scaled_by(3))
    scaled = types.FunctionType(made.scaled.__code__.replace(co_filename=str(other)), vars(made))
    assert called(made.scaled, 1) == [2.0] * 4
    assert called(scaled, 0) == [2.0] * 4


class _Private:
    __scale = 2.0

    def __init__(self):
        self.__shift = 1.0

    def run(self, x):
        return x * self.__scale + self.__shift


def decorated(function):
    return function


class Wide(nn.Module):
    @decorated
    def forward(self, x, *rest, factor: float = 2.0, **others) -> torch.Tensor:
        """Nothing much."""
        y: torch.Tensor = x * factor if not rest else x
        return nn.functional.relu(super().__call__ and y, **others)


@pytest.mark.parametrize("function", [_Private().run, Wide(), lambda x: x * 2, nn.MultiheadAttention.forward])
def test_text_is_told_to_be_that_of_the_code(function):
    function = getattr(function, "forward", function)
    definition(getattr(function, "__func__", function).__code__)
