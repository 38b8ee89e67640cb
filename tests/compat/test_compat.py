"""``jitgrad.compat`` and ``python -m jitgrad run``, in processes of their own: they change what an import means."""

import os
import subprocess
import sys

import pytest

PROGRAM = """\
import importlib.metadata, importlib.util, sys
import torch, torch.nn as nn
import torch.nn.functional as F
from torch.nn import functional
from torch.optim.lr_scheduler import StepLR
import jitgrad

def fail():
    return torch.ones(2) + torch.ones(3)

assert torch is jitgrad and nn is jitgrad.nn and F is functional is jitgrad.nn.functional
assert sys.modules["torch.optim"] is jitgrad.optim and nn.__spec__.name == "jitgrad.nn"
assert importlib.metadata.version("torch") == torch.__version__ == torch.version.__version__
assert torch.__version__ >= "2.9" and torch.__version__ > (2, 0) and "2.0" < torch.__version__ < "2.14"
assert type(torch.ones(1)).__module__ == "torch" == torch.__name__  # by which libraries choose a backend
assert torch._C._LinAlgError is torch.linalg.LinAlgError
assert importlib.util.find_spec("torch.nn") and importlib.util.find_spec("torch.no_such_module") is None
try:
    import torch.no_such_module
except ModuleNotFoundError as error:
    assert error.name == "torch.no_such_module"
print(__name__, *sys.argv[1:])
if "fail" in sys.argv:
    fail()
sys.exit(int(sys.argv[-1]))
"""


def python(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}
    )


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_script(script):
    done = python("-m", "jitgrad", "run", str(script), "--x", "3")
    assert (done.stdout, done.returncode) == ("__main__ --x 3\n", 3), done.stderr
    assert done.stderr.startswith("jitgrad.compat: `import torch` means jitgrad") and done.stderr.count("\n") == 1


def test_a_module_quietly(script):
    done = python("-m", "jitgrad", "run", "-m", "program", "-v", "0", cwd=script.parent, JITGRAD_QUIET="1")
    assert (done.stdout, done.returncode, done.stderr) == ("__main__ -v 0\n", 0, "")


def test_an_error_shows_the_script_s_frames_first(script):
    done = python("-m", "jitgrad", "run", str(script), "fail", JITGRAD_QUIET="1")
    lines = done.stderr.splitlines()
    assert done.returncode == 1 and lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{script}", line 24, in <module>'
    assert lines[-1].startswith("RuntimeError: The size of tensor a (2) must match")


@pytest.mark.parametrize(
    "arguments, status, words",
    [(("no_such.py",), 2, "can't open file"), (("-m", "no_such"), 1, "No module named no_such"), ((), 2, "is missing")],
)
def test_what_is_not_there(arguments, status, words):
    done = python("-m", "jitgrad", "run", *arguments)
    assert done.returncode == status and words in done.stderr and "Traceback" not in done.stderr


def test_install_and_uninstall(tmp_path):
    (tmp_path / "torch.py").write_text("real = True\n")
    program = """
import sys, jitgrad
from jitgrad import compat
own = jitgrad.__version__
compat.install(quiet=True); compat.install()
import torch.nn
assert torch is jitgrad and compat.installed()
try: torch.no_such_name
except AttributeError: pass
compat.uninstall(); compat.uninstall()
assert jitgrad.__version__ == own and not compat.installed() and "torch.nn" not in sys.modules
import torch
assert torch.real
try: compat.install()
except ImportError as error: assert "imported already" in str(error) and jitgrad.__version__ == own
else: raise AssertionError
"""
    done = python("-c", program, PYTHONPATH=f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert (done.returncode, done.stderr) == (0, "")


def test_functions_are_compiled_there_too(tmp_path):
    program = """
import torch, torch.nn.functional as F
layer = torch.nn.Linear(3, 2)
@torch.compile(fullgraph=True)
def step(x): return F.relu(layer(x)).sum()
for _ in range(3): step(torch.ones(2, 3))
assert str(step.explain()).startswith("1 recording")
"""
    (tmp_path / "step.py").write_text(program)
    done = python("-m", "jitgrad", "run", str(tmp_path / "step.py"))
    assert done.returncode == 0, done.stderr
