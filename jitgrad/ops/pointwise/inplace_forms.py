"""In-place methods of ops that have no kernel of that form: computed anew, then written over.

The node of the result becomes the history of the tensor written to: what it saved of the old values
is a copy. Comparisons in place are constant: no gradient passes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.core.dtypes import complex128, float64
from jitgrad.core.errors import cpp_type, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.node import edge_of, node_of
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.transform_guards import check_capture, scopes
from jitgrad.dispatch import table
from jitgrad.dispatch.checks import check_inplace_target, check_result_cast
from jitgrad.dispatch.copying import copy_into, strided_copy
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import method, public
from jitgrad.ops.creation.constants import zeros, zeros_like

__all__: list[str] = []


def _as_it_was(target: Tensor) -> Tensor:
    """A copy of the values that a write is about to replace, with their history."""
    copy = strided_copy(target)
    copy._edge, copy._requires_grad = edge_of(target), target._requires_grad
    return copy


def _overwritten(self: Tensor, function: Callable[..., Tensor], args: Any, kwargs: dict[str, Any]) -> Tensor:
    if scopes:
        check_capture(self, function.__name__)
    if grad_state.levels:
        return self.copy_(function(self.clone(), *args, **kwargs))  # what is saved must not be written over
    tensors = [a for a in (self, *args) if isinstance(a, Tensor)]
    recorded = grad_state.enabled and any(t._requires_grad for t in tensors)
    check_inplace_target(self, recorded)
    source = _as_it_was(self) if recorded else self
    result = function(source, *args, **kwargs)
    check_result_cast(result.dtype, self.dtype)
    if result._layout.shape != self._layout.shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(self.shape)} and output tensor size {list(result.shape)} "
            "should match"
        )
    if result is source:
        return self
    edge = result._edge
    if edge is not None and node_of(edge).edges[:1] != (source._edge,):
        return self.copy_(result)  # by several nodes
    copy_into(self._data, self._layout, result)
    count_write(self)
    if edge is not None:
        self._rebase(edge)
    return self


def _publish(name: str, check: Callable[..., None] | None = None, publish: Any = method) -> None:
    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if check is not None:
            check(self, *args, **kwargs)
        return _overwritten(self, getattr(Tensor, name), args, kwargs)

    in_place.__name__ = in_place.__qualname__ = f"{name}_"
    in_place.__doc__ = f"In-place version of ``{name}``."
    publish(in_place)


def _check_double(self: Tensor, exponent: Any) -> None:
    other = exponent._layout.dtype.is_complex if isinstance(exponent, Tensor) else isinstance(exponent, complex)
    wide = complex128 if self._layout.dtype.is_complex or other else float64
    if self._layout.dtype is not wide:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {scalar_type(self.dtype)} but the operation's result requires "
            f"dtype {scalar_type(wide)}"
        )


def _check_scan(self: Tensor, dim: int, *, dtype: Any = None) -> None:
    if dtype is not None and dtype is not self.dtype:
        mine, theirs = (cpp_type(d) for d in (self.dtype, dtype))
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {mine} and output tensor dtype {theirs} should match"
        )


_publish("cumsum", _check_scan)
_publish("cumprod", _check_scan)
_publish("float_power", _check_double)
for _name in ("addmm", "baddbmm", "polygamma"):
    _publish(_name)
for _name in ("addmv", "conj_physical"):
    _publish(_name, publish=public)


# -- comparisons --------------------------------------------------------------------------------------


def _declare_comparison(compare: table.Function) -> None:
    name = compare.__name__
    plain = compare.operation.inplace

    def write(x: Tensor, y: Tensor) -> None:
        copy_into(x._data, x._layout, compare(wrap(x._data, x._layout), y.detach()).expand(x._layout.shape))

    def write_number(x: Tensor, y: Any) -> None:
        copy_into(x._data, x._layout, compare(wrap(x._data, x._layout), y))

    def grad(g: Tensor) -> Tensor:
        return zeros_like(g)

    def grad_y(y_layout: Any) -> Tensor:
        return zeros(y_layout.shape, dtype=y_layout.dtype)

    common = {"grad_x": grad}
    doc, title = f"In-place version of ``{name}``: a constant to gradients.", name.capitalize()
    tensors: Any = type(title, (InplaceOp,), {
        **common, "__doc__": doc, "name": f"{name}_tensor", "grad_name": f"{title}Backward1", "write": write,
        "grad_y": grad_y, "samples": cases(lambda: (draw(2, 3), draw(3, seed=1))),
    })  # fmt: skip
    numbers: Any = type(title, (InplaceOp,), {
        **common, "__doc__": doc, "name": f"{name}_number", "grad_name": f"{title}Backward0", "write": write_number,
        "samples": cases(lambda: (draw(2, 3), 0.5)),
    })  # fmt: skip

    def in_place(self: Tensor, other: Any) -> Tensor:
        two = isinstance(other, Tensor)
        if not (grad_state.enabled and (self._requires_grad or (two and other._requires_grad))):
            return plain(self, other)
        return (tensors if two else numbers).inplace(self, other)

    in_place.__name__ = in_place.__qualname__ = f"{name}_"
    in_place.__doc__ = plain.__doc__
    method(in_place)


for _compare in (table.eq, table.ne, table.lt, table.le, table.gt, table.ge):
    _declare_comparison(_compare)
Tensor.not_equal_, Tensor.less_, Tensor.less_equal_ = Tensor.ne_, Tensor.lt_, Tensor.le_  # type: ignore[attr-defined]
Tensor.greater_, Tensor.greater_equal_ = Tensor.gt_, Tensor.ge_  # type: ignore[attr-defined]

# The in-place methods of the table's ops that PyTorch also has as functions.
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
