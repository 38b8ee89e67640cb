"""``torch.utils.cpp_extension``: ops compiled from C++ against PyTorch, which can't be here."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(
    __name__,
    "BuildExtension CUDAExtension CppExtension SyclExtension include_paths library_paths load load_inline",
    "there is no C++ library to compile against; write loops in Python with jitgrad.differentiable or kernel_pair",
)

CUDA_HOME = ROCM_HOME = None
