"""The processor's vector instructions."""

from __future__ import annotations

from jitgrad.kernels.processor import cpu_features

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The widest of PyTorch's sets of vector instructions that the processor has: "AVX512", "AVX2" or "DEFAULT"."""
    has = cpu_features()
    return "AVX512" if "avx512f" in has else "AVX2" if "avx2" in has else "DEFAULT"
