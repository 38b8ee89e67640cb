"""Tensors on the memory of mapped files."""

import numpy as np
import pytest

import jitgrad


@pytest.fixture
def path(tmp_path):
    np.arange(4, dtype=np.float32).tofile(tmp_path / "numbers")
    return str(tmp_path / "numbers")


@pytest.mark.parametrize("shared, kept", [(True, [5, 6, 2, 3]), (False, [0, 1, 2, 3])])
def test_only_shared_memory_reaches_the_file(path, shared, kept):
    x = jitgrad.from_file(path, shared, 2)
    assert x.tolist() == [0, 1]
    x.add_(5)
    assert x.untyped_storage().nbytes() == 8
    assert x.view(2, 1).untyped_storage().filename == (path if shared else None)
    assert jitgrad.UntypedStorage.from_file(path, shared, 8).filename == (path if shared else None)
    assert np.fromfile(path, np.float32).tolist() == kept


def test_a_shared_file_is_made_as_large_as_needed(tmp_path):
    path = str(tmp_path / "new")
    assert jitgrad.from_file(path, True, 3, dtype=jitgrad.int64).tolist() == [0, 0, 0]
    assert (tmp_path / "new").stat().st_size == 24


def test_a_gradient_is_kept(path):
    x = jitgrad.from_file(path, size=4, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("options, words", [
    ({"size": 5}, r"file <.*> size <16> is smaller than the required mapping size <20>"),
    ({"size": -1}, r"unable to mmap -4 bytes from file <.*>: Cannot allocate memory \(12\)"),
    ({"size": 4, "pin_memory": True}, "tensors constructed from a file cannot be pinned"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(path, options, words):
    with pytest.raises(RuntimeError, match=words):
        jitgrad.from_file(path, **options)


@pytest.mark.parametrize("make", [jitgrad.from_file, jitgrad.UntypedStorage.from_file])
def test_a_missing_file_is_named(tmp_path, make):
    with pytest.raises(RuntimeError, match=r"unable to open file <.*none> in read-only mode: No such file .* \(2\)"):
        make(str(tmp_path / "none"), False, 4)


def test_arguments_have_their_types(path):
    with pytest.raises(TypeError, match=r"argument 'filename' \(position 1\) must be str, not int"):
        jitgrad.from_file(3)
    with pytest.raises(TypeError, match=r"argument 'shared' \(position 2\) must be bool, not int"):
        jitgrad.from_file(path, 1)
