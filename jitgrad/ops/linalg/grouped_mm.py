"""Products of groups of rows or columns with a matrix each."""

from __future__ import annotations

from functools import partial

from jitgrad.core.dtypes import bfloat16, dtype, float16, float32, int32
from jitgrad.core.errors import scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import public
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.shape.join import cat, stack

__all__: list[str] = []


def _check(a: Tensor, b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: dtype | None) -> None:
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x.dtype not in (float32, bfloat16, float16):
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {scalar_type(x.dtype)}"
            )
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x._layout.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    flat = [x for x in (a, b) if x._layout.ndim == 2]
    if a._layout.shape[-1] != b._layout.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if (offs is None) == bool(flat):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and offs._layout.ndim != 1:
        raise RuntimeError("offs has to be 1D")
    if offs is not None and offs.dtype is not int32:
        raise RuntimeError("Offsets have to be int32")
    stacks = [x._layout.shape[0] for x in (a, b) if x._layout.ndim == 3]
    if offs is None and stacks[0] != stacks[1]:
        raise RuntimeError("batched dimension has to match")
    if offs is not None and stacks and stacks[0] != offs._layout.shape[0]:
        raise RuntimeError("matrix batch sizes have to match")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not a.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")


def _bounds(offs: Tensor) -> list[tuple[int, int]]:
    """Where each group begins and ends."""
    ends = offs.tolist()
    starts = [0, *ends[:-1]]
    if any(start > end for start, end in zip(starts, ends, strict=True)):
        raise RuntimeError(f"Offsets have to increase, but got {ends}")
    return list(zip(starts, ends, strict=True))


def _filled(found: Tensor, length: int, dim: int) -> Tensor:
    """With zeros where no group is."""
    shape = list(found._layout.shape)
    shape[dim] = length - shape[dim]
    return cat([found, found.new_zeros(shape)], dim) if shape[dim] else found


@partial(public, module="nn.functional")
def grouped_mm(
    mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None,
    out_dtype: dtype | None = None,
) -> Tensor:  # fmt: skip
    """Products of groups: group g ends at ``offs[g]`` (int32, growing) in the dim of matrices that groups share.

    mat_a (M, K), mat_b (G, K, N): rows of mat_a by a matrix each, (M, N). (G, M, K) and (K, N): columns of mat_b,
    (M, N). (M, K) and (K, N): parts of the sum over K, (G, M, N). (G, M, K) and (G, K, N) without ``offs``: ``bmm``.
    What is behind the last group gives zeros. float32, float16, bfloat16; RuntimeError for sizes that do not fit.
    """
    _check(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None:
        return matmul(mat_a, mat_b)
    bounds = _bounds(offs)
    if mat_a._layout.ndim == mat_b._layout.ndim:
        return stack([matmul(mat_a[:, i:j], mat_b[i:j]) for i, j in bounds])
    if mat_a._layout.ndim == 2:
        rows = [matmul(mat_a[i:j], matrix) for (i, j), matrix in zip(bounds, mat_b, strict=True)]
        return _filled(cat(rows), mat_a._layout.shape[0], 0)
    columns = [matmul(matrix, mat_b[:, i:j]) for (i, j), matrix in zip(bounds, mat_a, strict=True)]
    return _filled(cat(columns, 1), mat_b._layout.shape[-1], 1)
