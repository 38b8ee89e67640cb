"""The named tuples that ops with several results return (``torch.return_types``), printed as PyTorch prints them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

__all__ = [
    "aminmax", "geqrf", "kthvalue", "linalg_cholesky_ex", "linalg_eig", "linalg_eigh", "linalg_inv_ex",
    "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_lstsq", "linalg_lu", "linalg_lu_factor", "linalg_lu_factor_ex",
    "linalg_qr", "linalg_slogdet", "linalg_solve_ex", "linalg_svd", "lu_unpack", "max", "median", "min", "mode",
    "nanmedian", "qr", "slogdet", "sort", "svd", "topk", "triangular_solve",
]  # fmt: skip


_values = namedtuple("_values", ("values", "indices"))
_bounds = namedtuple("_bounds", ("min", "max"))


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
kthvalue = _result("kthvalue")
sort = _result("sort")
topk = _result("topk")
aminmax = _result("aminmax", _bounds)


def _factors(name: str, fields: str) -> Any:
    return _result(name, namedtuple(f"_{name}", fields))


geqrf = _factors("geqrf", "a tau")
linalg_cholesky_ex = _factors("linalg_cholesky_ex", "L info")
linalg_eig = _factors("linalg_eig", "eigenvalues eigenvectors")
linalg_eigh = _factors("linalg_eigh", "eigenvalues eigenvectors")
linalg_inv_ex = _factors("linalg_inv_ex", "inverse info")
linalg_ldl_factor = _factors("linalg_ldl_factor", "LD pivots")
linalg_ldl_factor_ex = _factors("linalg_ldl_factor_ex", "LD pivots info")
linalg_lstsq = _factors("linalg_lstsq", "solution residuals rank singular_values")
linalg_lu = _factors("linalg_lu", "P L U")
linalg_lu_factor = _factors("linalg_lu_factor", "LU pivots")
linalg_lu_factor_ex = _factors("linalg_lu_factor_ex", "LU pivots info")
linalg_qr = _factors("linalg_qr", "Q R")
linalg_slogdet = _factors("linalg_slogdet", "sign logabsdet")
linalg_solve_ex = _factors("linalg_solve_ex", "result info")
linalg_svd = _factors("linalg_svd", "U S Vh")
lu_unpack = _factors("lu_unpack", "P L U")
qr = _factors("qr", "Q R")
slogdet = _factors("slogdet", "sign logabsdet")
svd = _factors("svd", "U S V")
triangular_solve = _factors("triangular_solve", "solution cloned_coefficient")
