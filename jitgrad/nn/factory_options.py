"""Where and as what a module makes its tensors, among the keyword arguments that it was given."""

from __future__ import annotations

from typing import Any

__all__ = ["factory_kwargs"]


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """device, dtype and memory_format in ``kwargs``, and those in the dictionary under its key "factory_kwargs".

    TypeError for other names, and for what both have.
    """
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - names - {"factory_kwargs"}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in names & kwargs.keys():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found
