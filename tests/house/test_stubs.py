"""What type checkers and editors see: stubs that are fresh, programs that are accepted, mistakes that are found."""

import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import jitgrad
from jitgrad.commands.stub_parameters import FORMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [b for b in re.findall(r"^```python\n(.*?)^```", README, re.M | re.S) if "(Elementwise" not in b]

ACCEPTED = '''
from typing import Any, assert_type

import jitgrad as torch
from jitgrad import nn
from jitgrad.nn import functional as F

x = torch.zeros(2, 3)
assert_type(x + 1, torch.Tensor)
assert_type(1 - x, torch.Tensor)
assert_type(2 ** -x, torch.Tensor)
assert_type(x == 1, torch.Tensor)
assert_type(x @ x.T, torch.Tensor)
assert_type(x[0, ..., None], torch.Tensor)
assert_type(x.shape, torch.Size)
assert_type(x.shape[0], int)
assert_type(x.shape[:1], torch.Size)
assert_type(x.size(), torch.Size)
assert_type(x.size(0), int)
assert_type(x.dtype, torch.dtype)
assert_type(x.device, torch.device)
assert_type(torch.float32, torch.dtype)
assert_type(torch.pi, float)
assert_type(torch.exp(x, out=x), torch.Tensor)
assert_type(torch.add(x, 1, alpha=2), torch.Tensor)
assert_type(x.sum(dim=1, keepdims=True), torch.Tensor)
assert_type(x.sum(axis=(0, 1)), torch.Tensor)
assert_type(torch.softmax(x, dim=1), torch.Tensor)
assert_type(torch.softmax(x, axis=1), torch.Tensor)
assert_type(x.max(), torch.Tensor)
assert_type(x.max(1).values, torch.Tensor)
assert_type(torch.topk(x, 2).indices, torch.Tensor)
assert_type(x.requires_grad_().exp_().float(), torch.Tensor)
assert_type(x.grad, torch.Tensor | None)
assert_type(x.view(-1).view(torch.int32).reshape((2, 3)).permute(1, 0), torch.Tensor)
assert_type(x.to("cpu").to(torch.float64).to(device="cpu", dtype=torch.float32).to(x), torch.Tensor)
assert_type(torch.zeros(x.shape, dtype=float), torch.Tensor)
assert_type(torch.zeros(size=(2, 3), requires_grad=True), torch.Tensor)
assert_type(torch.arange(0, 3, step=1), torch.Tensor)
assert_type(torch.randint(3, (2,), generator=torch.Generator()), torch.Tensor)
assert_type(torch.where(x > 0, x, 0.0), torch.Tensor)
assert_type(torch.cat([x, x], dim=1), torch.Tensor)
assert_type(x.split(1), tuple[torch.Tensor, ...])
assert_type(F.relu(x), torch.Tensor)
assert_type(torch.manual_seed(0), torch.Generator)
with torch.no_grad():
    x += 1
    x[0] = 1
for row in x:
    assert_type(row, torch.Tensor)
values, indices = x.max(1)
number: float = float(x.sum())
parameter: torch.Tensor = nn.Parameter(x)
x.register_hook(lambda g: g * 2).remove()
torch.debug, torch.utils.data.DataLoader, torch.testing.assert_close, torch.func.vmap(torch.sum)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return self.linear(x) * self.weight


class Pair(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


net = Net()
assert_type(net(x), Any)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
nn.CrossEntropyLoss()(Scale.apply(net(x), 2), x).backward()
optimizer.step()
net.load_state_dict(net.state_dict())
'''

# Mistakes, and the code of the error that mypy reports for each.
REFUSED = [
    ("torch.exq(x)", "attr-defined"),
    ("torch.zeros(2, dtyp=torch.float32)", "call-overload"),
    ("torch.full((2,), 1.0, dtyp=torch.float32)", "call-arg"),
    ("x.sume()", "attr-defined"),
    ("x.sum(dimm=1)", "call-arg"),
    ("x.exp_(2)", "call-arg"),
    ("torch.exp(x, outt=x)", "call-arg"),
    ("torch.exp('a')", "arg-type"),
    ("x + 'a'", "operator"),
    ("torch.nn.Linearr", "attr-defined"),
    ("x.topk(2).value", "attr-defined"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder of programs: README's, as one that runs them in their order, and ours."""
    folder = tmp_path_factory.mktemp("programs")
    start = "import jitgrad as torch\n\nx = torch.zeros(2, 3)\n"
    (folder / "accepted.py").write_text(ACCEPTED)
    (folder / "readme.py").write_text("\n".join(BLOCKS))
    (folder / "refused.py").write_text(start + "".join(f"{line}\n" for line, _ in REFUSED))
    return folder


def check(folder, *command):
    """What a type checker prints about the programs, with this jitgrad as its user has it: installed."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True)


def test_stubs_are_fresh():
    # In a process of its own: ops that other tests declare are public here.
    command = [sys.executable, "-m", "jitgrad", "stubs", "--check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy(programs):
    options = ["--config-file=", "--check-untyped-defs", "--no-error-summary", "--hide-error-context"]
    run = check(programs, "mypy", *options, f"--cache-dir={programs / 'cache'}", ".")
    errors = re.findall(r"^(\w+)\.py:(\d+): error: .* \[([\w-]+)\]$", run.stdout, re.M)
    found = {(file, int(line) - 3, code) for file, line, code in errors}
    assert found == {("refused", line, code) for line, (_, code) in enumerate(REFUSED, 1)}, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright(programs):
    # README's loop makes the loss that it prints, which pyright does not believe of a loop.
    settings = {"include": ["*.py"], "extraPaths": [str(ROOT)], "reportPossiblyUnboundVariable": False}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    run = check(programs, "pyright", "--outputjson", "--pythonpath", sys.executable)
    found = {
        (Path(error["file"]).stem, error["range"]["start"]["line"] - 2)
        for error in json.loads(run.stdout)["generalDiagnostics"]
        if error["severity"] == "error"
    }
    assert found == {("refused", line) for line in range(1, len(REFUSED) + 1)}, run.stdout + run.stderr


def test_forms_are_calls_that_the_functions_take():
    """The signatures written by hand name parameters that the functions have, where those name them."""
    unknown = []
    for name, forms in FORMS.items():
        owner, _, name = name.rpartition(".")
        function = getattr(jitgrad.Tensor if owner else jitgrad, name, None) or getattr(jitgrad.Tensor, name)
        known = inspect.signature(function).parameters
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in known.values()):
            continue
        for positional, _ in forms:
            scope = {}
            exec(f"from __future__ import annotations\ndef form({positional}): ...", scope)
            names = set(inspect.signature(scope["form"]).parameters) - {"self", "input", "axis", "keepdims"}
            names -= set(vars(function).get("also_takes", ()))
            unknown += [f"{name}({parameter})" for parameter in names - known.keys()]
    assert not unknown
