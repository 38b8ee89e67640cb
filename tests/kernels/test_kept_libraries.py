"""Functions of compiled words are kept on disk, and compiled again where a file is damaged."""

import ctypes

import pytest

from jitgrad.kernels import machine_words, native_entry, native_library
from jitgrad.kernels.machine_words import compiled_words


def doubled(word):
    return 2 * word + 1


def value(name):
    address = compiled_words(name, [doubled])["doubled"]
    return ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_ssize_t)(address)(20)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_kept_and_found_again(folder, monkeypatch):
    assert value("tried") == 41
    (file,) = folder.rglob("*.library")
    before = file.read_bytes()
    assert value("tried") == 41
    assert file.read_bytes() == before
    monkeypatch.setattr(native_library, "write_checked", lambda path, payload: pytest.fail("compiled again"))
    assert value("tried") == 41


def test_what_another_process_compiles_meanwhile_is_waited_for(folder, monkeypatch):
    assert value("once") == 41
    (file,) = folder.rglob("*.library")
    whole, lock = file.read_bytes(), native_library.CacheLock
    file.unlink()

    def waited(path):  # until the other process has written the file
        path.write_bytes(whole)
        return lock(path)

    monkeypatch.setattr(native_library, "CacheLock", waited)
    monkeypatch.setattr(native_library, "write_checked", lambda path, payload: pytest.fail("compiled again"))
    assert value("once") == 41


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b"\0" * len(b), lambda b: b[:40] + b"x" + b[41:]])
def test_damaged_files_are_replaced(folder, damage):
    assert value("broken") == 41
    (file,) = folder.rglob("*.library")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert value("broken") == 41
    assert file.read_bytes()[:32] == whole[:32] or len(file.read_bytes()) >= len(whole) - 64


def test_a_folder_that_can_not_be_written(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(blocked))
    assert value("homeless") == 41


NUMBER = 3


def numbered(word):
    return NUMBER * word


def test_found_by_code_and_by_numbers_that_it_names(folder, monkeypatch):
    def found(function):
        address = compiled_words("one", [function])[function.__name__]
        return ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_ssize_t)(address)(20)

    assert (found(doubled), found(numbered)) == (41, 60)
    monkeypatch.setitem(globals(), "NUMBER", 4)
    assert found(numbered) == 80


def test_what_is_on_disk_is_not_translated(folder, monkeypatch):
    assert value("kept") == 41
    monkeypatch.setattr(machine_words, "_Function", lambda *given: pytest.fail("translated again"))
    assert value("kept") == 41


def test_entries_on_disk_are_not_built(folder, monkeypatch):
    # Building one takes a millisecond in the first call of a compiled step.
    kinds = "word", "double", "i8"
    assert native_entry._entry.__wrapped__(kinds)
    monkeypatch.setattr(native_entry.ir, "IRBuilder", lambda block: pytest.fail("built again"))
    assert native_entry._entry.__wrapped__(kinds)
