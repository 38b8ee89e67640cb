"""Texts of jitgrad's loops on disk: emitted once, and never taken for those of other sources."""

import subprocess
import sys

import numpy as np
import pytest

from jitgrad.kernels import disk_cache, kept_texts
from jitgrad.kernels.launch import Loop, loop
from jitgrad.kernels.loops import extrema

X = np.array([[1, 5, 2], [7, 3, 0]], np.int32)


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    return lambda: sorted(tmp_path.rglob("*.text"))


@pytest.fixture
def emitted(monkeypatch):
    """The dtypes for which texts were emitted."""
    made, emit = [], Loop.text

    def text(self, dtype):
        made.append(dtype)
        return emit(self, dtype)

    monkeypatch.setattr(Loop, "text", text)
    return made


def largest(declared=extrema.extreme_rows):
    """The loop as a new process has it, on the rows of X."""
    fresh, out = loop(declared.source.function), np.zeros(2, np.int32)
    fresh.call(X, out, True)
    return out.tolist()


def test_a_text_is_emitted_once(texts, emitted):
    assert largest() == largest() == [5, 7]
    assert emitted == ["int32"]
    assert len(texts()) == 1


def test_other_sources_have_other_texts(texts, emitted, monkeypatch):
    largest()
    monkeypatch.setattr(kept_texts, "_sources", lambda: "edited")
    assert largest() == [5, 7]
    assert len(emitted) == len(texts()) == 2


def test_a_damaged_file_is_written_again(texts, emitted):
    largest()
    (file,) = texts()
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"?")
    assert largest() == [5, 7]
    assert file.read_bytes() == whole
    assert len(emitted) == 2


def test_no_folder_to_keep_them_in(tmp_path, monkeypatch, emitted):
    (tmp_path / "file").touch()
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(disk_cache.DiskCache, "warned", False)
    with pytest.warns(UserWarning, match="cannot keep compiled kernels"):
        assert largest() == [5, 7]


def test_loops_of_users_are_emitted_each_time(texts, emitted):
    def doubled(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    for _ in range(2):
        out = np.zeros(3)
        loop(doubled).call(np.arange(3.0), out)
        assert out.tolist() == [0, 2, 4]
    assert len(emitted) == 2
    assert not texts()


# In a process of its own: other tests import some modules again, and hide objects from the collector.
EVERY_LOOP = """
import gc, importlib, pkgutil
from jitgrad.kernels import loops
from jitgrad.kernels.launch import Loop
for module in pkgutil.iter_modules(loops.__path__, "jitgrad.kernels.loops."):
    importlib.import_module(module.name)
for function in {o.source.function for o in gc.get_objects() if type(o) is Loop}:
    print(function.__module__, function.__qualname__, function.__name__)
"""


def test_no_two_loops_share_a_file():
    """Loops that a function makes for several combinations differ by their names."""
    done = subprocess.run([sys.executable, "-c", EVERY_LOOP], capture_output=True, text=True, check=True)
    places = done.stdout.splitlines()
    assert len(places) > 200
    assert sorted(set(places)) == sorted(places)
