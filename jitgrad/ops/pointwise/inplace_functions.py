"""Which in-place methods of the table's ops are functions, too, as in PyTorch: ``jitgrad.exp_(x)``."""

from __future__ import annotations

from jitgrad.dispatch import table
from jitgrad.dispatch.registry import public

__all__: list[str] = []

for _op in (
    table.abs, table.acos, table.acosh, table.asin, table.asinh, table.atan, table.atanh, table.ceil, table.cos,
    table.cosh, table.deg2rad, table.erf, table.erfc, table.exp, table.exp2, table.expm1, table.floor, table.frac,
    table.log, table.log10, table.log1p, table.log2, table.neg, table.rad2deg, table.reciprocal, table.relu,
    table.rsqrt, table.sigmoid, table.sin, table.sinc, table.sinh, table.sqrt, table.tan, table.tanh, table.trunc,
):  # fmt: skip
    _declared = _op.operation.op
    for _name in (_declared.name, *_declared.aliases):
        if _name not in ("absolute", "expit"):  # methods only, as in PyTorch
            public(_op.operation.inplace, f"{_name}_", method_too=False)
