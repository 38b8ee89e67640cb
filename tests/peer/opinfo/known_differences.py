"""What jitgrad does otherwise than PyTorch on PyTorch's own samples, each with the reason why it stays."""

import re

# (name of the op's entry, how it is called, what differs) as regular expressions, and the reason.
KNOWN = [
    ("a(cos|sin|tan)h", "in place", "derivative for 'inplace version", "PyTorch has no gradient here; ours is right"),
    ("norm_nuc", ".*", "nuclear norm", "needs singular values, for which there is no op yet; refused in words"),
    ("(arg)?sort", "function|method", "^result( 1)?:", "PyTorch's order of equal elements, which it does not promise"),
    ("topk", "function|method", "^result 1: np.int64", "which of equal elements it takes, that of std::nth_element"),
    ("nn_functional_(.*_norm|conv).*", "function", "gradients 0 2: requires_grad False",
     "a bias' gradient depends on nothing that requires grad; PyTorch computes it in one node with the others"),
    ("nn_functional_conv(_transpose)?3d", "function", "^gradients 0 0: np.float32",
     "sums of thousands of products in another order; in double precision they agree"),
    ("grid_sampler_2d", "function", "^gradients 0 1: np.float32",
     "cubic weights of places that were rounded otherwise; in double precision they agree"),
]  # fmt: skip


def is_known(entry: str, variant: str, text: str) -> bool:
    return any(
        re.fullmatch(name, entry) and re.fullmatch(way, variant) and re.search(what, text)
        for name, way, what, _ in KNOWN
    )
