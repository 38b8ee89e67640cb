"""The disk cache: right results whatever the folder looks like, and no kernel mixed up."""

import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numba
import numpy as np
import pytest

from jitgrad.kernels import cache_files, cache_lock, compiler, disk_cache, kernel_text
from jitgrad.kernels.kernel_text import KernelError
from jitgrad.kernels.statistics import statistics

TEXT = "T = np.float64\ndef scale(x, out):\n    for i in range(x.size):\n        out[i] = x[i] * {factor}\n"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk_cache.DiskCache, "warned", False)
    return tmp_path / "cache"


def run(factor):
    x, out = np.arange(3.0), np.zeros(3)
    kernel = compiler.compile_text("scale", TEXT.format(factor=factor))
    kernel(x, out)
    assert out.tolist() == (x * factor).tolist()


def counts():
    return statistics.compiled, statistics.loaded


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


def test_a_file_under_another_kernels_name_is_not_taken(cache):
    run(2.0)
    (two,) = files(cache)
    content = two.read_bytes()
    run(3.0)
    (three,) = set(files(cache)) - {two}
    three.write_bytes(content)
    compiled, _ = counts()
    run(3.0)
    assert counts()[0] == compiled + 1


def test_without_a_home_the_folder_is_private_and_short_lived(tmp_path):
    """What lies in the cache is unpickled: it must be nowhere that others can prepare."""
    program = (
        "import os, pathlib, stat, warnings\n"
        "def homeless(cls): raise RuntimeError('Could not determine home directory.')\n"
        "pathlib.Path.home = classmethod(homeless)\n"
        "from jitgrad.kernels.cache_files import cache_directory\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    folder = cache_directory().parent\n"
        "    assert cache_directory().parent == folder\n"
        "assert ['no home directory' in str(w.message) for w in caught] == [True]\n"
        "assert stat.S_IMODE(folder.stat().st_mode) == 0o700 or os.name == 'nt'\n"
        "print(folder)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("JITGRAD_CACHE_DIR", "XDG_CACHE_HOME")}
    environment["TMPDIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert not list(tmp_path.iterdir())
    assert done.stdout.strip() not in ("", str(tmp_path / "jitgrad"))


@pytest.mark.parametrize("obstacle", ["file in the way", "no such device"])
def test_an_unusable_folder_means_one_warning(tmp_path, monkeypatch, obstacle):
    monkeypatch.setattr(disk_cache.DiskCache, "warned", False)
    if obstacle == "file in the way":
        (tmp_path / "cache").write_text("not a folder")
        monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "cache"))
    else:
        monkeypatch.setattr(cache_files, "write_atomically", _full)
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
        "import numpy as np\nfrom jitgrad.kernels import compiler, statistics\n"
        "for k in range(4):\n"
        "    x, out = np.arange(3.0), np.zeros(3)\n"
        "    text = 'def scale(x, out):\\n    for i in range(x.size):\\n        out[i] = x[i] * %d.0' % k\n"
        "    compiler.compile_text('scale', text)(x, out)\n"
        "    assert out.tolist() == (x * k).tolist()\n"
        "print(statistics.statistics.compiled)\n"
    )
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    compiled = [int(p.communicate()[0]) for p in running]
    assert [p.returncode for p in running] == [0, 0, 0]
    assert len(files(cache)) == 4
    assert sum(compiled) == 4  # each kernel once, by whoever came first
    assert not list(cache.rglob(".new-*"))


COMPILING = """
import sys
import numpy as np
from jitgrad.kernels import compiler, disk_cache

def stop(self, signature, result):
    print("compiled", flush=True)
    sys.stdin.read()

disk_cache.DiskCache.save_overload = stop
compiler.compile_text("scale", sys.argv[1])(np.arange(3.0), np.zeros(3))
"""


def test_a_process_that_dies_while_it_compiles_gives_its_lock_up(cache, monkeypatch):
    command = [sys.executable, "-c", COMPILING, TEXT.format(factor=8.0)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "compiled\n"  # and holds the lock
        pauses = []

        def pause(seconds):
            pauses.append(seconds)
            other.kill()
            other.wait()

        monkeypatch.setattr(cache_lock.time, "sleep", pause)
        run(8.0)
    assert len(pauses) == 1
    assert len(files(cache)) == 1


def test_threads_compile_one_kernel_at_once(cache):
    kernel = compiler.compile_text("scale", TEXT.format(factor=8.0))
    start = threading.Barrier(4)

    def call(_):
        out = np.zeros(3)
        start.wait()
        kernel(np.ones(3), out)
        return out.tolist()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(4))) == [[8.0] * 3] * 4


def test_a_kernel_that_another_thread_has_compiled_is_not_counted(cache):
    kernel = compiler.compile_text("scale", TEXT.format(factor=9))
    array = numba.typeof(np.zeros(3))
    before = counts()
    for _ in range(2):
        kernel.dispatcher.compile((array, array))
    assert counts() == (before[0] + 1, before[1])


def test_a_type_error_names_kernel_types_and_line():
    kernel = compiler.compile_text("scale", TEXT.format(factor=1.5))
    with pytest.raises(KernelError, match=r"scale: cannot compile for .*unicode_type"):
        kernel("text", np.zeros(3))


FORWARD = """
import sys, jitgrad
from jitgrad.kernels.statistics import statistics
x = jitgrad.ones(3)
for name in sys.argv[1].split():
    getattr(jitgrad, name)(x)
print(statistics.compiled, statistics.loaded)
"""


def test_numbers_of_a_dtype_are_names_of_the_module(cache):
    text = (
        "T = np.float32\ndef scale(x, out):\n    for i in range(x.size):\n"
        "        half = np.int64(4602678819172646912).view(np.float64)\n"
        "        bits = np.int32(1065353216).view(np.float32)\n"
        "        out[i] = T(2.5e-1) * x[i] + T(half) + bits * np.float32(-1.0) + T(2.0 ** (-2))\n"
    )
    named = kernel_text._with_constants(text)
    expected = ["np.int64(4602678819172646912).view(np.float64)", "T(2.5e-1)", "np.float32(-1.0)", "T(2.0 ** (-2))"]
    names, numbers = zip(*(line.split(" = ") for line in named.splitlines()[-4:]), strict=True)
    assert list(numbers) == expected
    # In another text a number has the same name, so that functions of both which are equal are compiled once.
    assert kernel_text._with_constants("y = T(2.5e-1)").splitlines() == [f"y = {names[1]}", f"{names[1]} = T(2.5e-1)"]
    assert "T(half)" in named
    assert "np.int32(1065353216).view(np.float32)" in named
    x, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    compiler.compile_text("scale", text)(x, out)
    assert out.tolist() == (0.25 * x - 0.25).tolist()


def test_a_kernel_on_disk_depends_on_no_other(tmp_path):
    """Kernels share words, but each loads in a process that never made the one beside which it was compiled."""

    def run(names):
        environment = {**os.environ, "JITGRAD_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", FORWARD, names]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return [int(n) for n in done.stdout.split()]

    assert run("exp tanh sigmoid expm1")[0] >= 4
    assert [run(name) for name in ("expm1", "sigmoid", "tanh", "sigmoid expm1")] == [[0, 2], [0, 2], [0, 2], [0, 3]]


STRIDED = """
import jitgrad
x = jitgrad.arange(12.0).reshape(3, 4).requires_grad_()
(x.t() + 2).exp().sum().backward()
assert x.grad.allclose((x + 2).exp())
"""


@pytest.mark.parametrize("variable", ["NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"])
def test_settings_for_a_users_own_loops_leave_kernels_as_they_are(variable):
    """Strided kernels take one-element arrays, beyond which they index."""
    subprocess.run([sys.executable, "-c", STRIDED], env={**os.environ, variable: "1"}, check=True)


def test_arguments_that_no_kernel_can_take(cache):
    """An int beyond 64 bits is an overflow; of other objects the error names the kernel."""
    kernel = compiler.compile_text("fill_with", "def fill_with(out, value):\n    out[0] = value\n")
    for value in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError, match="^int too big to convert$"):
            kernel(np.zeros(1), value)
    with pytest.raises(KernelError, match="fill_with: cannot compile for"):
        kernel(np.zeros(1), Fraction(1, 2))
