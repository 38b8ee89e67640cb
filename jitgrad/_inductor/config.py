"""Settings of PyTorch's code generator. Any name may be set and read; none has an effect."""

from __future__ import annotations

from types import SimpleNamespace

from jitgrad._dynamo.config import patch

__all__ = ["patch"]

max_autotune = coordinate_descent_tuning = epilogue_fusion = fx_graph_cache = freezing = False
triton, cpp = SimpleNamespace(unique_kernel_names=False, cudagraphs=False), SimpleNamespace(threads=-1)
