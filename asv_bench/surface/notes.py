"""Why rows of ``compare.py surface`` take more than twice torch's time."""

from __future__ import annotations

__all__ = ["note_of"]

_CALLS = "several ops of 1 to 3 us each, where torch's is one call in C++"
_NUMPY_FFT = "NumPy's transforms of many real vectors are slower than MKL's"
_LAPACK = "three or four calls by way of NumPy's arrays"
_SPARSE = "indices are checked, sorted and compared by ops on dense tensors, each a call"
_WIDE = "made float32, computed and rounded: three launches where torch's is one"
_STATE = "checks of a state and weights in Python, and a node for each step"
_RULE = "the gradient is a rule of five to fifteen ops and products, each a call"
_OPENBLAS = "NumPy's OpenBLAS factorises as fast on one thread as on two, torch's MKL in half the time on two"
_DRAWN = "the generator, rates and probabilities are checked and the draw locked in Python, 4 to 8 us"

# {family: {name of a case, or its beginning: reason}}
NOTES: dict[str, dict[str, str]] = {
    "factorisations": {
        "linalg.ldl_factor": _LAPACK,
        "linalg.det of": _RULE, "linalg.det": _OPENBLAS, "linalg.slogdet": _OPENBLAS, "logdet": _OPENBLAS,
        "linalg.solve": _OPENBLAS, "linalg.lu_factor": _OPENBLAS, "linalg.cholesky": _OPENBLAS,
        "linalg.lstsq": _RULE, "cholesky_solve": _RULE,
    },
    "fourier": {
        "fft.fftfreq": _CALLS, "fft": _NUMPY_FFT, "istft": _CALLS, "binomial": _DRAWN, "poisson": _DRAWN,
    },
    "half": {
        "sum": _WIDE, "matmul": _WIDE, "matmul bfloat16": f"{_WIDE}; torch multiplies by instructions for bfloat16",
        "softmax": _WIDE,
    },
    "indexing": {
        "segment_reduce": "edges, the number of each element's segment and a scatter_reduce by these, each a launch",
        "as_strided_scatter": "checks, a copy, a view and a write, each a call",
        "trapezoid": "two passes: sums of neighbours are written before they are added",
        "scatter_reduce": "bounds are looked for before anything is written, in a pass of its own",
        "index_reduce": "bounds are looked for before anything is written, in a pass of its own",
        "cartesian_prod": _CALLS, "block_diag": _CALLS, "gradient": _CALLS, "diff": _CALLS, "histogram": _CALLS,
        "unique_consecutive": "runs are counted before they are written: two passes, where torch makes one",
        "mode": _CALLS, "cummax": "an element after another, which torch's loop is, too, without 2 us of checks",
        "bincount": "the largest number is read by Python, which makes the result's size", "searchsorted": _CALLS,
        "bucketize": _CALLS,
    },
    "losses": {
        "cosine_similarity": _CALLS, "cosine_embedding_loss": "three passes over both inputs, of which torch makes one",
        "bilinear": "two products, what lies between them written out",
        "ctc_loss": "lengths are read and checked by Python before and after the kernel",
        "rrelu": "noise, a copy and the product are three calls", "native_layer_norm": _CALLS,
        "multi_margin_loss": "two launches and their checks",
        "embedding_bag": "a bag's sums are kept in memory while its rows are added, torch's in registers",
        "attention": "checks in Python, and a launch that holds BLAS to one thread",
    },
    "recurrent": {"pack": "lengths are read by Python", "pad_packed": "lengths are read by Python", "rnn": _STATE},
    "sparse": {
        "to_dense": _SPARSE, "to_sparse_csr": _SPARSE, "mm": _SPARSE, "mv": _SPARSE, "sum": _SPARSE, "softmax": _SPARSE,
        "sparse times": _SPARSE, "coalesce": _SPARSE,
    },
    "spatial": {
        "conv2d, LeNet's": "25 taps of one channel: Winograd's and vector forms are for 3 x 3 and several channels",
        "grid_sample": "taps are found by branches for each place, which are not vectorised",
        "adaptive_avg_pool2d": "its gradient goes by a table of weights for any windows",
        "adaptive_max_pool2d": "windows of any sizes, one after another",
        "conv_transpose2d": "a product whose result is added up from windows that were written out",
        "avg_pool2d": "checks kept by layouts and a table of windows, 4 us in all",
        "max_pool2d": "checks kept by layouts and two results, 4 us in all",
        "conv": "checks kept by layouts, and a launch that holds BLAS to one thread",
        "pixel_shuffle": "a view of more dims, a copy and a view again",
    },
    "special": {
        "special.i1e": "computed in double precision", "special.ndtr": "computed in double precision",
        "igammac": "series of one element after another", "mvlgamma": _CALLS,
    },
    "spectral": {
        "linalg.svd": _LAPACK, "linalg.svdvals": _LAPACK, "linalg.matrix_norm nuc": _LAPACK, "linalg.cond": _LAPACK,
        "linalg.matrix_norm 1": _CALLS, "linalg.pinv": _CALLS, "linalg.vander": _CALLS, "dist": _CALLS,
        "linalg.multi_dot": "products through Python, a call each",
        "linalg.vector_norm": _RULE, "linalg.eigh of stack": _RULE,
        "addr": "a view and a broadcast product", "kron": "two views and a broadcast product", "addbmm": _CALLS,
        "pdist": "sums of few elements each, which are not vectorised",
    },
}  # fmt: skip


def note_of(family: str, name: str) -> str:
    """The reason for a row above the limit, by the longest key that its name begins with; "" if none is known."""
    known = NOTES.get(family, {})
    fitting = [key for key in known if name.startswith(key)]
    return known[max(fitting, key=len)] if fitting else ""
