"""What jitgrad does otherwise than PyTorch on PyTorch's own samples, each with the reason why it stays."""

import re

# (name of the op's entry, how it is called, what differs) as regular expressions, and the reason.
KNOWN = [
    ("a(cos|sin|tan)h", "in place", "derivative for 'inplace version", "PyTorch has no gradient here; ours is right"),
    ("norm_nuc", ".*", "nuclear norm", "needs singular values, for which there is no op yet; refused in words"),
    ("(arg)?sort", "function|method", "^result( 1)?:", "PyTorch's order of equal elements, which it does not promise"),
    ("mode", "function|method", "^result 1: np.int64", "which of equal elements it names, that of std::sort"),
    ("topk", "function|method", "^result 1: np.int64", "which of equal elements it takes, that of std::nth_element"),
    ("nn_functional_(.*_norm|conv).*", "function", "gradients 0 2: requires_grad False",
     "a bias' gradient depends on nothing that requires grad; PyTorch computes it in one node with the others"),
    ("stft", "function|method", r"^more: \[\], less: \['gradients 1 0'\]",
     "PyTorch's gradient of reflected padding names the input too, though it does not depend on it: zeros"),
    ("stft", "function|method", "^gradients 0 1: np.float32",
     "last digits of sums over all frames, which nearly cancel"),
    ("fft_hfft2", "function", "^result: np.float32",
     "last digits: an element that nearly cancels, in a sum of which the others are a thousand times as large"),
]  # fmt: skip


def is_known(entry: str, variant: str, text: str) -> bool:
    return any(
        re.fullmatch(name, entry) and re.fullmatch(way, variant) and re.search(what, text)
        for name, way, what, _ in KNOWN
    )
