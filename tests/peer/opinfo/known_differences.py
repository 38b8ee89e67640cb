"""What jitgrad does otherwise than PyTorch on PyTorch's own samples, each with the reason why it stays."""

import re

# (name of the op's entry, how it is called, what differs) as regular expressions, and the reason.
KNOWN = [
    ("a(cos|sin|tan)h", "in place", "derivative for 'inplace version", "PyTorch has no gradient here; ours is right"),
    ("cdist", "function", "is_view False for True|gradients 0 .: np.float32",
     "PyTorch's way by products rounds more, as x1 x1 + x2 x2 - 2 x1 x2 does, and ends in a view"),
    ("cholesky_inverse", "function", "^result 1: np",
     "PyTorch's tangents differ from differences of results in the third digit, ours in the eleventh"),
    ("cov", ".*", "gradients . 1: np.float32", "weights of single precision, terms of a hundred that cancel"),
    ("linalg_norm_subgradients_at_zero", "function", "gradients 1 0: .* for .*nan",
     "second derivatives where there are none: PyTorch divides 0 by 0, ours are 0"),
    ("(svd|pca)_lowrank", "function", "gradients 1 .: np.complex128",
     "second derivatives through five QRs of projections, whose rounding differs in the seventh digit"),
    ("(svd|pca)_lowrank", "function", "gradients 0 .: np.complex64",
     "the same in single precision: of 30 random matrices the medians of both libraries' errors are equal, 1e-6, but "
     "of one matrix that of either is up to ten times the other's"),
    ("(linalg_)?svd|(svd|pca)_lowrank", "function|method", "^result (0 )?(0|2): np",
     "signs and phases, which the LAPACK of each build chooses"),
    ("linalg_eigh?", "function", "^result 1: np", "signs and phases, which the LAPACK of each build chooses"),
    ("(view_as_)?complex", ".*", "ComplexHalf", "there is no complex dtype of 16 bits: NumPy and Numba lack it, too"),
    ("msort|(arg)?sort", "function|method", "^result( 1)?:|^gradients 0 0: np.float(16|32)",
     "PyTorch's order of equal elements, which it does not promise; in 16 bits there are many"),
    ("as_strided_scatter", "function|method", r"^gradients . (0:|1: np.\w+\(0)",
     "PyTorch has the gradient of what is overwritten in the place of that of what is kept; and one of what it writes "
     "to memory that the result does not show"),
    ("nn_functional_poisson_nll_loss", "function", "^gradients 0 1: .* for np.*nan",
     "targets up to 0, whose term of Stirling's formula is masked: PyTorch multiplies the logarithm's NaN or infinity "
     "by 0, ours is the gradient of the loss that both compute"),
    ("logcumsumexp", "function", "^result 1: np.* for .*nan",
     "tangents where all terms are exponentials of -inf, for which PyTorch divides 0 by 0: ours are 0"),
    ("mode", "function|method", "^result 1: np.int64|^gradients 0 0: np.float(16|32)",
     "which of equal elements it names, that of std::sort; in 16 bits there are many"),
    ("topk", "function|method", "^result 1: np.int64|^gradients 0 0: np.float(16|32)",
     "which of equal elements it takes, that of std::nth_element"),
    ("special_bessel_[jy][01]", "function", "^result: np.float64",
     "PyTorch's are off by up to 9e-7 from 4 to 9.1; ours by 4e-15, see tests/kernels/words/test_bessel.py"),
    ("stft", "function|method", r"^more: \[\], less: \['gradients 1 0'\]",
     "PyTorch's gradient of reflected padding names the input too, though it does not depend on it: zeros"),
    ("stft", "function|method", "^gradients 0 1: np.float32",
     "last digits of sums over all frames, which nearly cancel"),
    ("(nn_functional_|_?native_|_batch_norm_).*", "function", "gradients 0 2: requires_grad False",
     "a bias' gradient depends on nothing that requires grad; PyTorch computes it in one node with the others"),
    ("nn_functional_conv_?(transpose)?1d", "function", "^result: stride",
     "PyTorch has the channels last where odd strides of a weight allow it to be seen as that of images of one row"),
    ("renorm", "function|method", "^gradients . 0: .* for np.*nan",
     "the largest element of a complex slice that is zero, or of several equal ones: PyTorch divides 0 by 0"),
    ("angle", "function|method", "^result: stride",
     "PyTorch's angles of complex numbers are row-major, whatever the order of their dims; those of real ones keep it"),
    ("renorm", "function", "^result 1: dtype b?float16 for float32", "PyTorch's tangents of 16 bits are of 32"),
    ("(linalg_)?cross", "function", r"^result: np.float32\(\S+\) for np.float32",
     "PyTorch rounds both products of 16 bits before it subtracts"),
    ("native_layer_norm", "function", "None .* for argument #1 'other'",
     "PyTorch cannot differentiate twice with a bias and no weight; we can"),
    (".*scaled_dot_product_attention", "function", "derivative for aten::_scaled_dot_product_.* is not implemented",
     "PyTorch cannot differentiate its fast forms twice; we can"),
    (".*linear_cross_entropy_chunked.*", "function", "more: ..gradients 1 0., .*less: ..$",
     "PyTorch's form by chunks has no second derivatives; ours has"),
    (".*scaled_dot_product_attention", "function", "^(result|gradients 0 [0-3]): np.float32",
     "exponentials of scores of some hundreds: both are some of the scores' last places from the exact ones"),
]  # fmt: skip


def is_known(entry: str, variant: str, text: str) -> bool:
    return any(
        re.fullmatch(name, entry) and re.fullmatch(way, variant) and re.search(what, text)
        for name, way, what, _ in KNOWN
    )
