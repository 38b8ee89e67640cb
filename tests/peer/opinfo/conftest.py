"""Comparisons on PyTorch's own samples: collected where its internal list of ops can be imported, silent elsewhere."""

from importlib import import_module

try:
    import_module("torch.testing._internal.common_methods_invocations")
except ImportError:  # no torch, or one without what its test helpers need (expecttest)
    collect_ignore_glob = ["test_*.py"]
