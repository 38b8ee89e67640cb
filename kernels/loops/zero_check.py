"""Whether an integer divisor holds a zero, which PyTorch reports."""

from jitgrad.kernels.launch import loop

__all__ = ["any_zero"]


@loop
def any_zero(x, found):
    """Set ``found[0]`` to whether ``x`` (1-D) holds a zero."""
    zeros = 0
    for i in range(x.size):
        zeros += x[i] == 0
    found[0] = zeros > 0
