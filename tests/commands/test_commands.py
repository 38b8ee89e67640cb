"""``python -m jitgrad``: demo, info, cache, warmup; their help and their errors."""

import os
import subprocess
import sys

import pytest

import jitgrad
from jitgrad.__main__ import main
from jitgrad.commands import demo, info
from jitgrad.commands.warmup import _run_op, warmup
from jitgrad.dispatch.registry import OPS
from jitgrad.kernels.cache_files import cache_directory
from jitgrad.kernels.statistics import statistics


@pytest.mark.slow
def test_demo_learns_the_digits(capsys):
    result = demo.run()
    printed = capsys.readouterr()
    assert result.accuracy >= demo.TARGET and result.steps == 900 and result.loss < 0.1
    assert f"Held-out digits: {result.accuracy:.2%} right" in printed.out
    assert "us (median)" in printed.out and "Kernels: " in printed.out
    assert printed.err == "" and "epoch 20: loss" in printed.out  # a bar is for terminals


def test_demo_starts_from_its_seed():
    first, second = (demo.train(epochs=1, seed=3, quiet=True) for _ in range(2))
    assert first.loss == second.loss and first.accuracy == second.accuracy
    assert second.compiled == 0


def test_info_names_what_matters(capsys):
    assert main(["info"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line[:1].islower())
    for topic in ("jitgrad", "python", "numba", "numpy", "cpu", "threads", "blas", "cuda", "kernel", "cached"):
        assert lines[topic], topic
    assert info.report()["kernel cache"] == str(cache_directory())
    assert info.report()["threads"].startswith(str(jitgrad.get_num_threads()))


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """A cache of its own, with one kernel in it, beside a file that is not ours."""
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    folder = cache_directory()
    folder.mkdir()
    (folder / "f-1.kernel").write_bytes(b"x" * 1000)
    (folder / "f.py").write_text("pass")
    (tmp_path / "precious.txt").write_text("keep me")
    return tmp_path


def test_cache_shows_and_clears(filled, capsys):
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{filled}: 1 kernels, 0.0 MiB\n"
    assert main(["cache", "--clear"]) == 0
    assert [path.name for path in filled.iterdir()] == ["precious.txt"]
    assert main(["cache", "--clear", str(filled / "nowhere")]) == 0
    assert "no cache there yet" in capsys.readouterr().out


def test_cache_of_one_installation(filled, capsys):
    folder = cache_directory()
    assert main(["cache", "--clear", str(folder)]) == 0
    assert not folder.exists() and (filled / "precious.txt").exists()


def test_warmup_leaves_nothing_to_compile_and_no_trace(monkeypatch):
    ops = {name: OPS[name] for name in ("exp", "mm")}
    monkeypatch.setattr("jitgrad.commands.warmup.OPS", ops)
    jitgrad.manual_seed(5)
    expected = jitgrad.randn(3).tolist()
    jitgrad.manual_seed(5)
    warmup(quiet=True)
    assert jitgrad.randn(3).tolist() == expected
    before = statistics.compiled
    assert warmup(quiet=True) == 0
    out = jitgrad.nn.Linear(5, 3)(jitgrad.randn(4, 5)).exp()
    jitgrad.nn.functional.cross_entropy(out, jitgrad.arange(4) % 3).backward()
    assert statistics.compiled == before


def test_warmup_covers_the_demo(monkeypatch):
    monkeypatch.setattr("jitgrad.commands.warmup.OPS", {})
    warmup(quiet=True)
    assert demo.train(epochs=1, quiet=True).compiled == 0


def test_warmup_in_processes_prints_lines(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("jitgrad.commands.warmup._tasks", lambda dtypes: [(_run_op, ("neg", dtypes[0]))] * 3)
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    assert warmup(processes=2) == len(list(tmp_path.rglob("*.kernel"))) > 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" ops, ")[0] for line in lines] == [f"warming up: {k} of 3" for k in (1, 2, 3)]


SCRIPT = """
import sys, jitgrad
jitgrad.ones(3).exp2()
if sys.argv[1:] == ["--fail"]:
    sys.exit("failed")
"""


def test_warmup_like_a_script(monkeypatch, tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "kernels"
    script.write_text(SCRIPT)
    environment = os.environ | {"JITGRAD_CACHE_DIR": str(folder)}

    def run(*arguments):
        command = [sys.executable, "-m", "jitgrad", "warmup", "--like", str(script), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    first, second = run(), run("--fail")
    count = len(list(folder.rglob("*.kernel")))
    assert count > 0 and first.returncode == 0 and second.returncode == 1 and "failed" in second.stderr
    assert f"used {count} kernels: {count} compiled now, 0 were on disk" in first.stdout
    assert f"used {count} kernels: 0 compiled now, {count} were on disk" in second.stdout


def test_warmup_like_a_script_without_jitgrad(tmp_path, monkeypatch, capsys):
    (tmp_path / "script.py").write_text("import os\nassert os.path.isabs(__file__)")
    monkeypatch.chdir(tmp_path)
    assert main(["warmup", "--like", "script.py"]) == 0
    assert "script.py used no kernels" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["nowhere.py"]])
def test_warmup_like_no_script(arguments, capsys):
    assert main(["warmup", "--like", *arguments]) == 2
    assert "no such script" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "-h"], ["cache", "-h"], ["warmup", "-h"], ["info", "-h"]])
def test_help(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert "usage: python -m jitgrad" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "text"), [
    ([], "required: COMMAND"),
    (["dance"], "invalid choice: 'dance'"),
    (["demo", "--epochs", "many"], "invalid int value"),
    (["warmup", "--dtype", "float16"], "invalid choice: 'float16'"),
])  # fmt: skip
def test_wrong_arguments_say_what_is_right(arguments, text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert text in capsys.readouterr().err


def test_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "jitgrad", "info"], capture_output=True, text=True, check=True)
    assert "kernel cache" in run.stdout
