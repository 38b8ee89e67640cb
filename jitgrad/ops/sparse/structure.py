"""Sparse tensors that are new: without values, or like others; matrices of diagonals."""

from __future__ import annotations

from typing import Any

from jitgrad.core.dtypes import int64
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Size
from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import check_history
from jitgrad.dispatch.registry import FUNCTIONS, public
from jitgrad.dispatch.sparse_calls import sparse_form
from jitgrad.ops.creation.constants import as_dtype, finished, zeros
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.shape.join import cat, stack
from jitgrad.ops.sparse.attributes import TITLES, kind_of, title
from jitgrad.ops.sparse.construct import KINDS, empty_sparse, sparse_coo_tensor
from jitgrad.ops.sparse.convert import to_compressed
from jitgrad.ops.sparse.parts import with_values

__all__: list[str] = []


# -- new tensors --------------------------------------------------------------------------------------------------


def _with_layout(name: str) -> None:
    def make(
        size: Any, *, layout: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        out: Any = None,
    ) -> Any:  # fmt: skip
        if out is not None:
            out.become(empty_sparse(size, "sparse_coo", out.dtype))
            out._requires_grad = bool(requires_grad)
            return out
        kind = layout.name
        if kind not in KINDS[:3]:
            raise RuntimeError(
                f"{name}_sparse_compressed expected sparse compressed (non-block) tensor layout but got {TITLES[kind]}"
            )
        made = empty_sparse(size, kind, as_dtype(name, dtype), device)
        return finished(name, made, requires_grad)

    def like(
        input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Any:  # fmt: skip
        own = kind_of(input)
        kind = getattr(layout, "name", None) or own
        chosen = as_dtype(name, dtype) or input.dtype
        if name == "empty" and own in KINDS[1:] and kind != own:
            raise RuntimeError(
                "empty_like with different sparse layout is not supported (self is "
                f"{TITLES[own]} but you requested {TITLES[kind]})"
            )
        if kind == "strided":
            made = FUNCTIONS[name](tuple(input.shape), dtype=chosen, memory_format=memory_format)
            return finished(name, made, requires_grad)
        if memory_format is not None:
            raise RuntimeError("memory format option is only supported by strided tensors")
        if name == "empty" and own == "strided":
            raise SparseOperand("empty_strided", "SparseCPU" if kind == "sparse_coo" else "SparseCsrCPU")
        if name == "empty" and own in KINDS[1:]:
            made = with_values(zeros(tuple(input._stored.shape), dtype=chosen), _with_own_indices(input._pattern))
        elif kind == own:
            made = zeros_at_none(input, chosen)
        else:
            made = empty_sparse(input.shape, kind, chosen, device)
        return finished(name, made, requires_grad)

    sparse_form(name, method=False)(make)
    sparse_form(f"{name}_like", method=False)(like)


for _name in ("zeros", "empty"):
    _with_layout(_name)


def _with_own_indices(pattern: Any) -> Any:
    return pattern.like(indices=tuple([i.detach().clone() for i in pattern.indices]))


def _filled_like(name: str) -> None:
    def like(input: Any, *args: Any, requires_grad: bool = False, **named: Any) -> Any:
        if kind_of(input) not in KINDS[1:]:
            raise SparseOperand("fill_.Scalar" if name in ("full", "ones") else "normal_", "SparseCPU")
        values = FUNCTIONS[f"{name}_like"](input._stored.detach(), *args, **named)
        return finished(name, with_values(values, _with_own_indices(input._pattern)), requires_grad)

    sparse_form(f"{name}_like", method=False)(like)


for _name in ("full", "ones", "rand", "randint", "randn"):
    _filled_like(_name)


# -- writes ---------------------------------------------------------------------------------------------------------


@sparse_form("zero_", op=True)
@sparse_form("zero_")
def zero_(self: Any) -> Tensor:
    """Store nothing any more."""
    check_history(self, grad_state.enabled and self._requires_grad)
    self.become(zeros_at_none(self, self.dtype))
    return self


def zeros_at_none(x: Any, dtype: Any) -> Tensor:
    """A sparse tensor of the layout, shape and blocks of another one that stores nothing."""
    p, index = x._pattern, x._pattern.indices
    if p.kind == "sparse_coo":
        return empty_sparse(x.shape, p.kind, dtype, None, p.sparse_dim)
    d = p.sparse_dim - 2
    none = zeros(tuple(index[0].shape), dtype=index[0].dtype), zeros((*p.shape[:d], 0), dtype=index[1].dtype)
    values = zeros((*p.shape[:d], 0, *x._stored.shape[d + 1 :]), dtype=dtype)
    return with_values(values, p.like(indices=none))


def _new(self: Any, *args: Any, device: Any = None) -> Any:
    """The old ``x.new(indices, values, size)``, or of a size alone: a sparse tensor of this dtype."""
    if device is not None and (wanted := str(device).partition(":")[0]) != "cpu":
        raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {wanted} was passed")
    if len(args) > 1 and isinstance(args[0], Tensor):
        return sparse_coo_tensor(*args, dtype=self.dtype)
    if len(args) == 1 and not isinstance(args[0], (Size, int)):
        raise TypeError(f"new(): argument must be a torch.Size, not {type(args[0]).__name__}")
    size = args[0] if len(args) == 1 and isinstance(args[0], Size) else args or (0,)
    return empty_sparse(tuple(size), "sparse_coo", self.dtype)


SparseTensor.new = _new  # type: ignore[method-assign]


# -- others -----------------------------------------------------------------------------------------------------------


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """The matrix with rows of ``diagonals`` as its diagonals: element j of each in column j, as SciPy has it."""
    diagonals = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    offsets = offsets.unsqueeze(0) if offsets.ndim == 0 else offsets
    if diagonals.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if offsets.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})"
        )
    if offsets.dtype is not int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {offsets.dtype.title}")
    if len(set(offsets.tolist())) < offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Output shape sizes must be non-negative, but got {list(shape)}")
    name = getattr(layout, "name", "sparse_coo")
    if name not in KINDS[:3]:
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {title(diagonals)}"
        )
    m, n = shape
    rows, cols, values = [], [], []
    for k, d in enumerate(offsets.tolist()):
        first, last = max(d, 0), min(m + d, n, diagonals.shape[1])
        col = arange(first, max(last, first))
        rows.append(col - d)
        cols.append(col)
        values.append(diagonals[k].narrow(0, first, max(last - first, 0)) if last > first else diagonals[k, :0])
    if not rows:
        return empty_sparse((m, n), name, diagonals.dtype)
    index = stack((cat(rows), cat(cols)))
    made = sparse_coo_tensor(index, cat(values), (m, n))
    return made if name == "sparse_coo" else to_compressed(made, name)


public(spdiags, module="sparse")
