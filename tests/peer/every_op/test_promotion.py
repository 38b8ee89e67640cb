"""Type promotion of operators beside PyTorch."""

import itertools
import operator

import pytest

from .comparison import OURS, THEIRS, assert_same, attempt

DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64", "complex64", "complex128")
OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "==": operator.eq, "<": operator.lt, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
}  # fmt: skip
OPERANDS = [*DTYPES, *(f"0-d {d}" for d in DTYPES), True, 2, 2.5, 1 + 2j]


def operand(lib, kind, shape=(0,)):
    """A tensor of ones, empty unless it has no dimensions; numbers as they are."""
    if not isinstance(kind, str):
        return kind
    dtype = getattr(lib.t, kind.removeprefix("0-d "))
    return lib.t.tensor(1, dtype=dtype) if "0-d" in kind else lib.t.ones(*shape, dtype=dtype)


@pytest.mark.parametrize("symbol", OPERATORS)
def test_promotion(symbol):
    """Result dtypes and errors of all pairs; on empty tensors, for which nothing is compiled."""
    apply = OPERATORS[symbol]
    for dtype, other in itertools.product(DTYPES, OPERANDS):
        for kinds in ((dtype, other), (other, dtype)):
            results = [attempt(lambda lib=lib, k=kinds: apply(*(operand(lib, o) for o in k))) for lib in (OURS, THEIRS)]
            assert_same(*results, 1e-5, f"{kinds[0]} {symbol} {kinds[1]}")


@pytest.mark.parametrize("symbol", ("+", "-", "*", "/", "//", "%", "**", "&", "<<"))
def test_promotion_in_place(symbol):
    apply = getattr(operator, "i" + OPERATORS[symbol].__name__.strip("_"))
    for dtype, other in itertools.product(DTYPES, OPERANDS):
        results = [attempt(lambda lib=lib: apply(operand(lib, dtype), operand(lib, other))) for lib in (OURS, THEIRS)]
        assert_same(*results, 1e-5, f"{dtype} {symbol}= {other}")


@pytest.mark.parametrize("kinds", [("int64", "0-d float64"), ("0-d int32", "0-d uint8"), ("float32", "complex128"),
                                   ("bool", 2), ("uint8", 2.5), ("0-d float32", 1 + 2j), ("bool", "bool")],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("symbol", ("+", "*", "/", "=="))
def test_promoted_values(symbol, kinds):
    apply = OPERATORS[symbol]
    results = [attempt(lambda lib=lib: apply(*(operand(lib, o, (3,)) for o in kinds))) for lib in (OURS, THEIRS)]
    assert_same(*results, 1e-5, f"{kinds[0]} {symbol} {kinds[1]}")
