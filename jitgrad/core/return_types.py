"""The named tuples that ops with several results return (``torch.return_types``), printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

__all__ = ["aminmax", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort", "topk"]


def _result(name: str, *fields: str) -> Any:
    base = namedtuple(name, fields)  # type: ignore[misc]

    def show(self: Any) -> str:
        values = ",\n".join(f"{field}={getattr(self, field)!r}" for field in fields)
        return f"torch.return_types.{name}(\n{values})"

    # A subclass, because namedtuple's own __repr__ names neither the package nor breaks lines.
    doc = f"The {' and the '.join(fields)} that ``jitgrad.{name}`` found."
    return type(name, (base,), {"__slots__": (), "__repr__": show, "__doc__": doc, "__module__": __name__})


max = _result("max", "values", "indices")
min = _result("min", "values", "indices")
median = _result("median", "values", "indices")
nanmedian = _result("nanmedian", "values", "indices")
mode = _result("mode", "values", "indices")
kthvalue = _result("kthvalue", "values", "indices")
sort = _result("sort", "values", "indices")
topk = _result("topk", "values", "indices")
aminmax = _result("aminmax", "min", "max")
