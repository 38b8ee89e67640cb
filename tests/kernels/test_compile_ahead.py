"""Kernels that another process compiles ahead: backward finds them on disk, and nothing of it is left behind."""

import os
import subprocess
import sys

import pytest

from jitgrad.kernels import compile_ahead

MODEL = """
import jitgrad as torch
from jitgrad.kernels import compile_ahead
from jitgrad.kernels.statistics import statistics
x = torch.linspace(-2, 2, 60).reshape(6, 10).requires_grad_()
def loss():
    return torch.nn.functional.cross_entropy((x * 3).tanh(), torch.arange(6))
"""
PRINTED = "print(statistics.compiled, statistics.loaded, x.grad.double().sum().item(), x.grad.abs().sum().item())"


def run(tmp_path, program, **settings):
    """The words that a process prints which runs ``MODEL`` and ``program``, with its cache in a folder."""
    environment = {**os.environ, "JITGRAD_CACHE_DIR": str(tmp_path), "JITGRAD_COMPILE_AHEAD": "1", **settings}
    done = subprocess.run(
        [sys.executable, "-c", MODEL + program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture(autouse=True)
def possible(monkeypatch):
    monkeypatch.setenv("JITGRAD_COMPILE_AHEAD", "1")
    if not compile_ahead._possible():
        pytest.skip("there is one core, or this is no process for it")


def test_backward_finds_its_kernels_compiled(tmp_path):
    program = """
out = loss()
assert compile_ahead.begun()
compile_ahead.finish()
assert not compile_ahead.begun()
print(statistics.compiled)
out.backward()
""" + PRINTED
    forward, compiled, loaded, *sums = run(tmp_path, program)
    # The gradients of cross_entropy's two ops, of tanh and of the product by a number.
    assert int(loaded) >= 4
    assert int(compiled) == int(forward)  # the first gradient, a single number, takes no kernel
    *_, total, size = run(tmp_path / "alone", "loss().backward()\n" + PRINTED, JITGRAD_COMPILE_AHEAD="0")
    assert sums == [total, size]


def test_it_can_be_turned_off(tmp_path):
    assert run(tmp_path, "loss(); print(compile_ahead.begun())", JITGRAD_COMPILE_AHEAD="0") == ["False"]


def test_it_does_not_start_where_kernels_are_on_disk(tmp_path):
    run(tmp_path, "loss().backward()")
    assert run(tmp_path, "loss().backward(); print(compile_ahead.begun(), statistics.compiled)") == ["False", "0"]


def test_it_starts_with_the_import_where_nothing_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.MODEL", "import jitgrad\nfrom jitgrad.kernels import compile_ahead\n")
    begun = "print(compile_ahead.begun())"
    assert run(tmp_path / "new", begun) == ["True"]
    assert run(tmp_path / "off", begun, JITGRAD_COMPILE_AHEAD="0") == ["False"]
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty", begun) == ["True"]
    (tmp_path / "file").touch()
    assert run(tmp_path, begun) == ["False"]  # there is something
    assert run(tmp_path / "file", begun) == ["False"]


def test_kernels_of_one_call_are_compiled_at_once(tmp_path):
    """While the first is compiled here, the other process does the rest: of a product and its bias, of a loss."""
    program = """
asked, ask = [], compile_ahead._Compiler.ask
compile_ahead._Compiler.ask = lambda self, wanted: (asked.append(wanted and wanted[0].name), ask(self, wanted))
torch.nn.functional.linear(x, torch.ones(4, 10), torch.ones(4))
loss()
print(*[n for n in asked if n])
"""
    asked = run(tmp_path, program)
    assert {"add_row", "nll_total", "nll_gradient", "log_softmax_rows_gradient"} <= set(asked)
    assert not {"tile_product", "log_softmax_rows"} & set(asked)  # compiled here
    assert asked.index("nll_gradient") < asked.index("nll_total")  # the last is compiled first, as forward needs it


def test_random_numbers_are_compiled_ahead(tmp_path):
    program = """
torch.manual_seed(0)
compile_ahead.finish()
before = statistics.compiled
print(torch.rand(20).sum().item(), torch.randn(20).sum().item(), statistics.compiled - before)
"""
    *numbers, compiled = run(tmp_path, program)
    assert compiled == "1"  # the sum's
    assert numbers == run(tmp_path / "alone", program, JITGRAD_COMPILE_AHEAD="0")[:2]


def test_it_ends_with_the_process(tmp_path):
    program = """
loss()
while compile_ahead._compiler.process is None and compile_ahead.begun():
    pass  # the other thread is about to start it
print(compile_ahead._compiler.process.pid)
"""
    (pid,) = run(tmp_path, program)
    with pytest.raises(OSError):
        os.kill(int(pid), 0)


def test_what_happens_to_the_other_process_harms_nothing(tmp_path):
    program = """
out = loss()
while compile_ahead._compiler.process is None and compile_ahead.begun():
    pass
compile_ahead._compiler.process.kill()
compile_ahead.finish()
out.backward()
""" + PRINTED
    *_, total, size = run(tmp_path, program)
    *_, expected, expected_size = run(tmp_path, "loss().backward()\n" + PRINTED)
    assert (total, size) == (expected, expected_size)


def test_a_rehearsal_changes_nothing(tmp_path):
    """Generators, versions and what observers see are as they are where nothing is foreseen."""
    program = """
torch.manual_seed(3)
w = torch.ones(10, requires_grad=True)
with torch.no_grad():
    torch.zeros(2).exp()  # something is compiled
y = x.detach().clone()
y.mul_(2)
h = torch.nn.functional.dropout((y * w).log_softmax(1).sum(0), 0.5)
with torch.debug.tape() as tape:
    z = (h.sigmoid() * w).sum()
print(y._version, w._version, torch.rand(3).tolist(), len(tape), h.tolist())
z.backward()
print(w.grad.tolist())
"""
    assert run(tmp_path, program) == run(tmp_path / "alone", program, JITGRAD_COMPILE_AHEAD="0")


def test_the_kernel_of_an_optimizer_is_compiled_ahead(tmp_path):
    program = """
x.exp()  # something is compiled
for kind, options in ((torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {}), (torch.optim.RMSprop, {})):
    optimizer = kind([x], lr=0.1, **options)
    x.grad = torch.ones_like(x)
    compile_ahead.finish()
    before = statistics.compiled
    optimizer.step()
    print(statistics.compiled - before)
    compile_ahead.begin()
"""
    assert run(tmp_path, program) == ["0", "0", "0"]


def test_constants_that_plans_keep_are_made(tmp_path):
    program = """
x.exp()  # something is compiled
x = x.detach().requires_grad_()
for result in (torch.native_layer_norm(x, (10,), None, None, 1e-5)[0], x.var(1), x.median(1)[0], x.cumprod(1)):
    (g,) = torch.autograd.grad(result.square().sum(), x)
    print(*g.flatten().tolist())
"""
    assert run(tmp_path, program) == run(tmp_path / "alone", program, JITGRAD_COMPILE_AHEAD="0")
