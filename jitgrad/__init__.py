"""PyTorch's autograd in plain Python over pairs of Numba kernels."""
