"""Eigenvalues and singular values by NumPy's LAPACK, and exponentials of matrices; of stacks of matrices.

LAPACK runs on one thread of BLAS (``kernels/blas.py`` says why); a stack is cut for the pool. ``failed`` becomes 0, or
the number, from 1, of the first matrix that has no decomposition, negative if its elements are not all finite.
"""

from __future__ import annotations

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.blas import one_thread
from jitgrad.kernels.launch import library, loop

__all__ = ["eig", "eigh", "eigvals", "eigvalsh", "far_apart", "matrix_exp", "svd", "svdvals"]

# Multiplications in a stack, about, from which two threads are clearly quicker.
SPLIT = 1 << 17


def _decompose(function, x, outs, failed):
    """Write ``function(x)``, a tuple of arrays, to ``outs``; or say in ``failed`` which matrix it cannot take."""
    failed[0] = 0
    finite = np.isfinite(x)
    if not finite.all():
        failed[0] = -1 - np.flatnonzero(~finite.reshape(-1, x.shape[-2] * x.shape[-1]).all(1))[0]
        return
    try:
        with one_thread:
            _in_pieces(function, x, outs)
    except np.linalg.LinAlgError:
        failed[0] = 1 + next(k for k, a in enumerate(x.reshape(-1, *x.shape[-2:])) if _fails(function, a))


def _fails(function, matrix):
    try:
        function(matrix)
    except np.linalg.LinAlgError:
        return True
    return False


def _in_pieces(function, x, outs):
    count = min(threads.get_num_threads(), x.shape[0] if x.ndim > 2 else 1)
    if count < 2 or x.size * min(x.shape[-2:]) < SPLIT:
        _store(function, x, outs)
        return
    edges = [x.shape[0] * k // count for k in range(count + 1)]
    cuts = [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]
    threads.run_together([(_store, (function, x[c], [o[c] for o in outs])) for c in cuts])


def _store(function, x, outs):
    for out, found in zip(outs, function(x), strict=True):
        out[...] = found


@library("values", "vectors", "failed")
def eigh(x, values, vectors, failed, part):
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which the triangle ``part`` is read."""
    _decompose(lambda a: np.linalg.eigh(a, part), x, (values, vectors), failed)


@library("values", "failed")
def eigvalsh(x, values, failed, part):
    """Eigenvalues, ascending, of Hermitian matrices, of which the triangle ``part`` is read."""
    _decompose(lambda a: (np.linalg.eigvalsh(a, part),), x, (values,), failed)


@library("values", "vectors", "failed")
def eig(x, values, vectors, failed):
    """Eigenvalues and eigenvectors of square matrices; both are complex."""
    _decompose(np.linalg.eig, x, (values, vectors), failed)


@library("values", "failed")
def eigvals(x, values, failed):
    """Eigenvalues of square matrices, which are complex."""
    _decompose(lambda a: (np.linalg.eigvals(a),), x, (values,), failed)


@library("left", "values", "right", "failed")
def svd(x, left, values, right, failed, full):
    """Singular values, descending, and singular vectors: columns of ``left`` and rows of ``right``."""
    _decompose(lambda a: np.linalg.svd(a, full), x, (left, values, right), failed)


@library("values", "failed")
def svdvals(x, values, failed):
    """Singular values, descending."""
    _decompose(lambda a: (np.linalg.svd(a, compute_uv=False),), x, (values,), failed)


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
