"""What jitgrad does otherwise than PyTorch on PyTorch's own samples, each with the reason why it stays."""

import re

# (name of the op's entry, how it is called, what differs) as regular expressions, and the reason.
KNOWN = [
    ("a(cos|sin|tan)h", "in place", "derivative for 'inplace version", "PyTorch has no gradient here; ours is right"),
    ("cdist", "function", "is_view False for True|gradients 0 .: np.float32",
     "PyTorch's way by products rounds more, as x1 x1 + x2 x2 - 2 x1 x2 does, and ends in a view"),
    ("cov", ".*", "gradients . 1: np.float32", "weights of single precision, terms of a hundred that cancel"),
    ("linalg_norm_subgradients_at_zero", "function", "gradients 1 0: .* for .*nan",
     "second derivatives where there are none: PyTorch divides 0 by 0, ours are 0"),
    ("linalg_pinv_(singular|hermitian)", "function", "gradients 0 .: np.float32",
     "rounding of single precision, in which the LAPACK of each build differs, times a condition of 1e2"),
    ("linalg_eig", "function", "gradients 0 0: np.float32", "rounding of single precision by another LAPACK"),
    ("(svd|pca)_lowrank", "function", "gradients 1 .: np.complex128",
     "second derivatives through five QRs of projections, whose rounding differs in the seventh digit"),
    ("(linalg_)?svd|(svd|pca)_lowrank", "function|method", "^result (0|2): np",
     "signs and phases, which the LAPACK of each build chooses"),
    ("linalg_eigh?", "function", "^result 1: np", "signs and phases, which the LAPACK of each build chooses"),
    ("(arg)?sort", "function|method", "^result( 1)?:", "PyTorch's order of equal elements, which it does not promise"),
    ("topk", "function|method", "^result 1: np.int64", "which of equal elements it takes, that of std::nth_element"),
    ("nn_functional_.*_norm.*", "function", "gradients 0 2: requires_grad False",
     "a bias' gradient depends on nothing that requires grad; PyTorch computes it in one node with the others"),
    ("linalg_(tensorsolve|householder_product|lstsq.*)", "function", "^gradients 0.*np.float32",
     "rounding: formulas that are equal, of sums in another order; float64 agrees"),
]  # fmt: skip


def is_known(entry: str, variant: str, text: str) -> bool:
    return any(
        re.fullmatch(name, entry) and re.fullmatch(way, variant) and re.search(what, text)
        for name, way, what, _ in KNOWN
    )
