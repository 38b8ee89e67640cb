"""The vocabulary of scalar rules: every word by name, and ``WORDS``, the dict of them all."""

from jitgrad.kernels.words import (
    arc, basic, error_function, exponential, gamma, logarithm, logic, power, trig,
)  # fmt: skip
from jitgrad.kernels.words.arc import *
from jitgrad.kernels.words.basic import *
from jitgrad.kernels.words.error_function import *
from jitgrad.kernels.words.exponential import *
from jitgrad.kernels.words.gamma import *
from jitgrad.kernels.words.logarithm import *
from jitgrad.kernels.words.logic import *
from jitgrad.kernels.words.power import *
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
    *trig.__all__,
]
