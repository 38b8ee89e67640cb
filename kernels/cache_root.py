"""Where what is compiled is kept, found out without importing Numba."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

__all__ = ["cache_root", "nothing_compiled"]


def cache_root() -> Path:
    """The folder of all versions' kernels: ``$JITGRAD_CACHE_DIR``, else the user's cache."""
    try:
        return _user_cache()
    except RuntimeError:  # no home directory
        return _temporary_cache()


def nothing_compiled() -> bool:
    """Whether the folder is not there yet, or empty."""
    try:
        with os.scandir(_user_cache()) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except (OSError, RuntimeError):  # nothing can be kept there; or no home directory, which the first kernel tells of
        return False


def _user_cache() -> Path:
    if os.environ.get("JITGRAD_CACHE_DIR"):
        return Path(os.environ["JITGRAD_CACHE_DIR"])
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "jitgrad" / "cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "jitgrad"


@functools.cache
def _temporary_cache() -> Path:
    """A folder for this process alone, where the user has no home.

    Not one that other processes would find: what lies in the cache is unpickled, and anybody may write to the folder
    of temporary files.
    """
    folder, process = tempfile.mkdtemp(prefix="jitgrad-"), os.getpid()  # readable and writable by this user only

    @atexit.register
    def remove() -> None:
        if os.getpid() == process:  # a forked child uses its parent's folder
            shutil.rmtree(folder, ignore_errors=True)

    warnings.warn(
        f"jitgrad found no home directory and keeps compiled kernels in {folder} until this process ends; every "
        "process will compile them again. Set JITGRAD_CACHE_DIR to a writable folder.",
        stacklevel=3,
    )
    return Path(folder)
