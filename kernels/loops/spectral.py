"""Eigenvalues and singular values by LAPACK, and exponentials of matrices; of stacks of matrices.

LAPACK runs on one thread of BLAS (``kernels/blas.py`` says why); a stack is cut for the pool. ``failed`` becomes 0, or
the number, from 1, of the first matrix that has no decomposition, negative if its elements are not all finite.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy._core import umath

from jitgrad.kernels import threads
from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.lapack import on_one
from jitgrad.kernels.launch import library, loop

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "far_apart", "matrix_exp", "pseudo_inverse", "svd", "svdvals"]

# NumPy's own loops over stacks, which ``np.linalg.eigh`` and its kind call after checks that take longer than a small
# matrix. They write to any memory, and NaN for a matrix that LAPACK has failed at.
_LOOPS = np.linalg._umath_linalg
_HANDLING, _IGNORED = umath._extobj_contextvar, umath._make_extobj(all="ignore")
# Multiplications in a stack, about, from which two threads are clearly quicker.
SPLIT = 1 << 17


@loop
def first_nan(x, failed):
    """Say in ``failed`` which row of x is the first that begins with NaN, counted from 1; 0: none does."""
    failed[0] = 0
    for k in range(x.shape[0]):
        if x[k, 0] != x[k, 0]:
            failed[0] = k + 1
            break


def _decompose(function, x, outs, values, failed):
    """Write ``function(x)`` to ``outs``, of which ``values`` is one; ``failed``: see above."""
    failed[0] = 0
    if not x.size:
        function(x, *outs)
        return
    parts = min(threads.get_num_threads(), x.shape[0] if x.ndim > 2 else 1)
    with on_one(x.shape[-1] * x.shape[-2]):
        if parts < 2 or x.size * min(x.shape[-2:]) < SPLIT:
            _quietly(function, x, outs)
        else:
            edges = [x.shape[0] * k // parts for k in range(parts + 1)]
            cuts = [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]
            threads.run_together([(_quietly, (function, x[c], [o[c] for o in outs])) for c in cuts])
    if x.ndim > 2:
        first_nan.call(values.reshape(-1, values.shape[-1]), failed)
    else:
        first = values.item(0)
        failed[0] = first != first
    if failed[0] and not np.isfinite(x.reshape(-1, *x.shape[-2:])[failed[0] - 1]).all():
        failed[0] = -failed[0]


def _quietly(function, x, outs):
    """Call one of NumPy's loops without its warnings: it reports that LAPACK failed as a floating-point error."""
    token = _HANDLING.set(_IGNORED)  # np.errstate does this in 1.3 us, a third of what a small matrix takes
    try:
        function(x, *outs)
    finally:
        _HANDLING.reset(token)


@library("values", "vectors", "failed")
def eigh(x, values, vectors, failed, part):
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which the triangle ``part`` is read."""
    function = _LOOPS.eigh_lo if part == "L" else _LOOPS.eigh_up
    _decompose(function, x, (values, vectors), values, failed)


@library("values", "failed")
def eigvalsh(x, values, failed, part):
    """Eigenvalues, ascending, of Hermitian matrices, of which the triangle ``part`` is read."""
    _decompose(_LOOPS.eigvalsh_lo if part == "L" else _LOOPS.eigvalsh_up, x, (values,), values, failed)


@library("values", "vectors", "failed")
def eig(x, values, vectors, failed):
    """Eigenvalues and eigenvectors of square matrices; both are complex."""
    if _finite(x, failed):
        _decompose(_LOOPS.eig, x, (values, vectors), values, failed)


@library("values", "failed")
def eigvals(x, values, failed):
    """Eigenvalues of square matrices, which are complex."""
    if _finite(x, failed):
        _decompose(_LOOPS.eigvals, x, (values,), values, failed)


def _finite(x, failed):
    """Whether LAPACK may see these matrices, whose general eigenvalues it would look for in NaN without an end."""
    failed[0] = -1 + bool(np.isfinite(x).all())
    return not failed[0]


@functools.cache
def _svd(kind, wide):
    """NumPy's loop for matrices; kind "f": with all vectors, "s": as many as values, "": none. wide: more columns."""
    name = f"svd_{kind}" if kind else "svd"
    if hasattr(_LOOPS, "svd_f"):
        return getattr(_LOOPS, name)
    side = "m" if wide else "n"  # NumPy 2.0
    return getattr(_LOOPS, f"svd_{side}_{kind}" if kind else f"svd_{side}")


@library("left", "values", "right", "failed")
def svd(x, left, values, right, failed, full):
    """Singular values, descending, and singular vectors: columns of ``left`` and rows of ``right``."""
    _decompose(_svd("f" if full else "s", x.shape[-2] < x.shape[-1]), x, (left, values, right), values, failed)


@library("values", "failed")
def svdvals(x, values, failed):
    """Singular values, descending."""
    _decompose(_svd("", x.shape[-2] < x.shape[-1]), x, (values,), values, failed)


@library("out")
def pseudo_inverse(left, values, right, absolute, relative, out):
    """right^H diag(1 / values) left^H, values of a size up to max(absolute, relative * the largest) taken as infinite.

    The two tolerances broadcast against stacks of values.
    """
    size = np.abs(values)
    kept = size > np.maximum(absolute, relative * size.max(-1, keepdims=True))
    inverse = np.divide(1, values, out=np.zeros_like(values), where=kept)
    first, last = (np.conj(a).swapaxes(-1, -2) for a in (right, left))
    with on_one(values.shape[-1] * max(out.shape[-2:])):
        np.matmul(first * inverse[..., None, :], last, out=out)


@loop
def far_apart(x, y, found, tolerance):
    """Set ``found[0]`` to whether elements of two vectors differ by more than ``tolerance``, absolute and relative."""
    wrong = 0
    for i in range(x.size):
        wrong += not (abs(x[i] - y[i]) <= tolerance + tolerance * abs(y[i]))
    found[0] = wrong > 0


# -- the exponential -------------------------------------------------------------------------------------

# Coefficients of the numerators of Pade's approximations of exp of odd degrees; signs alternate in denominators.
_PADE = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0, 110880.0, 3960.0, 90.0, 1.0),
    13: (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
         10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
}  # fmt: skip
# Norms up to which their errors are below the rounding of a dtype (Higham 2005, "The scaling and squaring method for
# the matrix exponential revisited", table 2.3 and section 2); what is larger is halved and the result squared.
_DOUBLE = ((3, 1.495585217958292e-2), (5, 2.53939833006323e-1), (7, 9.504178996162932e-1), (9, 2.097847961257068),
           (13, 5.371920351148152))  # fmt: skip
_OF_SINGLE = ((3, 4.258730016922831e-1), (5, 1.880152677804762), (7, 3.925724783138660))

SINGLE = 128  # Smaller matrices of single precision are computed in double, which takes no longer.


@library("out")
def matrix_exp(x, out):
    """exp(x) = 1 + x + x x / 2 + ... of each of a stack of square matrices, by scaling and squaring."""
    if not x.size:
        return
    with one_thread, np.errstate(all="ignore"):
        if x.shape[-1] < SINGLE and x.dtype.char in "fF":
            x = x.astype(np.promote_types(x.dtype, np.float64))
        norms = np.abs(x).sum(-2).max(-1)
        finite = np.isfinite(norms)
        if finite.all():
            out[...] = _exp(x, norms)
        else:  # NaN and infinities spread over the whole matrix
            out[...] = np.nan
            if finite.any():
                out[finite] = _exp(x[finite], norms[finite])


def _exp(x, norms):
    limits = _OF_SINGLE if x.dtype.char in "fF" else _DOUBLE
    largest = norms.max()
    degree, limit = next((pair for pair in limits if largest <= pair[1]), limits[-1])
    if largest <= limit:
        return _pade(x, degree)
    halvings = np.maximum(np.frexp(norms / limit)[1], 0)
    scaled = x * np.ldexp(np.ones_like(norms), -halvings)[:, None, None]
    result = _pade(scaled.astype(x.dtype, copy=False), degree)
    for k in range(int(halvings.max())):
        left = halvings > k
        if left.all():
            result = result @ result
        else:
            result[left] = result[left] @ result[left]
    return result


def _pade(x, degree):
    """The approximation of exp(x) as a quotient of polynomials of x, (even + odd) / (even - odd)."""
    b, one = _PADE[degree], np.eye(x.shape[-1], dtype=x.dtype)
    square = x @ x
    powers = [one, square]
    for _ in range(2 if degree == 13 else degree // 2 - 1):
        powers.append(powers[-1] @ square)
    if degree < 13:
        odd, even = (_combined(b[k::2], powers) for k in (1, 0))
    else:
        odd, even = (_combined(b[k:8:2], powers) + powers[3] @ _combined((0.0, *b[8 + k :: 2]), powers) for k in (1, 0))
    odd = x @ odd
    return np.linalg.solve(even - odd, even + odd)


def _combined(factors, powers):
    total = powers[0] * factors[0] if factors[0] else 0
    for factor, power in zip(factors[1:], powers[1:], strict=False):
        total = total + power * factor
    return total
