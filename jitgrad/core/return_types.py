"""The named tuples that ops with several results return (``torch.return_types``), printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

_FIELDS = {
    "aminmax": "min max",
    "cummax": "values indices",
    "cummin": "values indices",
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    "kthvalue": "values indices",
    "linalg_cholesky_ex": "L info",
    "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors",
    "linalg_inv_ex": "inverse info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
    "linalg_lstsq": "solution residuals rank singular_values",
    "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "linalg_qr": "Q R",
    "linalg_slogdet": "sign logabsdet",
    "linalg_solve_ex": "result info",
    "linalg_svd": "U S Vh",
    "lu_unpack": "P L U",
    "max": "values indices",
    "median": "values indices",
    "min": "values indices",
    "mode": "values indices",
    "nanmedian": "values indices",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "sort": "values indices",
    "svd": "U S V",
    "topk": "values indices",
    "triangular_solve": "solution cloned_coefficient",
}
__all__ = list(_FIELDS)


def _result(name: str, fields: list[str]) -> Any:
    def show(self: Any) -> str:
        values = ",\n".join(f"{field}={getattr(self, field)!r}" for field in fields)
        return f"torch.return_types.{name}(\n{values})"

    def new(cls: Any, *values: Any) -> Any:  # of one sequence, as PyTorch's; namedtuple's own way too, for pickles
        return base.__new__(cls, *(values[0] if len(values) == 1 else values))

    base = namedtuple(f"_{name}", fields)
    # A subclass, because namedtuple's own __repr__ names neither the package nor breaks lines.
    doc = f"The {' and the '.join(fields)} that ``jitgrad.{name}`` found."
    body = {"__slots__": (), "__repr__": show, "__doc__": doc, "__module__": __name__, "__new__": new}
    return type(name, (base,), body)


def __getattr__(name: str) -> Any:  # a class when it is first asked for: all of them would take an import 1 ms
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _result(name, _FIELDS[name].split())
    return made
