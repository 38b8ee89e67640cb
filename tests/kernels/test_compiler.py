"""The disk cache: right results whatever the folder looks like, and no kernel mixed up."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from jitgrad.kernels import compiler

TEXT = "T = np.float64\ndef scale(x, out):\n    for i in range(x.size):\n        out[i] = x[i] * {factor}\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler.DiskCache, "warned", False)
    return tmp_path / "cache"


def run(factor):
    x, out = np.arange(3.0), np.zeros(3)
    kernel = compiler.compile_text("scale", TEXT.format(factor=factor))
    kernel(x, out)
    assert out.tolist() == (x * factor).tolist()


def counts():
    return compiler.statistics.compiled, compiler.statistics.loaded


def files(cache):
    return sorted(cache.rglob("*.kernel"))


def test_second_use_comes_from_disk(cache):
    run(2.5)
    assert len(files(cache)) == 1
    compiled, loaded = counts()
    run(2.5)
    assert counts() == (compiled, loaded + 1)


def test_a_changed_constant_is_another_kernel(cache):
    run(2.0)
    run(3.0)
    assert len(files(cache)) == 2


def test_the_text_lies_beside_the_machine_code(cache):
    run(4.0)
    (text,) = cache.rglob("scale-*.py")
    assert "out[i] = x[i] * 4.0" in text.read_text()


@pytest.mark.parametrize("damage", ["empty", "garbage", "truncated", "flipped", "folder"])
def test_damaged_files_are_compiled_again(cache, damage):
    run(5.0)
    (file,) = files(cache)
    blob = file.read_bytes()
    file.unlink()
    if damage == "folder":
        file.mkdir()
    else:
        flipped = blob[:-1] + bytes([blob[-1] ^ 1])
        contents = {"empty": b"", "garbage": b"x" * 4000, "truncated": blob[:-100], "flipped": flipped}
        file.write_bytes(contents[damage])
    compiled, _ = counts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(5.0)
    assert counts()[0] == compiled + 1


@pytest.mark.parametrize("obstacle", ["file in the way", "no such device"])
def test_an_unusable_folder_means_one_warning(tmp_path, monkeypatch, obstacle):
    monkeypatch.setattr(compiler.DiskCache, "warned", False)
    if obstacle == "file in the way":
        (tmp_path / "cache").write_text("not a folder")
        monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "cache"))
    else:
        monkeypatch.setattr(compiler, "_write", _full)
        monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "other"))
    with pytest.warns(UserWarning, match="cannot keep compiled kernels"):
        run(6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(7.0)


def _full(path, content):
    raise OSError(28, "No space left on device")


def test_processes_fill_one_cache_at_once(cache):
    program = (
        "import numpy as np\nfrom jitgrad.kernels import compiler\n"
        "for k in range(4):\n"
        "    x, out = np.arange(3.0), np.zeros(3)\n"
        "    text = 'def scale(x, out):\\n    for i in range(x.size):\\n        out[i] = x[i] * %d.0' % k\n"
        "    compiler.compile_text('scale', text)(x, out)\n"
        "    assert out.tolist() == (x * k).tolist()\n"
    )
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, env=dict(os.environ)) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    assert len(files(cache)) == 4
    assert not list(cache.rglob(".new-*"))


def test_a_type_error_names_kernel_types_and_line():
    kernel = compiler.compile_text("scale", TEXT.format(factor=1.5))
    with pytest.raises(compiler.KernelError, match=r"scale: cannot compile for .*unicode_type"):
        kernel("text", np.zeros(3))


def inner_functions(line, above=""):
    """The functions f, which is one line, and g, which calls f, of a kernel that has the text ``above`` them."""
    text = (
        f"{above}\n@njit\ndef f(x):\n    {line}\n\n@njit\ndef g(x):\n    return f(x)\n\ndef kernel(x):\n    return g(x)"
    )
    scope = compiler.compile_text("kernel", text).py_func.__globals__
    return scope["f"], scope["g"]


def test_equal_inner_functions_are_compiled_once():
    first, second = inner_functions("return x + 0.0"), inner_functions("return x + 0.0", above="T = np.float64")
    assert first[0] is second[0] and first[1] is second[1]


@pytest.mark.parametrize("other", ["return x + -0.0", "return x + 0", "return np.abs(x + 0.0)", "return x + T(0.0)"])
def test_inner_functions_that_differ_are_not_shared(other):
    """Nor are equal functions that call them, or whose globals differ."""
    first, second = inner_functions("return x + 0.0"), inner_functions(other, above="T = np.float64")
    assert first[0] is not second[0] and first[1] is not second[1]
    third = inner_functions(other, above="T = np.float32")
    assert (third[0] is second[0]) == ("T(" not in other)
