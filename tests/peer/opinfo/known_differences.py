"""What jitgrad does otherwise than PyTorch on PyTorch's own samples, each with the reason why it stays."""

import re

# (name of the op's entry, how it is called, what differs) as regular expressions, and the reason.
KNOWN = [
    ("a(cos|sin|tan)h", "in place", "derivative for 'inplace version", "PyTorch has no gradient here; ours is right"),
    ("norm_nuc", ".*", "nuclear norm", "needs singular values, for which there is no op yet; refused in words"),
    ("(view_as_)?complex", ".*", "ComplexHalf", "there is no complex dtype of 16 bits: NumPy and Numba lack it, too"),
    ("msort|(arg)?sort", "function|method", "^result( 1)?:|^gradients 0 0: np.float(16|32)",
     "PyTorch's order of equal elements, which it does not promise; in 16 bits there are many"),
    ("topk", "function|method", "^result 1: np.int64|^gradients 0 0: np.float(16|32)",
     "which of equal elements it takes, that of std::nth_element"),
    ("nn_functional_.*_norm.*", "function", "gradients 0 2: requires_grad False",
     "a bias' gradient depends on nothing that requires grad; PyTorch computes it in one node with the others"),
]  # fmt: skip


def is_known(entry: str, variant: str, text: str) -> bool:
    return any(
        re.fullmatch(name, entry) and re.fullmatch(way, variant) and re.search(what, text)
        for name, way, what, _ in KNOWN
    )
