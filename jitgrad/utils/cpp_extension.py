"""PyTorch's path for extensions in C++ and CUDA, which there are none of: what would build or load one raises.

Programs that can do without go on from the RuntimeError, which is what a failed build raises in PyTorch. Ops of one's
own are pairs of loops in Python here, compiled by Numba: ``jitgrad.kernel_pair``, ``jitgrad.numba_grad``.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "CUDA_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "load",
    "load_inline",
]  # fmt: skip

CUDA_HOME = None


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(
        f"{what}: jitgrad builds and loads no extensions in C++ or CUDA. Write the op as a pair of loops in Python "
        "(jitgrad.kernel_pair) or as a loop whose gradient is derived (jitgrad.numba_grad)."
    )


def load(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: nothing is built."""
    _refuse(f"Error building extension '{name}'")


load_inline = load


def CppExtension(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: nothing is built."""
    _refuse(f"Error building extension '{name}'")


CUDAExtension = CppExtension


class BuildExtension:
    """RuntimeError: nothing is built."""

    def __init__(self, *args: Any, **kwargs: Any):
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> type:
        """The class, whose options nothing reads."""
        return cls


def include_paths(*args: Any, **kwargs: Any) -> list[str]:
    """No folders: there are no headers."""
    return []


library_paths = include_paths


def is_ninja_available() -> bool:
    """False."""
    return False
