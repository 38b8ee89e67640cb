"""THE TABLE: every elementwise op, declared once, a family a file.

Rules are plain arithmetic and words. ``g`` is the incoming gradient, ``out`` the result; what a
rule names is what is saved. Formulas and their behaviour at special points follow PyTorch's.
"""

from jitgrad.kernels.elementwise import (
    activation, arithmetic, choice, division, logic, power, special, transcendental,
)  # fmt: skip
