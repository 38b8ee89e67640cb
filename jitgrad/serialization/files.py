"""Files that checkpoints are read from and written to: questions about them, and paths that are replaced at once."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = [
    "check_dill", "check_module_version_greater_or_equal", "check_seekable", "fill", "is_zip", "naming", "replacing",
]  # fmt: skip

_PART = 1 << 30  # bytes that are asked for at once: some systems read no more than 2 GiB


@contextlib.contextmanager
def replacing(path: str | bytes) -> Iterator[Any]:
    """A new file that takes the place of ``path`` once all is written; after an error nothing has changed.

    What is no regular file (a device, a pipe) is written to, as it can't be replaced. A link stays a link.
    """
    target = os.path.realpath(os.fsdecode(path))
    try:
        mode: int | None = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(os.fsdecode(path))} does not exist.")
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            yield file
        return
    new = f"{target}.{secrets.token_hex(6)}.tmp"
    try:
        with open(new, "xb") as file:
            yield file
        if mode is not None:
            os.chmod(new, stat.S_IMODE(mode))
        os.replace(new, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Note the file on an error: PyTorch's words, which are its text, leave open which of many files is damaged."""
    try:
        yield
    except Exception as error:
        if path not in str(error):
            error.add_note(f"while {path} was read")
        raise


def is_zip(file: Any) -> bool:
    """Whether what comes next in the file is a zip file: it begins with a record."""
    start = file.tell()
    begin = file.read(4)
    file.seek(start)
    return begin == b"PK\3\4"


def check_seekable(file: Any) -> None:
    """The error of a file that can't be sought, with the remedy."""
    try:
        file.seek(file.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        if "seek" in str(error) or "tell" in str(error):
            raise type(error)(
                f"{error}. You can only torch.load from a file that is seekable. Please pre-load the data into a "
                "buffer like io.BytesIO and try to load from it instead."
            ) from None
        raise


def check_module_version_greater_or_equal(module: Any, req_version_tuple: tuple[Any, ...],
                                          error_if_malformed: bool = True) -> bool:  # fmt: skip
    """Whether a module's ``__version__`` is at least this; RuntimeError, or a warning, if it can't be compared."""
    try:
        parts = module.__version__.split(".")
        return tuple(type(wanted)(parts[k]) for k, wanted in enumerate(req_version_tuple)) >= req_version_tuple
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared "
            f"with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(f"{message}, but continuing assuming that requirement is met", UserWarning, stacklevel=2)
        return True


def check_dill(pickle_module: Any) -> None:
    """ValueError for a version of dill in whose pickles storages can't be kept outside."""
    if pickle_module is not None and pickle_module.__name__ == "dill":
        if not check_module_version_greater_or_equal(pickle_module, (0, 3, 1), False):
            raise ValueError(
                f"'torch' supports dill >= 0.3.1, but you have dill {pickle_module.__version__}. Please upgrade dill "
                "or switch to 'pickle'"
            )


def fill(file: Any, target: memoryview) -> int:
    """Read as many bytes as fit, by ``readinto`` where the file has it; how many are missing, as it has ended."""
    done, read_into = 0, getattr(file, "readinto", None)
    while done < len(target):
        if read_into is not None:
            count = read_into(target[done : done + _PART]) or 0
        else:
            part = file.read(min(len(target) - done, _PART))
            count = len(part)
            target[done : done + count] = part
        if not count:
            break
        done += count
    return len(target) - done
