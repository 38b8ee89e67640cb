"""Names of a package that are imported when they are first asked for (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from jitgrad.core.missing_names import missing_name

__all__ = ["PLACES", "lazy_attributes", "offer", "set_lazy_attributes"]

# {(a module, a name in it): the module that offers it as its own, as PyTorch's of that name does}
PLACES: dict[tuple[str, str], str] = {}


def lazy_attributes(package: str, sources: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package some of whose names are imported on first access.

    sources: {name: the module that has it}; a submodule is its own source. The first access sets the name in the
    package, and Python calls ``__getattr__`` only for names that are not there: later accesses cost what others do.
    """

    # Modules are named by strings: an import statement at the top of the package would run when it is imported, and
    # inside of a function there would have to be one for each name.
    def getattr_(name: str) -> Any:
        source = sources.get(name)
        if source is None:
            raise missing_name(package, name)
        module = import_module(source)
        value = module if source == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def dir_() -> list[str]:
        return sorted({*vars(sys.modules[package]), *sources})

    return getattr_, dir_


def set_lazy_attributes(package: str, sources: dict[str, str]) -> None:
    """Give a package the two functions of ``lazy_attributes``.

    For packages that type checkers read: in one whose own text defines ``__getattr__`` they accept any name. A module
    that is no package offers the names as its own.
    """
    if not hasattr(sys.modules[package], "__path__"):
        PLACES.update({(source, name): package for name, source in sources.items()})
    vars(sys.modules[package]).update(zip(("__getattr__", "__dir__"), lazy_attributes(package, sources), strict=True))


def offer(module: str, *objects: Any) -> None:
    """Note that a module offers classes of other files as its own."""
    PLACES.update({(o.__module__, o.__qualname__): module for o in objects})
