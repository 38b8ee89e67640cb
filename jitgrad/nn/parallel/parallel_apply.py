"""Modules that would run at the same time, each on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["parallel_apply"]


def parallel_apply(modules: Sequence[Any], inputs: Sequence[Any], kwargs_tup: Any = None, devices: Any = None) -> Any:
    """The results of each of ``modules`` on the arguments of its own, one after the other."""
    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs {len(inputs)}"
        )
    kwargs_tup = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    tuples = [given if isinstance(given, (list, tuple)) else (given,) for given in inputs]
    return [module(*args, **kwargs) for module, args, kwargs in zip(modules, tuples, kwargs_tup, strict=True)]
