"""Flags of CUDA's libraries of products and attention; jitgrad's CUDA kernels are its own."""

from __future__ import annotations

from types import SimpleNamespace

__all__ = ["is_built", "matmul"]

matmul = SimpleNamespace(
    allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
)  # fmt: skip
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether this is a build with CUDA: False, for whether there is CUDA is found when it is asked for."""
    return False


def flash_sdp_enabled() -> bool:
    """What ``enable_flash_sdp`` set, at first True."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Kept for the getter."""
    _sdp["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """What ``enable_mem_efficient_sdp`` set, at first True."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept for the getter."""
    _sdp["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """What ``enable_math_sdp`` set, at first True."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept for the getter."""
    _sdp["math"] = enabled
