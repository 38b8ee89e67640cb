"""The finder that answers for ``torch`` with jitgrad's modules."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import jitgrad
from jitgrad.compat.children import tell_children
from jitgrad.torch_version import TorchVersion

__all__ = ["FOLLOWED", "install", "installed", "uninstall"]

FOLLOWED = "2.13.0"  # the version of PyTorch whose behaviour jitgrad is compared with
_own_version = jitgrad.__version__


def _own_name(name: str) -> str:
    """The module of jitgrad that answers for ``torch.X``; "" for modules that are not PyTorch's."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    if name == "torch" or name.startswith("torch."):
        return f"jitgrad{name.removeprefix('torch')}"
    return {"functorch": "jitgrad.func"}.get(name, "")  # which PyTorch's wheel brings


_ELSEWHERE = {"torch.return_types": "jitgrad.core.return_types"}


class _Metadata(Distribution):
    """The distribution that is found under the name ``torch``."""

    def read_text(self, filename: str) -> str | None:
        """The one file that it has: its name and version."""
        if filename not in ("METADATA", "PKG-INFO"):
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {jitgrad.__version__}\nSummary: jitgrad in its place\n"

    def locate_file(self, path: Any) -> Any:
        """Where a file of it would be."""
        return Path(jitgrad.__file__).parent / path


class _Finder(DistributionFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The specification of a module of PyTorch's that jitgrad has; None for all others.

        Python's own finders, which are asked next, look for the others in jitgrad's folder, and so don't find them.
        """
        own = _own_name(fullname)
        found = importlib.util.find_spec(own) if own else None
        if found is None:
            return None
        package = found.submodule_search_locations is not None
        spec = ModuleSpec(fullname, self, origin=found.origin, is_package=package)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Put jitgrad's module where Python looks for what it has just imported, in the place of the empty one."""
        sys.modules[module.__name__] = importlib.import_module(_own_name(module.__name__))

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """The distribution ``torch``, where it or all are asked for."""
        name = getattr(context, "name", None)
        if name is None or re.sub(r"[-_.]+", "-", name).lower() == "torch":
            yield _Metadata()


_finder = _Finder()


def installed() -> bool:
    """Whether ``import torch`` means jitgrad in this process."""
    return _finder in sys.meta_path


def install(quiet: bool = False) -> None:
    """Make ``import torch``, and the import of every submodule, mean jitgrad in this process.

    One line on stderr says so, the first time; quiet: it does not, nor where ``JITGRAD_QUIET`` is set. ImportError if
    PyTorch itself is imported already.
    """
    if installed():
        return
    present = sys.modules.get("torch")
    if present is not None and present is not jitgrad:
        raise ImportError(
            f"jitgrad.compat.install(): torch is imported already, from {getattr(present, '__file__', 'somewhere')}; "
            "install() has to come before the first import of torch, or of a library that imports it",
            name="torch",
        )
    sys.meta_path.insert(0, _finder)
    _set_version(TorchVersion(f"{FOLLOWED}+jitgrad.{_own_version}"))
    sys.modules["torch"] = jitgrad
    _set_names("torch")
    tell_children(install, installed)
    if not quiet and not os.environ.get("JITGRAD_QUIET"):
        print(f"jitgrad.compat: `import torch` means jitgrad {_own_version} in this process", file=sys.stderr)


def uninstall() -> None:
    """Let ``import torch`` mean PyTorch again, for imports from now on; who has imported a module keeps it."""
    if not installed():
        return
    sys.meta_path.remove(_finder)
    _set_version(_own_version)
    _set_names("jitgrad")
    for name in [n for n in sys.modules if _own_name(n)]:
        if getattr(sys.modules[name], "__name__", "").split(".")[0] == "jitgrad":
            del sys.modules[name]


def _set_names(name: str) -> None:
    """Set the module names by which libraries recognise torch's functions, and choose a backend for tensors."""
    vars(jitgrad)["__name__"] = jitgrad.Tensor.__module__ = name


def _set_version(version: str) -> None:
    jitgrad.__version__ = vars(jitgrad.version)["__version__"] = version
