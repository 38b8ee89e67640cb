"""The error for a name that PyTorch has and jitgrad does not.

``torch_names.txt`` lists the public names of PyTorch's modules; ``tests/peer/torch_names.py`` writes it. It is read
when such an error is raised, never on import.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["explain_missing_names", "missing_name"]


@cache
def _torch_names() -> dict[str, frozenset[str]]:
    """{module of PyTorch: its public names}. A module's line is followed by indented lines with its names."""
    names: dict[str, set[str]] = {}
    module = ""
    for line in Path(__file__).with_name("torch_names.txt").read_text(encoding="utf-8").splitlines():
        if line[:1] == " ":
            names[module].update(line.split())
        else:
            module = line
            names[module] = set()
    return {module: frozenset(found) for module, found in names.items()}


def missing_name(module: str, name: str) -> AttributeError:
    """The error for ``name``, which ``module`` does not have; it says so where PyTorch has it."""
    message = f"module {module!r} has no attribute {name!r}"
    peer = f"torch{module.removeprefix('jitgrad')}"
    if name[:1] != "_" and name in _torch_names().get(peer, ()):
        version = vars(sys.modules["jitgrad"]).get("__version__", "")  # not set yet while jitgrad is imported
        own = version.rpartition("jitgrad.")[2]  # where ``compat`` has put PyTorch's version before it
        message += f": {peer}.{name} is not in jitgrad {own.rpartition('.')[0]}".rstrip()
    return AttributeError(message, name=name, obj=sys.modules.get(module))


def explain_missing_names(module: str, submodules: dict[str, str] | None = None) -> None:
    """Give the module of this name a ``__getattr__`` (PEP 562) that raises ``missing_name``.

    submodules: {name: module}, those that are imported when the name is first asked for.

    Set from here, since a module whose text defines ``__getattr__`` has every attribute for a type checker.
    """

    def getattr_(name: str) -> Any:
        if submodules and name in submodules:
            return import_module(submodules[name])
        raise missing_name(module, name)

    vars(sys.modules[module])["__getattr__"] = getattr_
