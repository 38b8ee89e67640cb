"""The loop kernels of jitgrad: NumPy and Numba only, nothing of Tensor or graph.

The folder lies at the top of the repository and is installed as ``jitgrad.kernels``.
"""

if __name__ != "jitgrad.kernels":
    raise ImportError(
        f"this folder was imported as {__name__!r}, but it is the package jitgrad.kernels: "
        "write `import jitgrad.kernels`. If you meant another project called 'kernels', start "
        "Python outside jitgrad's checkout, whose folder of that name hides it."
    )
