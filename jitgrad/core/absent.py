"""Names of PyTorch's that may be imported, and say what is missing when they are used.

Libraries import parts of PyTorch that a program then doesn't touch, or name their classes in ``isinstance``. Such a
name is a class of its own: nothing is an instance of it, it can be subclassed and stand in annotations, and a call
raises NotImplementedError with the reason.
"""

from __future__ import annotations

import sys
from typing import Any

from jitgrad.core.missing_names import explain_missing_names

__all__ = ["absent", "absent_names"]


class _Absent(type):
    _reason: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(cls._reason)

    def __repr__(cls) -> str:
        return f"<{cls.__module__}.{cls.__qualname__}, which is not in jitgrad>"


def absent(module: str, name: str, reason: str) -> Any:
    """The class that stands for ``module.name``. reason: why it is not here, and what to use instead."""
    peer = module.replace("jitgrad", "torch", 1)
    made = _Absent(name, (), {"__module__": module, "_reason": f"{peer}.{name} is not in jitgrad: {reason}"})
    made.__doc__ = f"Not in jitgrad: {reason}."
    return made


def absent_names(module: str, names: str, reason: str) -> None:
    """Let a module have these names as absent ones; other names that it lacks are attribute errors."""
    home = vars(sys.modules[module])
    home.update({name: absent(module, name, reason) for name in names.split() if name not in home})
    if "__getattr__" not in home:
        explain_missing_names(module)
