"""The processor that LLVM compiles for: machine code for another one could trap."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm

__all__ = ["cpu_features", "processor"]


@functools.cache
def processor() -> tuple[str, str]:
    """Its name and its features, ``+avx2,-avx512f,...``, as LLVM names them."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def cpu_features() -> set[str]:
    """The features that it has by LLVM's names, such as "avx2"."""
    return {feature[1:] for feature in processor()[1].split(",") if feature[:1] == "+"}
