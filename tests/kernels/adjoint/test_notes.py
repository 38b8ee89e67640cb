"""Notes of derivations on disk: taken as long as all is as it was, and only then."""

import os
import subprocess
import sys
import types

import numpy as np
import pytest

import jitgrad
from jitgrad.kernels.adjoint.notes import Notes
from jitgrad.kernels.adjoint.parse import program_of
from jitgrad.kernels.adjoint.program import Kind
from jitgrad.kernels.adjoint.routine import Routine
from jitgrad.kernels.adjoint.write import program_text

TEXT = """\
import math
import numpy as np
RATE = 2.0
UNUSED = 1.0
SHAPE = (1, 2)

def inner(v):
    return v * RATE

def scaled(n):
    def of(x, k=3):
        total = 0.0
        for i in range(x.shape[0]):
            total += inner(x[i]) * n * k + np.exp(x[i]) + math.pi * SHAPE[1]
        return total
    return of

f = scaled(4.0)
"""
KINDS = [Kind("float64", 1), Kind("int64")]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "cache"))


def module(folder, text=TEXT):
    """A module of its own for the text, as another process would have."""
    made = types.ModuleType("noted")
    file = folder / "noted.py"
    file.write_text(text)
    exec(compile(text, str(file), "exec"), made.__dict__)
    return made


def noted(function):
    """(the notes, the program, how often it was derived)."""
    count = []

    def make():
        count.append(1)
        return program_of(function, KINDS)

    notes = Notes(function, "here")
    program = notes.program(make)
    notes.get("sum", lambda: count.append(1) or sum(range(4)))
    return notes, program, count


def test_what_is_kept_is_not_derived_again(tmp_path):
    _, first, count = noted(module(tmp_path).f)
    assert len(count) == 2
    notes, second, count = noted(module(tmp_path).f)
    assert not count and notes.get("sum", pytest.fail) == 6
    assert (second.parameters, second.outputs, second.kinds, second.single, second.source) == (
        first.parameters, first.outputs, first.kinds, first.single, first.source)  # fmt: skip
    assert program_text(second) == program_text(first) and len(count) == 1


@pytest.mark.parametrize("before, after", [
    ("RATE = 2.0", "RATE = 3.0"), ("RATE = 2.0", "RATE = 2"), ("scaled(4.0)", "scaled(5.0)"), ("k=3", "k=4"),
    ("return v * RATE", "return v + RATE"), ("np.exp(x", "np.log(x"), ("import math\n", "import cmath as math\n"),
    ("(1, 2)", "(1, 3)"), ("import math\n", "import math\n\n"),
])  # fmt: skip
def test_what_is_different_is_derived_anew(tmp_path, before, after):
    noted(module(tmp_path).f)
    changed = module(tmp_path, TEXT.replace(before, after))
    _, program, count = noted(changed.f)
    assert len(count) == 2
    assert program_text(program) == program_text(program_of(changed.f, KINDS))


@pytest.mark.parametrize("name, value, derived", [
    ("RATE", 7.0, 2), ("RATE", 2, 2), ("SHAPE", (5, 6), 2), ("inner", np.sqrt, 2), ("exp", 1.0, 0), ("UNUSED", 2.0, 0),
])  # fmt: skip
def test_names_that_stand_for_something_else_in_the_same_text(tmp_path, name, value, derived):
    noted(module(tmp_path).f)
    changed = module(tmp_path)
    setattr(changed, name, value)
    _, program, count = noted(changed.f)
    assert len(count) == derived
    assert program_text(program) == program_text(program_of(changed.f, KINDS))


def test_a_body_that_is_derived_late_is_that_of_the_notes(tmp_path):
    _, first, _ = noted(module(tmp_path).f)
    later = module(tmp_path)
    _, program, _ = noted(later.f)
    later.RATE = 9.0
    assert program_text(program) == program_text(first)


def test_names_that_cannot_be_compared_are_not_kept(tmp_path):
    for _ in range(2):
        odd = module(tmp_path)
        odd.inner = types.SimpleNamespace(py_func=abs, __module__="odd")
        notes, count, routine = Notes(odd.f, "here"), [], Routine(odd.f)
        notes.read("odd", lambda: count.append(routine.meaning("inner")))
        assert count and notes.record is None and not notes.path.exists()


def test_damaged_notes_are_derived_anew(tmp_path):
    notes, _, _ = noted(module(tmp_path).f)
    content = bytearray(notes.path.read_bytes())
    content[-3] ^= 1
    notes.path.write_bytes(content)
    assert len(noted(module(tmp_path).f)[2]) == 2
    assert not noted(module(tmp_path).f)[2]


PROGRAM = """
import sys
import numpy as np
import jitgrad
from noted import f
op = jitgrad.differentiable(f)
x = np.arange(3.0)
print(jitgrad.numba_grad(op, value=True)(x, 2))
y = jitgrad.tensor(x, requires_grad=True)
op(y, 2).backward()
print(y.grad.tolist())
try:
    jitgrad.differentiable(f)(x, k=None)
except TypeError as error:
    print(error)
derives = [f"jitgrad.kernels.adjoint.{name}" for name in ("parse", "constructs", "sweep", "reverse", "shares")]
print([name for name in derives if name in sys.modules])
"""


def test_a_second_process_derives_nothing(tmp_path):
    (tmp_path / "noted.py").write_text(TEXT)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JITGRAD_NUM_THREADS": "2"}
    runs = [subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
            .stdout.splitlines() for _ in range(2)]  # fmt: skip
    assert runs[0][:-1] == runs[1][:-1] and "parse" in runs[0][-1] and runs[1][-1] == "[]"


def test_functions_with_outputs_and_checkpoints_keep_their_own(tmp_path):
    text = "def f(out, x):\n    for i in range(x.shape[0]):\n        out[i] = x[i] * x[i - 1]\n"
    for _ in range(2):
        function = module(tmp_path, text).f
        for states in (False, True, 3):
            op = jitgrad.differentiable(function, shape="x", checkpoint=states, check=False)
            x = jitgrad.tensor([1.0, 2.0, 4.0], requires_grad=True)
            op(x).sum().backward()
            assert x.grad.tolist() == [6.0, 5.0, 3.0]
            (grads,) = op.adjoint(np.zeros(3), np.array([1.0, 2.0, 4.0]), np.ones(3))[-1:]
            assert grads.tolist() == [6.0, 5.0, 3.0]
