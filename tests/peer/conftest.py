"""Comparisons with PyTorch: collected where torch is installed, silent elsewhere."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["*test_*.py"]  # "*" matches folders, too
if find_spec("torch"):
    import torch

    torch.set_warn_always(True)  # else what PyTorch warns of once depends on the tests before
