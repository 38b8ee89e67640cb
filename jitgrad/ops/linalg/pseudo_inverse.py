"""Pseudo-inverses of matrices, and the tolerances below which singular values count as zero."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from jitgrad.core.errors import scalar_type
from jitgrad.core.layout import Layout, broadcast_shapes
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, float_argument
from jitgrad.kernels.launch import launch
from jitgrad.kernels.loops import spectral as kernels
from jitgrad.ops.linalg.batched_matrices import BatchedMatrices, check_square, row_major
from jitgrad.ops.linalg.eigen import LinalgEigh
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.svd import LinalgSvd
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.expand import Expand

__all__ = ["LinalgPinv", "check_tolerances", "threshold"]


def tolerances(values: Layout, sizes: tuple[int, int], absolute: Any, relative: Any) -> tuple[Any, Any]:
    """(absolute, relative): below what singular values of matrices of these sizes count as zero, and so relatively.

    Without a relative tolerance that is the dtype's rounding times the longer side, or 0 if an absolute one above 0 is
    given. Tolerances are numbers or tensors, which get a dim more, with one element for each matrix.
    """
    if relative is None:
        relative = float(np.finfo(values.numpy_dtype).eps) * max(sizes)
        if isinstance(absolute, Tensor):
            relative = table.where(absolute > 0, 0.0, relative)
        elif absolute is not None and absolute > 0:
            relative = 0.0
    bounds = [t.unsqueeze(-1) if isinstance(t, Tensor) else float(t or 0) for t in (absolute, relative)]
    return bounds[0], bounds[1]


def _array(bound: Any, values: Tensor) -> Any:
    """A tolerance as a kernel takes it, in the dtype of the values."""
    return cast(unrecorded(bound), values.dtype)._data if isinstance(bound, Tensor) else bound


def check_tolerances(op: str, **given: Any) -> None:
    """Tolerances, given by the names that errors show, are real numbers or tensors.

    TypeError for what is neither; RuntimeError for complex tensors.
    """
    for name, value in given.items():
        if value is not None and not isinstance(value, Tensor):
            float_argument(op.rpartition(".")[2], name, None, value)
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(
                f"{op}: {name} tensor of complex type is not supported. Got {scalar_type(value.dtype)}"
            )


def threshold(largest: Tensor, sizes: tuple[int, int], absolute: Any, relative: Any) -> Tensor:
    """max(absolute, relative * largest): what counts as zero among the singular values of matrices of these sizes."""
    absolute, relative = tolerances(largest._layout, sizes, absolute, relative)
    bound: Tensor = largest * relative
    if isinstance(absolute, Tensor):
        return bound.maximum(absolute.to(bound.dtype) if absolute.dtype is not bound.dtype else absolute)
    return bound if not absolute else bound.clamp(min=float(absolute))


class LinalgPinv(BatchedMatrices):
    """V diag(1 / S) U^H with the singular values S that are above the threshold, and 0 for the others."""

    name, grad_name = "_linalg_pinv", "LinalgPinvBackward0"
    cores = {"absolute": 0, "relative": 0}
    samples = cases(lambda: (draw(3, 3),), lambda: (draw(2, 4, 3),), lambda: (draw(4, 2).t(),))
    reference = lambda x, *_: np.linalg.pinv(x)

    def forward(x, absolute=None, relative=None, hermitian=False):
        x = unrecorded(x)
        *batch, m, n = x._layout.shape
        if not x._layout.numel:
            return x.new_empty((*batch, n, m))
        if hermitian:
            values, u = LinalgEigh.forward(x, True, True)
            vh = u.mH
        else:
            u, values, vh = LinalgSvd.forward(x, False, True)
        bounds = [_array(t, values) for t in tolerances(values._layout, (m, n), absolute, relative)]
        out = row_major(x._layout.numpy_dtype, tuple(batch), n, m)
        data = empty_for(out)
        launch(kernels.pseudo_inverse, u._data, values._data, vh._data, *bounds, data)
        return wrap(data, out)

    def grad_x(g, out, x):
        # PyTorch's formula: the products are of the smaller of the two sizes.
        m, n = x._layout.shape[-2:]
        pinv, pinvh, gh = out, out.mH, g.mH
        if m <= n:
            k = matmul(gh, pinv)
            kp = matmul(k, pinvh)
            rest = matmul(matmul(pinvh, pinv), gh - matmul(k, x))
            return kp - matmul(pinv, k).mH - matmul(matmul(x, pinv), kp) + rest
        k = matmul(pinv, gh)
        pk = matmul(pinvh, k)
        rest = matmul(matmul(gh - matmul(x, k), pinv), pinvh)
        return rest - matmul(k, pinv).mH + pk - matmul(matmul(pk, pinv), x)


def _check(x: Layout, hermitian: bool) -> None:
    if x.ndim < 2 or x.numpy_dtype.char not in "fdFD":
        raise RuntimeError(
            f"linalg.pinv({scalar_type(x.dtype)}{{{list(x.shape)}}}): expected a tensor with 2 or more dimensions of "
            "float, double, cfloat or cdouble types"
        )
    if hermitian:
        check_square("linalg.eigh", x)


@partial(public, module="linalg")
@takes_out
def linalg_pinv(
    input: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudo-inverses (*, n, m) of matrices (*, m, n), by their singular values, or eigenvalues if ``hermitian``.

    Values up to max(atol, rtol * the largest) count as zero; ``rtol``, ``rcond`` by its elder name, is the dtype's
    rounding times the longer side by default, 0 if ``atol`` is given; tensors of them broadcast to *. LinAlgError where
    LAPACK finds no values.
    """
    _check(input._layout, as_flag(hermitian))
    check_tolerances("torch.linalg.pinv", rcond=rcond, atol=atol, rtol=rtol)
    relative = rtol if rcond is None else rcond
    *batch, m, n = input._layout.shape
    wanted = broadcast_shapes(batch, *(t._layout.shape for t in (atol, relative) if isinstance(t, Tensor)))
    if wanted != tuple(batch):  # several tolerances for a matrix are several matrices
        input = Expand.apply(input, (*wanted, m, n))
    return LinalgPinv.apply(input, atol, relative, as_flag(hermitian))


@public
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """``linalg.pinv`` with a relative tolerance of 1e-15."""
    return linalg_pinv(input, rcond)
