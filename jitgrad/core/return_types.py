"""The named tuples that ops with several results return (``torch.return_types``), printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

__all__ = [
    "aminmax", "cummax", "cummin", "histogram", "histogramdd", "kthvalue", "max", "median", "min", "mode", "nanmedian",
    "sort", "topk",
]  # fmt: skip


_values = namedtuple("_values", ("values", "indices"))
_bounds = namedtuple("_bounds", ("min", "max"))
_histogram = namedtuple("_histogram", ("hist", "bin_edges"))


def _result(name: str, base: Any = _values) -> Any:
    fields = base._fields

    def show(self: Any) -> str:
        values = ",\n".join(f"{field}={getattr(self, field)!r}" for field in fields)
        return f"torch.return_types.{name}(\n{values})"

    # A subclass, because namedtuple's own __repr__ names neither the package nor breaks lines.
    doc = f"The {' and the '.join(fields)} that ``jitgrad.{name}`` found."
    return type(name, (base,), {"__slots__": (), "__repr__": show, "__doc__": doc, "__module__": __name__})


max = _result("max")
min = _result("min")
median = _result("median")
nanmedian = _result("nanmedian")
mode = _result("mode")
cummax = _result("cummax")
cummin = _result("cummin")
kthvalue = _result("kthvalue")
sort = _result("sort")
topk = _result("topk")
aminmax = _result("aminmax", _bounds)
histogram = _result("histogram", _histogram)
histogramdd = _result("histogramdd", _histogram)
