"""CUDA: kernels for the GPU, and the only files that import a CUDA provider."""
