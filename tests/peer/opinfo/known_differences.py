"""What jitgrad does otherwise than PyTorch on PyTorch's own samples, each with the reason why it stays."""

import re

# (name of the op's entry, how it is called, what differs) as regular expressions, and the reason.
KNOWN = [
    ("a(cos|sin|tan)h", "in place", "derivative for 'inplace version", "PyTorch has no gradient here; ours is right"),
    ("norm_nuc", ".*", "nuclear norm", "needs singular values, for which there is no op yet; refused in words"),
    ("(arg)?sort", "function|method", "^result( 1)?:", "PyTorch's order of equal elements, which it does not promise"),
    ("topk", "function|method", "^result 1: np.int64", "which of equal elements it takes, that of std::nth_element"),
    ("(nn_functional_|_?native_|_batch_norm_).*", "function", "gradients 0 2: requires_grad False",
     "a bias' gradient depends on nothing that requires grad; PyTorch computes it in one node with the others"),
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
