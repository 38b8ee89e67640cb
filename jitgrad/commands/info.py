"""What jitgrad runs on here: versions, processor, threads, BLAS, kernel cache, CUDA."""

from __future__ import annotations

import importlib.util
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.cache_files import cache_directory
from jitgrad.kernels.cuda import provider as cuda
from jitgrad.kernels.processor import cpu_features, processor

__all__ = ["cache_size", "report"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _blas() -> str:
    """The BLAS that NumPy was built with: matrix products run on it."""
    try:
        config: Any = np.show_config(mode="dicts")
        found = config["Build Dependencies"]["blas"]
    except (KeyError, TypeError):  # a build of NumPy that does not tell
        return "unknown"
    return f"{found.get('name', 'unknown')} {found.get('version', '')}".strip()


def _features() -> str:
    """Those instruction set extensions of this processor that decide how wide the vectors in kernels are."""
    has = cpu_features()
    telling = ("avx512f", "avx2", "fma", "avx", "sse4.2", "neon", "sve")
    return ", ".join(name for name in telling if name in has) or "none known"


def cache_size(folder: Path) -> tuple[int, int]:
    """How many compiled kernels a folder holds, and how many bytes all its files have."""
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return sum(path.suffix == ".kernel" for path in files), sum(path.stat().st_size for path in files)


def report() -> dict[str, str]:
    """What ``python -m jitgrad info`` prints, as {topic: text}."""
    folder = cache_directory()
    kernels, size = cache_size(folder)
    optional = [name for name in ("scipy", "numba_cuda", "torch", "IPython") if importlib.util.find_spec(name)]
    return {
        "jitgrad": _version("jitgrad"),
        "python": f"{platform.python_version()} ({sys.executable})",
        "numba": f"{_version('numba')} (llvmlite {_version('llvmlite')})",
        "numpy": np.__version__,
        "optional packages": ", ".join(optional) or "none",
        "platform": platform.platform(),
        "cpu": f"{processor()[0]} ({_features()})",
        "threads": f"{threads.get_num_threads()} (own pool over kernels that release the GIL)",
        "blas": f"{_blas()} (NumPy's)",
        "kernel cache": str(folder),
        "cached kernels": f"{kernels} ({size / 2**20:.1f} MiB)",
        "cuda": "available" if cuda.is_available() else "not available",
    }
