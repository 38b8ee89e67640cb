"""``torch.classes``: classes that C++ libraries register, of which there are none."""

from __future__ import annotations

from typing import Any

__all__ = ["load_library"]


def load_library(path: str) -> None:
    """NotImplementedError: classes in C++ are compiled against PyTorch."""
    raise NotImplementedError(f"torch.classes.load_library: {path} was compiled against PyTorch, which is not here")


class _Space:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            f"Class {self._name}.{name} not registered! Tried to instantiate class '{self._name}.{name}', but it does "
            "not exist! Ensure that it is registered via torch::class_"
        )


def __getattr__(name: str) -> Any:
    if name[:2] == "__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _Space(name)
