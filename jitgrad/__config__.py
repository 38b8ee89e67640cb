"""``torch.__config__``: what jitgrad runs on, as text (``python -m jitgrad info`` says more)."""

from __future__ import annotations

import sys
from importlib.metadata import version

import numpy as np

from jitgrad.kernels.threads import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Versions, a line each."""
    versions = {"Python": sys.version.split()[0], "NumPy": np.__version__, "Numba": version("numba")}
    return "jitgrad runs on:\n" + "".join(f"  - {name} {version}\n" for name, version in versions.items())


def parallel_info() -> str:
    """How many threads kernels use."""
    return f"threads of kernels: {get_num_threads()}\n"
