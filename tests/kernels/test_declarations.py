"""A rule that has no meaning in a kernel or on tensors is refused where it is declared."""

import numpy as np
import pytest

from jitgrad.kernels.codegen.rules import RuleError
from jitgrad.kernels.elementwise.declaration import TABLE, Elementwise


def declare_if():
    class BadIf(Elementwise):
        """Bad."""

        def forward(x):
            return x if x > 0 else 0


def declare_and():
    class BadAnd(Elementwise):
        """Bad."""

        def forward(x):
            return (x > 0) and (x < 1)


def declare_max():
    class BadMax(Elementwise):
        """Bad."""

        def forward(x, y):
            return max(x, y)


def declare_attribute():
    class BadAttribute(Elementwise):
        """Bad."""

        def forward(x):
            return np.exp(x)


def declare_chain():
    class BadChain(Elementwise):
        """Bad."""

        def forward(x):
            return 0 < x < 1


def declare_loop():
    class BadLoop(Elementwise):
        """Bad."""

        def forward(x):
            for _ in range(3):
                x = x * x
            return x


def declare_keyword():
    class BadKeyword(Elementwise):
        """Bad."""

        def forward(x):
            return exp(x=x)  # noqa: F821


def declare_modulo():
    class BadModulo(Elementwise):
        """Bad."""

        def forward(x, y):
            return x % y


BAD = {
    declare_if: r"BadIf\.forward: 'IfExp' at .*test_declarations\.py:\d+ is not allowed.*where\(condition, a, b\)",
    declare_and: r"BadAnd\.forward: 'BoolOp' at .*test_declarations\.py:\d+.*logical_and\(a, b\)",
    declare_max: r"BadMax\.forward: the call of 'max' at .*test_declarations\.py:\d+.*use maximum",
    declare_attribute: r"BadAttribute\.forward: the call of 'np\.exp' at .*test_declarations\.py:\d+.*use the word exp",
    declare_chain: r"BadChain\.forward: a chained comparison at .*test_declarations\.py:\d+",
    declare_loop: r"BadLoop\.forward: 'For' at .*test_declarations\.py:\d+.*kernel_pair",
    declare_keyword: r"BadKeyword\.forward: .*test_declarations\.py:\d+.*positions",
    declare_modulo: r"BadModulo\.forward: 'Mod' at .*test_declarations\.py:\d+.*remainder\(a, b\)",
}


@pytest.mark.parametrize("declare", BAD, ids=lambda f: f.__name__)
def test_bad_rules_name_op_and_line(declare):
    before = set(TABLE)
    with pytest.raises(RuleError, match=BAD[declare]) as caught:
        declare()
    line = int(str(caught.value).split("test_declarations.py:")[1].split()[0])
    first = declare.__code__.co_firstlineno
    assert first < line <= first + 8
    assert set(TABLE) == before


def test_other_bad_declarations():
    with pytest.raises(RuleError, match="Undocumented: an op needs a docstring"):

        class Undocumented(Elementwise):
            def forward(x):
                return x

    with pytest.raises(RuleError, match=r"Extra\.grad_y: forward has no input 'y'"):

        class Extra(Elementwise):
            """Bad."""

            def forward(x):
                return x

            def grad_y(g):
                return g

    with pytest.raises(RuleError, match=r"Unknown\.grad_x: unknown parameters {'z'}"):

        class Unknown(Elementwise):
            """Bad."""

            def forward(x):
                return x

            def grad_x(g, z):
                return g * z

    with pytest.raises(RuleError, match=r"NoReturn\.forward: an ending without return"):

        class NoReturn(Elementwise):
            """Bad."""

            def forward(x):
                y = x
