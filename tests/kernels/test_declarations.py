"""A rule that has no meaning in a kernel or on tensors is refused where it is declared."""

import ast
import pkgutil
import subprocess
import sys
import threading
from importlib import import_module

import numpy as np
import pytest

from jitgrad.kernels import loops
from jitgrad.kernels.codegen.rules import Rule, RuleError
from jitgrad.kernels.codegen.source import LoopSource
from jitgrad.kernels.elementwise.declaration import TABLE, Elementwise
from jitgrad.kernels.launch import Loop
from jitgrad.kernels.loops import elements, indexing, norm, softmax, sort
from jitgrad.kernels.words import WORDS
from jitgrad.kernels.words.syntax import SourceError, definition


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


def fill_first(row, value):
    for i in range(row.size):
        row[i] = value


def with_room(x):
    return np.empty(x.size, x.dtype)


def copy_by_room(x, out):
    room = with_room(x[0])
    for r in range(x.shape[0]):
        fill_first(room, x[r, 0])
        for i in range(room.size):
            out[r, i] = room[i]


def test_helpers_count_references_only_where_they_make_or_return_arrays():
    kernel = Loop(copy_by_room, False, (), None, 1, None)
    decorators = [line for line in kernel.text("float64").splitlines() if line.startswith("@njit")]
    assert ["_nrt=False" in line for line in decorators] == [False, True]
    x, out = np.arange(6.0).reshape(3, 2), np.zeros((3, 2))
    before = [sys.getrefcount(a) for a in (x, out)]
    kernel.call(x, out)
    assert [sys.getrefcount(a) for a in (x, out)] == before
    assert out.tolist() == [[0, 0], [2, 2], [4, 4]]


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


def rule(x):
    return x


# Attributes of a class called Bad, and what the error says besides the class's line.
INCOMPLETE = {
    r"Bad: an op needs a rule for its result \(.*\); add `def forward": {"forward": None},
    r"Bad\.domian: a declaration has no such attribute \(.*\); did you mean domain\?": {"domian": (0, 1)},
    r"Bad\.gradx: a declaration has no such attribute \(.*\); did you mean grad_x\?": {"gradx": rule},
    r"Bad\.wholly_unlike: .*; attributes are name, .*; rules are forward": {"wholly_unlike": 1},
    r"Bad\.grad_x: a gradient rule must be a function": {"grad_x": 1},
    r"Bad\.kind: 'flaot' is no kind of result \(.*\); use one of float": {"kind": "flaot"},
    r"Bad\.accepts: \['floats'\] are no dtype categories \(.*\); use some of bool": {"accepts": "floats int"},
    r"Bad\.conditions: forward has no parameters {'c'} \(.*\); it has \('x',\)": {"conditions": ("c",)},
    r"Bad\.literals: forward has no parameters {'n'}": {"literals": {"n": (1, 2)}},
    r"Bad\.numbers: forward has no parameters {'y'}": {"numbers": ("y",)},
    r"Bad\.domain: 2 pairs for 1 inputs": {"domain": ((0, 1), (0, 1))},
    r"Bad: the name 'exp' belongs to Exp at .*transcendental\.py:\d+ \(.*\); choose another": {"name": "exp"},
    r"Bad: the name 'sum' is taken by jitgrad\.sum \(.*\); choose another": {"name": "sum"},
    r"Bad: the name 'shape' is taken by Tensor\.shape \(.*\); choose another": {"name": "shape"},
    r"Bad: the name 'arctan' belongs to Atan at .*; choose another": {"aliases": ("arctan",)},
}


@pytest.mark.parametrize("message", INCOMPLETE)
def test_declarations_name_what_is_wrong_where_and_what_to_do(message):
    before = dict(TABLE)
    line = sys._getframe().f_lineno + 2
    with pytest.raises(RuleError, match=message) as caught:
        type("Bad", (Elementwise,), {"__doc__": "Bad.", "forward": rule, **INCOMPLETE[message]}, public=True)
    assert f"test_declarations.py:{line})" in str(caught.value)
    assert before == TABLE


def test_parameters_that_gradients_and_results_are_called_by_are_refused():
    with pytest.raises(RuleError, match=r"Reserved\.forward: the parameter names \['g', 'out'\] are taken"):

        class Reserved(Elementwise):
            """Bad."""

            def forward(g, out):
                return g * out


def declare_again(factor):
    class DeclaredAgain(Elementwise, public=False):
        """A cell of a notebook that is run twice."""

        def forward(x, by=factor):
            return x * by

        def grad_x(g, by):
            return g * by

    return DeclaredAgain


def test_a_class_may_be_declared_again_in_its_place():
    try:
        declare_again(1)
        second = declare_again(2)
        assert TABLE["declared_again"] is second and second.scalars == {"by": 2}
    finally:
        TABLE.pop("declared_again", None)


def test_variants_share_rules_and_differ_in_attributes():
    main, variant = TABLE["remainder"], TABLE["remainder_number"]
    assert issubclass(variant, main) and variant.__name__ == "RemainderNumber"
    assert variant.rule.function is main.rule.function and variant.kind == main.kind
    assert (variant.grad_name, variant.numbers_only, main.numbers_only) == ("RemainderBackward0", True, False)
    assert [list(TABLE[n].grads) for n in ("pow", "pow_number", "number_pow")] == [["x", "y"], ["x"], ["y"]]


def test_a_variant_is_checked_as_any_declaration():
    with pytest.raises(RuleError, match=r"MainVariant\.gradname: .* no such .* did you mean grad_name"):

        class MainOfBadVariant(Elementwise, public=False):
            """Bad."""

            variants = {"main_variant": {"gradname": "X"}}

            def forward(x):
                return x

            def grad_x(g):
                return g

    TABLE.pop("main_of_bad_variant")


def test_an_input_without_a_gradient_says_so():
    """Else it would be a constant in silence; results that are bools and integers have no gradient anyway."""

    def forward(x, y):
        return x + y

    def grad_x(g):
        return g

    def declare(**attributes):
        attributes = {"__doc__": "Made.", "__module__": __name__, "forward": forward, **attributes}
        return type("WithoutGradient", (Elementwise,), attributes)

    try:
        declare(kind="bool")
        declare(kind="same", accepts="bool int")
        declare(grad_x=grad_x, grad_y=None)
        declare(grad_x=grad_x, conditions=("y",))
        missing = rf"WithoutGradient: the input 'y' has no gradient rule grad_y \(declared at {__file__}:\d+\); write"
        with pytest.raises(RuleError, match=missing):
            declare(grad_x=grad_x)
    finally:
        TABLE.pop("without_gradient", None)


# -- syntax trees: parsed on first use --------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, op in TABLE.items() if op.__module__.startswith("jitgrad.kernels")])
def test_rules_of_the_table_are_sound(name):
    """Rules of the table are parsed when an op is first used; here all of them are."""
    op = TABLE[name]
    for made in (op.rule, *op.grads.values()):
        assert made.tree.name == made.name and made.tree.lineno == made.function.__code__.co_firstlineno


def test_import_parses_nothing():
    program = (
        "import ast, numba, numpy\n"
        "def refuse(*args, **kwargs): raise AssertionError('ast.parse during import')\n"
        "ast.parse = refuse\n"
        "import jitgrad, sys\n"
        "assert 'numba.cuda' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_one_thread_parses_at_a_time(monkeypatch):
    parse, inside, most, errors = ast.parse, [], [], []

    def watched(*args, **kwargs):
        inside.append(None)
        most.append(len(inside))
        try:
            return parse(*args, **kwargs)
        finally:
            inside.pop()

    def first_use(start):
        start.wait()
        try:
            for op in list(TABLE.values())[:20]:
                Rule(op.__name__, op.rule.function).tree
        except BaseException as error:
            errors.append(error)

    monkeypatch.setattr(ast, "parse", watched)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        start = threading.Barrier(8)
        threads = [threading.Thread(target=first_use, args=(start,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors and max(most) == 1


def test_text_of_another_function_is_refused():
    moved = definition.__code__.replace(co_firstlineno=1)
    with pytest.raises(SourceError, match="definition: (a rule must be|.* has changed since it was imported)"):
        definition(type(definition)(moved, definition.__globals__), "rule")
    with pytest.raises(SourceError, match="a word must be a function defined by def"):
        definition(lambda x: x, "word")


def test_words_texts_are_made_once():
    assert WORDS["exp"].source("float32") is WORDS["exp"].source("float32")


def test_loops_know_what_they_write_by_another_name():
    assert softmax.softmax_rows.writes == (1,)
    assert norm.normalize_rows.writes == (3, 4, 5)
    assert indexing.take_rows.writes == elements.gather.writes == (2,)  # into a view of all of it
    assert sort.kth.writes == (1, 2)  # and into a copy of a row of x


def of_rows(x, out):
    for k, row in enumerate(out):
        row[0] = x[k, 0]


def of_either(x, out):
    row = x[0] if x.size == 1 else out[0]
    row[0] = 1


def of_one_name_of_several(x, out):
    first = second = out[0]
    one, *others = second, *x.shape
    one[0] = first[0] + len(others)


def by_a_method(x, out):
    np.transpose(out)[0].fill(x[0, 0])


def into_a_copy(x, out):
    row = x[0].copy()
    row[0] = 1
    out[0, 0] = row[0]


@pytest.mark.parametrize(("function", "writes"), [
    (of_rows, (1,)), (of_either, (0, 1)), (of_one_name_of_several, (1,)), (by_a_method, (1,)), (into_a_copy, (1,)),
])  # fmt: skip
def test_what_a_loop_may_write_to(function, writes):
    assert LoopSource(function).writes == writes


def test_every_loop_of_the_house_writes():
    modules = [import_module(f"jitgrad.kernels.loops.{m.name}") for m in pkgutil.iter_modules(loops.__path__)]
    declared = {k.name: k.writes for m in modules for k in vars(m).values() if isinstance(k, Loop)}
    assert len(declared) > 100 and [n for n, writes in declared.items() if not writes] == []
