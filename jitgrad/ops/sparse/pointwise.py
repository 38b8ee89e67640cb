"""Elementwise ops on sparse tensors: those that keep zeros, sums, differences, quotients.

One that is not linear sees a tensor with its values summed up place by place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.errors import not_implemented_for
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import intern
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.operand_checks import check_history
from jitgrad.dispatch.registry import published
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import sparse as kernels
from jitgrad.ops.creation.type_info import result_type
from jitgrad.ops.indexing.index_select import IndexAdd
from jitgrad.ops.shape.copy import cast, cast_gradient
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.ops.shape.view import reshape
from jitgrad.ops.sparse.attributes import title
from jitgrad.ops.sparse.convert import dense
from jitgrad.ops.sparse.parts import (
    coalesced,
    grid,
    linearly,
    mapped,
    named,
    same_layout,
    settled,
    values_of,
    with_values,
)
from jitgrad.ops.sparse.places import coo_pattern, is_across, keys_of, keys_to_pattern, plain

__all__ = ["add", "in_place"]

# Those that are zero at zero; ``_LINEAR`` of them need no sums first.
_UNARY = (
    "abs", "absolute", "angle", "arcsin", "arcsinh", "arctan", "arctanh", "asin", "asinh", "atan", "atanh", "ceil",
    "deg2rad", "erf", "erfinv", "expm1", "fix", "floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p",
    "nan_to_num", "positive", "rad2deg", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "tan", "tanh", "trunc",
)
_TITLES = {"neg": "Neg", "negative": "Neg", "conj_physical": "ConjPhysical"}  # the linear ones


def in_place(x: Tensor, result: Any) -> Tensor:
    """Let ``x`` have the places, values and history of ``result``: what an op in place ends with."""
    recorded = grad_state.enabled and (x._requires_grad or result._requires_grad)
    check_history(x, recorded)
    if not isinstance(x, SparseTensor):
        return named(x.copy_(dense(result)), _title_of(result), *(() if x._base is None else (x,)))
    if result.dtype.category > x.dtype.category:
        raise RuntimeError(
            f"result type {result.dtype.title} can't be cast to the desired output type {x.dtype.title}"
        )
    result = result if result.dtype is x.dtype else result.to(x.dtype)
    if tuple(result.shape) != tuple(x.shape):
        raise RuntimeError(
            f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    if result._pattern.indices is x._pattern.indices:
        x._pattern = result._pattern
        x._stored.copy_(result._stored)
    else:
        x.become(result)
    if recorded:
        x._edge, x._requires_grad = result._edge, result._requires_grad
    return x


def _title_of(x: Tensor) -> str:
    node = x.grad_fn
    return "CopyBackwards" if node is None else type(node).__name__


def _both_forms(form: Callable[..., Any], linear: bool, *names: str) -> None:
    """Register a form and the one in place."""

    def writing(x: Any, *args: Any, **named: Any) -> Tensor:
        if not linear and isinstance(x, SparseTensor) and x._pattern.kind == "sparse_coo" and not x._pattern.coalesced:
            raise RuntimeError(f"{names[0]}_ requires coalesced input")
        if grad_state.enabled and x._requires_grad and x._edge is None:
            check_history(x, True)
        return in_place(x, form(x, *args, **named))

    sparse_form(*names)(form)
    sparse_form(*[f"{n}_" for n in names])(writing)


def _unary(name: str, linear: bool) -> None:
    def form(x: Any, *args: Any, **options: Any) -> Tensor:
        out = options.pop("out", None)
        function = published(name) or getattr(Tensor, name)
        if linear:
            result = linearly(x, lambda y: mapped(y, function), function, f"{_TITLES[name]}Backward0")
        else:
            result = mapped(coalesced(x), lambda values: function(values, *args, **options))
        if out is not None:
            in_place(out, result)
            return out
        return result

    form.__name__ = form.__qualname__ = name
    form.__doc__ = f"``{name}`` of the stored values."
    _both_forms(form, linear, name)


for _name in _UNARY:
    _unary(_name, False)
for _name in _TITLES:
    _unary(_name, True)


# -- operands ------------------------------------------------------------------------------------------------


def _number(x: Any) -> bool:
    return not isinstance(x, Tensor)


def _promoted(x: Any, y: Any) -> dtypes.dtype:
    return result_type(*[values_of(t) if isinstance(t, SparseTensor) else t for t in (x, y)])


# -- sums ----------------------------------------------------------------------------------------------------


def _scaled(x: Any, alpha: Any) -> Any:
    return x if alpha.__class__ is int and alpha == 1 else x * alpha


def add(x: Any, y: Any, alpha: Any = 1) -> Tensor:
    """x + alpha y: of two sparse tensors one with the places of both, of a dense and a sparse one a dense tensor."""
    if not isinstance(x, SparseTensor):
        return _add_to_dense(x, y, alpha)
    if not isinstance(y, SparseTensor):
        if x._pattern.kind == "sparse_coo":
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        if _number(y):
            raise SparseOperand("add.out", x._layout.backend)
        return _add_to_dense(y, x, alpha)  # as in PyTorch, alpha is the sparse one's in either order
    if x._pattern.kind != "sparse_coo":
        return _sum_of_compressed(x, y, alpha)
    if x.shape != y.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(x.shape)} != {list(y.shape)}"
        )
    if y._pattern.kind != "sparse_coo":
        raise RuntimeError(f"add: expected tensors of one layout, but got {title(x)} and {title(y)}")
    for one, other, factor in ((x, y, alpha), (y, x, 1)):
        if not one._pattern.nnz and x._pattern.sparse_dim != y._pattern.sparse_dim:
            return _scaled(other, factor).to(_promoted(x, y))
    if x._pattern.sparse_dim != y._pattern.sparse_dim:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dims, but {x._pattern.sparse_dim} != "
            f"{y._pattern.sparse_dim}"
        )
    if grad_state.enabled and (x._requires_grad or y._requires_grad):
        return SumOfSparse.apply(x, y, alpha)
    return _merged(x, y, alpha)


def _sum_of_compressed(x: Any, y: Any, alpha: Any) -> Tensor:
    if x.shape != y.shape:
        raise RuntimeError(
            f"torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape "
            f"{list(x.shape)} and tensor `other` with shape {list(y.shape)}"
        )
    if x._pattern.kind != y._pattern.kind:
        for one in (x, y):
            if is_across(one._pattern.kind):
                raise RuntimeError(
                    f"crow_indices expected sparse row compressed tensor layout but got {title(one)}"
                )
        raise RuntimeError(f"add: expected tensors of one layout, but got {title(x)} and {title(y)}")
    return same_layout(add(grid(x), grid(y), alpha), x)


class SumOfSparse(Structured, listed=False):
    """The sum of two sparse tensors; gradients pass with the places that arrive."""

    name, grad_name, jointly_linear, half, sparse = "_add_sparse_both", "AddBackward0", ("x", "y"), True, True

    def forward(x, y, alpha):
        return _merged(x.detach(), y.detach(), alpha)

    def grad_x(g, x_layout):
        return cast_gradient(g, x_layout.dtype)

    def grad_y(g, y_layout, alpha):
        g = _scaled(g, alpha.conjugate() if isinstance(alpha, complex) else alpha)
        return cast_gradient(g, y_layout.dtype)


def _merged(x: Any, y: Any, alpha: Any) -> Tensor:
    """Both go through in one pass, as in PyTorch: the indices come out in the same order, also of uncoalesced ones."""
    dtype = _promoted(x, y)
    if dtype.category == 0:
        raise not_implemented_for("cadd_sparse", dtype)
    left, right = cast(values_of(x), dtype), _scaled(cast(values_of(y), dtype), alpha)
    ours, theirs = x._pattern, y._pattern
    if ours.indices is theirs.indices:
        return with_values(left + right, ours)
    if not (x._stored._layout.contiguous and y._stored._layout.contiguous):  # where PyTorch does not merge either
        index = cat((ours.indices[0], theirs.indices[0]), 1)
        return with_values(cat((left, right)), coo_pattern(index, ours.shape))
    a, b = keys_of(ours)._data, keys_of(theirs)._data
    to_a, to_b, keys = np.empty_like(a), np.empty_like(b), np.empty(len(a) + len(b), np.int64)
    count = np.empty(1, np.int64)
    launch(kernels.merge_places, a, b, to_a, to_b, keys, count)
    n = int(count[0])
    pattern = keys_to_pattern(keys[:n].copy(), ours.shape, ours.sparse_dim, ours.coalesced and theirs.coalesced)
    zeros = zeros_of(intern(dtype.numpy, (n, *left._layout.shape[1:])))
    sum_ = IndexAdd.apply(zeros, 0, plain(to_a), left) if len(a) else zeros
    return with_values(IndexAdd.apply(sum_, 0, plain(to_b), right) if len(b) else sum_, pattern)


def _add_to_dense(x: Any, y: Any, alpha: Any) -> Tensor:
    if _number(x):
        return add(y, x, alpha)
    _check_same(x, y)
    if y._requires_grad and grad_state.enabled:
        return DensePlusSparse.apply(x, y, alpha)
    return named(_rows_added(cast(x, _promoted(x, y)), y, alpha, IndexAdd.apply), "AddBackward0", x)


def _check_same(x: Tensor, y: Any) -> None:
    if x.shape != y.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(x.shape)} while other has "
            f"size {list(y.shape)} (FYI: {'dense' if y._pattern.kind == 'sparse_coo' else 'op2'}-sparse addition does "
            "not currently support broadcasting)"
        )


class DensePlusSparse(Structured, listed=False):
    """The sum of a dense and a sparse tensor, of which both have dense gradients."""

    name, grad_name, jointly_linear, half, sparse = "_add_sparse", "AddBackward0", ("x", "y"), True, True

    def forward(x, y, alpha):
        return _rows_added(cast(x.detach(), _promoted(x, y)), y.detach(), alpha, IndexAdd.apply)

    def grad_x(g, x_layout):
        return cast_gradient(g, x_layout.dtype)

    def grad_y(g, y_layout, alpha):
        g = _scaled(g, alpha.conjugate() if isinstance(alpha, complex) else alpha)
        return cast_gradient(g, y_layout.dtype)


def _rows_added(x: Tensor, y: Any, alpha: Any, write: Any) -> Tensor:
    if y._pattern.block:
        return x + _scaled(cast(dense(y), x.dtype), alpha)
    y = settled(grid(y))
    pattern = y._pattern
    values = cast(values_of(y), x.dtype)
    if not pattern.nnz or not x.numel():
        return x.clone() if write is IndexAdd.apply else x
    rows = reshape(x, (-1, *pattern.shape[pattern.sparse_dim :]))
    return reshape(write(rows, 0, keys_of(pattern), _scaled(values, alpha)), x._layout.shape)


def _add_into(x: Any, y: Any, alpha: Any = 1) -> Tensor:
    """x += alpha y."""
    check_history(x, grad_state.enabled and (x._requires_grad or getattr(y, "_requires_grad", False)))
    if isinstance(x, SparseTensor) or not x._layout.contiguous or (grad_state.enabled and (
            x._requires_grad or y._requires_grad)):  # fmt: skip
        return in_place(x, add(x, y, alpha))
    _check_same(x, y)
    if y.dtype.category > x.dtype.category:
        raise RuntimeError(
            f"result type {y.dtype.title} can't be cast to the desired output type {x.dtype.title}"
        )
    _rows_added(x, y, alpha, IndexAdd.inplace)
    return x


def _sub(x: Any, y: Any, alpha: Any = 1) -> Tensor:
    return named(add(x, y, -alpha), "SubBackward0")


sparse_form("add", "add_scaled", op=True)(add)
sparse_form("add_", "add_scaled_", op=True)(_add_into)
sparse_form("sub", "sub_scaled", op=True)(_sub)
sparse_form("sub_", "sub_scaled_", op=True)(lambda x, y, alpha=1: _add_into(x, y, -alpha))


# -- quotients, powers ---------------------------------------------------------------------------------------


def _divided(op: str) -> Callable[..., Tensor]:
    def form(x: Any, y: Any) -> Tensor:
        if isinstance(y, SparseTensor) or (isinstance(y, Tensor) and y.ndim):
            raise RuntimeError(
                f"Sparse {'floor ' * (op == 'div_floor')}division requires a scalar or zero-dim dense tensor divisor "
                f"(got shape {list(y.shape)} for divisor)"
            )
        function = getattr(table, op)
        return mapped(settled(x) if op.startswith("div_un") or op == "div" else coalesced(x), lambda v: function(v, y))

    form.__name__ = op
    form.__doc__ = "Quotients of the stored values."
    return form


def _power(x: Any, exponent: Any) -> Tensor:
    if isinstance(exponent, Tensor) or not isinstance(x, SparseTensor):
        raise SparseOperand("pow.Tensor_Tensor")
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    return mapped(coalesced(x), lambda values: values**exponent)


for _form, _names in (
    (_power, ("pow_number", "pow")),
    *((_divided(op), (op,)) for op in ("div", "div_unrounded", "div_floor", "div_trunc")),
):  # fmt: skip
    sparse_form(*_names, op=True)(_form)
    sparse_form(*[f"{n}_" for n in _names], op=True)(
        lambda x, *args, _form=_form: in_place(x, _form(x, *args))
    )


@sparse_form("conj")
def conj(input: Any) -> Tensor:
    """Complex conjugates; of real numbers the tensor itself."""
    return mapped(settled(input), lambda values: values.conj().resolve_conj()) if input.dtype.is_complex else input


SparseTensor.real = property(  # type: ignore[method-assign, assignment]
    lambda self: mapped(settled(self), lambda values: values.real.clone()) if self.dtype.is_complex else self
)
SparseTensor.imag = property(  # type: ignore[method-assign, assignment]
    lambda self: mapped(settled(self), lambda values: values.imag.clone())
)
