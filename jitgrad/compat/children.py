"""Processes that are spawned: they import the program anew, for which ``import torch`` has to mean jitgrad there, too.

``multiprocessing`` sends a process some data before the process imports the program. Among them goes a value that, when
it is read, installs.
"""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from multiprocessing import spawn
from typing import Any

__all__ = ["tell_children"]


class Installation:
    """What is read in a child: ``install(quiet=True)`` is called by ``pickle``."""

    def __init__(self, install: Callable[..., None]):
        self.install = install

    def __reduce__(self) -> Any:
        return self.install, (True,)


def tell_children(install: Callable[..., None], installed: Callable[[], bool]) -> None:
    """Have processes that are spawned from now on install, as long as this one has."""
    given = spawn.get_preparation_data
    if hasattr(given, "tells"):
        return

    @functools.wraps(given)
    def preparation_data(name: str) -> dict[str, Any]:
        data = given(name)
        return {**data, "jitgrad.compat": Installation(install)} if installed() else data

    vars(preparation_data)["tells"] = True
    spawn.get_preparation_data = preparation_data
    # A server of forks would import the program by itself, and PyTorch with it, before anybody has told it anything.
    multiprocessing.set_forkserver_preload([])
