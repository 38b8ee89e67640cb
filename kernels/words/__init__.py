"""The vocabulary of scalar rules: every word by name, and ``WORDS``, the dict of them all.

A word is a scalar function such as ``exp``, with a body in plain arithmetic for each kind of number, written so that
LLVM vectorises a loop that calls it. Words are what rules (``kernels/elementwise/``) and loops (``kernels/loops/``) may
call; they know nothing of arrays and ops. A word states its largest error in units in the last place, and behaves at
NaN, infinities, signed zeros and denormal numbers as PyTorch's function does.

Floor: the lowest. Read `vocabulary` first: what a word is, and the four rules that its bodies follow; then
`exponential`, the model of all others. `syntax` is here because every floor above reads functions' texts.

Words are written rather than called from the C library because a call keeps a loop from being vectorised, and SciPy's
functions are no machine code that a kernel could hold. Words that few programs use (`polygamma`, `modified_bessel`,
`bessel`, `normal`, `zeta`, `incomplete_gamma`, `orthogonal`, `integers`) are imported by the rows that call them. The
special functions among them have bodies for float64 alone: rows that call them say ``in_double``.
"""

from jitgrad.kernels.words import (
    arc, basic, error_function, exponential, gamma, gaussian, logarithm, logic, power, psi, trig,
)  # fmt: skip
from jitgrad.kernels.words.arc import *
from jitgrad.kernels.words.basic import *
from jitgrad.kernels.words.error_function import *
from jitgrad.kernels.words.exponential import *
from jitgrad.kernels.words.gamma import *
from jitgrad.kernels.words.gaussian import *
from jitgrad.kernels.words.logarithm import *
from jitgrad.kernels.words.logic import *
from jitgrad.kernels.words.power import *
from jitgrad.kernels.words.psi import *
from jitgrad.kernels.words.trig import *
from jitgrad.kernels.words.vocabulary import WORDS, Word, word

__all__ = [
    "WORDS",
    "Word",
    "word",
    *arc.__all__,
    *basic.__all__,
    *exponential.__all__,
    *logarithm.__all__,
    *logic.__all__,
    *power.__all__,
    *error_function.__all__,
    *gamma.__all__,
    *psi.__all__,
    *gaussian.__all__,
    *trig.__all__,
]
