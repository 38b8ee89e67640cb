"""What eigenvalues and singular values share: launching LAPACK, errors, and a test of losses that have no gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from jitgrad.core.dtypes import bool_
from jitgrad.core.errors import LinAlgError
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.planned import Launches, Read, Written
from jitgrad.dispatch.registry import published
from jitgrad.kernels.launch import Kernel, check, launch
from jitgrad.kernels.loops import spectral as kernels
from jitgrad.ops.creation.ranges import eye
from jitgrad.ops.linalg.batched_matrices import row_major
from jitgrad.ops.reduction.reduction_plan import unrecorded
from jitgrad.ops.shape.copy import contiguous

__all__ = [
    "check_phases", "decomposed", "diagonal_mask", "differences", "is_recorded", "refuse_unconverged", "solve",
]  # fmt: skip


def decomposed(
    x: Layout, kernel: Kernel, layouts: Sequence[Layout], fail: Callable[..., None], *options: Any, results: Any = None
) -> Launches:
    """The plan that launches ``kernel`` on the matrices of tensor "x" and returns new tensors of ``layouts``.

    ``fail(failed, ndim)`` raises for what ``failed`` says; see ``kernels/loops/spectral.py``. results: see `Launches`.
    """
    count = len(layouts)
    if not any(layout.numel for layout in layouts):  # empty ones may be of dtypes that LAPACK doesn't have
        return Launches([], layouts, count, results or (lambda *found: found))
    launch = kernel, Read("x"), *map(Written, range(count + 1)), *options

    def checked(*found: Tensor) -> Any:
        check(found[count]._data, fail, x.ndim)
        return found[:count] if results is None else results(*found[:count])

    return Launches([launch], [*layouts, row_major(np.int64, (), 1)], count + 1, checked)


def refuse_unconverged(title: str, values: str, non_finite: str = "") -> Callable[..., None]:
    """What raises for a matrix whose ``values`` LAPACK did not find; ``non_finite``: the words for NaN in it."""

    def fail(failed: np.ndarray, ndim: int) -> NoReturn:
        number = abs(failed.item(0))
        place = f"(Batch element {number - 1}): " if ndim > 2 else ""
        reason = f"is ill-conditioned or has too many repeated {values} values (error code: 1)."
        reason = reason.replace("eigen values", "eigenvalues")
        if failed.item(0) < 0 and non_finite:
            reason = non_finite
        raise LinAlgError(f"{title}: {place}The algorithm failed to converge because the input matrix {reason}")

    return fail


def is_recorded(x: Tensor) -> bool:
    """Whether derivatives may be asked for, which need vectors where only values were."""
    return bool(grad_state.levels) or (grad_state.enabled and x._requires_grad)


def differences(values: Tensor) -> Tensor:
    """values[j] - values[i] at (i, j), and 1 on the diagonal, where nothing is divided by them."""
    n = values._layout.shape[-1]
    return values.unsqueeze(-2) - values.unsqueeze(-1) + eye(n, dtype=values.dtype, device=values.device)


def diagonal_mask(values: Tensor) -> Tensor:
    """True on the diagonal of an (n, n) matrix, for n values."""
    return eye(values._layout.shape[-1], dtype=bool_, device=values.device)


def solve(a: Tensor, b: Tensor) -> Tensor:
    """The matrices X with a X = b."""
    function: Any = published("linalg.solve")
    result: Tensor = function(a, b)
    return result


_TOLERANCE = 1e-2


def check_phases(op: str, vectors: str, x: Tensor, y: Tensor) -> None:
    """RuntimeError unless ``x`` and ``y``, real, are about equal: a loss must not depend on phases of vectors."""
    if grad_state.levels:
        return
    arrays = [contiguous(unrecorded(t))._data.reshape(-1) for t in (x, y)]
    found = np.zeros(1, np.int64)
    launch(kernels.far_apart, *arrays, found, _TOLERANCE)
    check(found, _refuse_phases, op, vectors)


def _refuse_phases(_: np.ndarray, op: str, vectors: str) -> NoReturn:
    which = "quantity, so it is ill-defined" if vectors == "eigenvectors" else "phase term, making it ill-defined"
    raise RuntimeError(
        f"{op}: The {vectors} in the complex case are specified up to multiplication by e^{{i phi}}. "
        f"The specified loss function depends on this {which}."
    )
