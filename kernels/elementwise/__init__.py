"""THE TABLE: every elementwise op, declared once, a family a file.

A class is a declaration (`declaration.Elementwise`): rules of scalars for the result and for the gradient of each
input, and attributes for all else. From it follow the kernels of every dtype, layout and device, ``jitgrad.NAME``, the
method, the grad_fn's name, the second derivative, the tangent, vmap's rule and the tests. Rules are plain arithmetic
and words; ``g`` is the incoming gradient, ``out`` the result, and what a rule names is what is saved. Formulas and
their behaviour at special points follow PyTorch's. Ops that need a loop of their own (sums, sorts, gathers) belong
in ``kernels/loops/``, new scalar functions into ``kernels/words/``.

Floor: above ``kernels/cuda/``, beside ``kernels/loops/``. Read `arithmetic` first, then `declaration`. Rules may not
branch: LLVM vectorises selects, and the same rule runs on whole tensors as the differentiable backward. An op that
differs from another in attributes alone, such as ``clamp`` with numbers for bounds, is one of its ``variants``.

Files that are not imported here are named to ``publish_later`` in jitgrad/ops/pointwise: few programs use their rows.
"""

from jitgrad.kernels.elementwise import (
    activation, arithmetic, choice, division, logic, power, special, transcendental,
)  # fmt: skip
