"""The vocabulary of scalar rules: every word by name, and `WORDS`, the dict of them all."""

from jitgrad.kernels import (
    words_arc,
    words_basic,
    words_erf,
    words_exp,
    words_gamma,
    words_log,
    words_logic,
    words_pow,
    words_trig,
)
from jitgrad.kernels.words_arc import *
from jitgrad.kernels.words_basic import *
from jitgrad.kernels.words_erf import *
from jitgrad.kernels.words_exp import *
from jitgrad.kernels.words_gamma import *
from jitgrad.kernels.words_log import *
from jitgrad.kernels.words_logic import *
from jitgrad.kernels.words_pow import *
from jitgrad.kernels.words_registry import WORDS, Word, word
from jitgrad.kernels.words_trig import *

__all__ = [
    "WORDS",
    "Word",
    "word",
    *words_arc.__all__,
    *words_basic.__all__,
    *words_exp.__all__,
    *words_log.__all__,
    *words_logic.__all__,
    *words_pow.__all__,
    *words_erf.__all__,
    *words_gamma.__all__,
    *words_trig.__all__,
]
