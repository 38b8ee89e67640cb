"""Determinants, and the logarithms of their absolute values, by the LU of a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core import return_types
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.op_samples import cases, draw, draw_complex
from jitgrad.dispatch.out_argument import takes_out
from jitgrad.dispatch.planned import Launches, Read, Written, planned
from jitgrad.dispatch.registry import public
from jitgrad.kernels.loops import factorisations as kernels
from jitgrad.ops.creation.constants import zeros_like
from jitgrad.ops.linalg.batched_matrices import (
    BatchedMatrices,
    adjoint,
    check_floating,
    check_numbers,
    check_square,
    row_major,
)  # fmt: skip
from jitgrad.ops.linalg.inverse import LinalgInvEx
from jitgrad.ops.linalg.lu import LinalgLuFactorEx, LuUnpack, Permutation, factored
from jitgrad.ops.linalg.matmul import matmul
from jitgrad.ops.linalg.matrix_products import conj
from jitgrad.ops.shape.expand import Unsqueeze

__all__: list[str] = []


def _of_determinants(x: Layout, kernel: Any, dtypes: Sequence[Any]) -> Launches:
    """Plan numbers of these dtypes by a kernel of LU and pivots; then come these two."""
    count, n, first = math.prod(x.shape[:-2]), x.shape[-1], len(dtypes)
    factor, (lu, pivots, info) = factored(x, (first, first + 1, first + 2))
    numbers = [row_major(d, x.shape[:-2]) for d in dtypes]
    parts = Written(first, "columns"), Written(first + 1, (count, n))  # of LU the diagonal is read
    launch = (kernel, *parts, *[Written(k, (count,)) for k in range(first)])
    return Launches([factor, launch], [*numbers, lu, pivots, info], first + 2)


@planned("LU", "pivots", "factor")
def _scaled_inverse(LU, pivots, factor):
    """``factor`` times the adjoint of the inverse of what LU is of."""
    out = row_major(LU.numpy_dtype, LU.shape[:-2], *LU.shape[-2:])
    return Launches([(kernels.scaled_inverse, *map(Read, ("LU", "pivots", "factor")), Written(0))], [out])


@planned("LU", "pivots", "det", "factor")
def _scaled_adjugate(LU, pivots, det, factor):
    """``factor`` times the adjoint of the adjugate of what LU is of."""
    out = row_major(LU.numpy_dtype, LU.shape[:-2], *LU.shape[-2:])
    return Launches([(kernels.scaled_adjugate, *map(Read, ("LU", "pivots", "det", "factor")), Written(0))], [out])


def _of_each(x: Tensor) -> Tensor:
    """Numbers as matrices of one element."""
    return Unsqueeze.apply(Unsqueeze.apply(x, -1), -1)


def _away_from_singular(x: Tensor, lu: Tensor, pivots: Tensor) -> list[Tensor]:
    """``x`` plus and minus a constant by which no element on the diagonal of U is zero, or next to that."""
    diagonal = lu.diagonal(0, -2, -1).abs()
    eps = float(np.finfo(lu._layout.numpy_dtype).eps)
    largest = diagonal.amax(-1, True)
    largest = table.where(largest == 0, 1.0, largest)
    shift = table.where(diagonal <= largest * (eps * x.shape[-1]), largest * math.sqrt(eps), 0.0)
    lower = LuUnpack.apply(lu)[0]
    moved = matmul(Permutation.apply(lu, pivots), lower * Unsqueeze.apply(shift, -2))
    return [x + moved, x - moved]


class LinalgDet(BatchedMatrices):
    """(determinant, LU, pivots).

    The gradient is the adjoint of the adjugate, which is conj(det) A^-H where A has an inverse. Where it has none,
    zeros on the diagonal of U are taken for something small: the adjugate is a polynomial, so this makes little
    difference, and less where what was added is subtracted as well, as for gradients of gradients, which need more.
    (PyTorch has the adjugate only where gradients are recorded, otherwise zeros.)
    """

    multiple_results, results, constants = True, ("det", "LU", "pivots"), ("LU",)
    samples = cases(lambda: (draw(3, 3),), lambda: (draw_complex(2, 2, 2),))

    def reference(x):
        return np.linalg.det(x), *LinalgLuFactorEx.reference(x)[:2]

    def plan(x_layout):
        check_numbers("lu_cpu", x_layout)
        return _of_determinants(x_layout, kernels.determinants, [x_layout.numpy_dtype])

    def grad_x(g, x, LU, pivots):
        if not x._layout.numel:
            return zeros_like(x)
        if x.shape[-1] == 1:  # the gradient is a constant
            return _of_each(g[0])
        near = _away_from_singular(x, LU, pivots)
        found = [adjoint(LinalgInvEx.apply(y)[0]) * _of_each(g[0] * conj(LinalgDet.apply(y)[0])) for y in near]
        return (found[0] + found[1]) * 0.5

    def kernel_x(g, det, LU, pivots):
        return _scaled_adjugate(LU, pivots, det, g[0])


def _det_input(op: str, x: Tensor) -> Tensor:
    check_square(op, x._layout)
    check_floating(op, x._layout, half=op == "linalg.det")
    return x


@takes_out
def linalg_det(A: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return LinalgDet.apply(_det_input("linalg.det", A))[0]


public(linalg_det, module="linalg")


@public
def det(input: Tensor) -> Tensor:
    """The determinants of square matrices."""
    return LinalgDet.apply(_det_input("linalg.det", input))[0]


class LinalgSlogdet(BatchedMatrices):
    """(sign or phase of the determinant, logarithm of its absolute value, LU, pivots)."""

    multiple_results, results, constants = True, ("sign", "logabsdet", "LU", "pivots"), ("LU",)
    samples = cases(lambda: (draw(3, 3),), lambda: (draw_complex(2, 2, 2),))

    def reference(x):
        return *np.linalg.slogdet(x), *LinalgLuFactorEx.reference(x)[:2]

    def plan(x_layout):
        check_numbers("lu_cpu", x_layout)
        dtype = x_layout.numpy_dtype
        return _of_determinants(x_layout, kernels.log_determinants, [dtype, np.zeros(0, dtype).real.dtype])

    def grad_x(g, x, sign):
        factor = _slogdet_factor(g, sign)
        return None if factor is None else adjoint(LinalgInvEx.apply(x)[0]) * _of_each(factor)

    def kernel_x(g, sign, LU, pivots):
        factor = _slogdet_factor(g, sign)
        return None if factor is None else _scaled_inverse(LU, pivots, factor)


def _slogdet_factor(g: Sequence[Any], sign: Tensor) -> Tensor | None:
    """What the adjoint of the inverse is multiplied by: the gradient of log|det|, and minus i times the phase's."""
    if not sign._layout.dtype.is_complex:
        return g[1]
    factor = None if g[1] is None else g[1].to(sign.dtype)
    if g[0] is None:
        return factor
    turned = (conj(g[0]) * sign).imag * -1j
    return turned if factor is None else factor + turned


@takes_out
def linalg_slogdet(A: Tensor) -> Any:
    """(sign, logabsdet): the sign, or phase, of the determinant, and the logarithm of its absolute value."""
    return return_types.linalg_slogdet(*LinalgSlogdet.apply(_det_input("linalg.slogdet", A))[:2])


public(linalg_slogdet, module="linalg")


@public
@takes_out
def slogdet(input: Tensor) -> Any:
    """(sign, logabsdet): the sign, or phase, of the determinant, and the logarithm of its absolute value."""
    return return_types.slogdet(*LinalgSlogdet.apply(_det_input("linalg.slogdet", input))[:2])


@public
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinants: NaN where one is negative, complex for complex matrices."""
    sign, size = LinalgSlogdet.apply(_det_input("logdet", input))[:2]
    return sign.log() + size if sign._layout.dtype.is_complex else table.where(sign == -1, math.nan, size)
