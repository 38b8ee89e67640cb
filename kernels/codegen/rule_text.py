"""Rules and words as text of a compute dtype: numbers in that dtype, powers multiplied out, names kept apart."""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Iterable

from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.words import WORDS, Word
from jitgrad.kernels.words.syntax import Transformer, copied, nodes, parse

__all__ = [
    "INLINE", "INLINE_REASSOC", "WIDE", "inline", "retype", "retyped", "uncounted", "with_divide", "words_called",
    "words_text",
]  # fmt: skip

# A line of its own, of a text whose loops take so many instructions that they gain by the widest registers.
WIDE = "# the widest registers"
# What decorates helpers. They are called from kernels only: wrappers for Python and C would go unused.
INLINE = (
    '@njit(nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True, no_cpython_wrapper=True, '
    "no_cfunc_wrapper=True)"
)
CALLED = INLINE.replace("forceinline=True, ", "")
INLINE_REASSOC = INLINE.replace('{"contract"}', '{"contract", "reassoc", "nsz"}')  # of loops that allow it


def uncounted(inline: str) -> str:
    """What decorates a helper like ``inline``, without the counting of references to arrays."""
    return inline.replace("@njit(", "@njit(_nrt=False, ")


class _Retype(Transformer):
    """Writes numbers in the compute dtype: a bare 0.5 would widen float32 arithmetic to float64."""

    def __init__(self, integers: bool):
        self.integers = integers

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        kinds = (int, float, complex) if self.integers else (float, complex)
        if isinstance(node.value, kinds) and not isinstance(node.value, bool):
            return ast.Call(ast.Name("T", ast.Load()), [node], [])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "T":
            return node
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            if node.func.value.id == "np" and node.func.attr.startswith(("float", "int", "uint", "complex")):
                return node  # the author named the dtype
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        # x ** 2 with a bare 2 is multiplied out by Numba; T(2) would call pow.
        exponent = node.right
        if isinstance(node.op, ast.Pow) and isinstance(exponent, ast.Constant) and isinstance(exponent.value, int):
            node.left = self.visit(node.left)
            return node
        return self.generic_visit(node)


class _DivideWord(Transformer):
    """Writes ``a / b`` as the word ``divide``; in words only ``T(1) / b``, as others may be real."""

    def __init__(self, in_word: bool):
        self.in_word = in_word

    # Numba's complex division raises at zero and does not vectorise; see the word.
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if not isinstance(node.op, ast.Div) or (self.in_word and not ast.unparse(node.left).startswith("T(")):
            return node
        return _call("divide", node.left, node.right)


def with_divide(source: str, dtype: str, in_word: bool = False) -> str:
    """Return ``source`` for compute dtype ``dtype``, its divisions as a word if that is complex."""
    if "/" not in source or not dtype.startswith("complex"):
        return source
    return ast.unparse(_DivideWord(in_word).visit(parse(source)))


def retype(source: str, integers: bool = False) -> str:
    """Return ``source`` with float literals (and int literals if asked) wrapped as ``T(literal)``."""
    return ast.unparse(_Retype(integers).visit(parse(source)))


def retyped(tree: ast.AST, integers: bool = False) -> ast.AST:
    """A tree with float literals (and int literals if asked) wrapped as ``T(literal)``; the tree itself is changed."""
    return ast.fix_missing_locations(_Retype(integers).visit(tree))


def words_text(names: Iterable[str], dtype: str) -> str:
    """Return definitions of ``names`` and of the words that they use, in order of need; last a remark on vectors."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        text, called = _word_text(WORDS[name], dtype)
        # Depth first, for a word must be defined before those that call it. Sorted: the text decides the file's name.
        for other in called:
            add(other)
        done[name] = text

    for name in sorted(names):
        add(name)
    wide = [f"{WIDE}\n"] if any(WORDS[name].approximates for name in done) else []
    return "\n".join([*done.values(), *wide])


@functools.cache
def _word_text(word: Word, dtype: str) -> tuple[str, list[str]]:
    """The definition of a word for a compute dtype, and the other words that it calls, in alphabetical order."""
    source = with_divide(word.source(dtype), dtype, in_word=True)
    return f"{CALLED if word.rare else INLINE}\n{retype(source)}\n", sorted(words_called([source]) - {word.name})


class _Rename(Transformer):
    """Gives a rule's own variables the rule's prefix, so that several rules share one loop."""

    def __init__(self, names: dict[str, ast.expr]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copied(self.names.get(node.id, node))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Powers: small whole exponents multiply, any other is the word."""
        node = self.generic_visit(node)  # type: ignore[assignment]
        if not isinstance(node.op, ast.Pow):
            return _folded(node)
        exponent = node.right.value if isinstance(node.right, ast.Constant) else None
        return node if isinstance(exponent, int) else _call("pow", node.left, node.right)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        node = self.generic_visit(node)  # type: ignore[assignment]
        powers = isinstance(node.func, ast.Name) and node.func.id in ("pow", "power_of")
        if powers and isinstance(node.args[1], ast.Constant):
            return _literal_power(node.args[0], node.args[1].value)  # type: ignore[arg-type]
        return node


def _folded(node: ast.BinOp) -> ast.expr:
    """The value of an operation on two numbers, such as the exponent in ``pow(x, 3 - 1)``."""
    if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
        with contextlib.suppress(ZeroDivisionError):
            return ast.Constant(eval(ast.unparse(node)))
    return node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _literal_power(base: ast.expr, exponent: float) -> ast.expr:
    if float(exponent).is_integer():
        power = ast.BinOp(base, ast.Pow(), ast.Constant(abs(int(exponent))))
        return power if exponent >= 0 else ast.BinOp(ast.Constant(1), ast.Div(), power)
    if exponent in (0.5, -0.5):
        return _call("sqrt" if exponent > 0 else "rsqrt", base)
    return _call("pow", base, ast.Constant(exponent))


def inline(rule: Rule, target: str, literals: dict[str, ast.expr], conjugate: bool) -> list[str]:
    """Return the rule's statements, its result assigned to ``target``.

    ``conjugate`` evaluates a holomorphic derivative's rule as conj(rule(conj(g))): PyTorch's
    convention for complex gradients, without a word of it in the rule.
    """
    # Rules may use the same names for their own variables; the target's name keeps them apart.
    local = {s.targets[0].id for s in rule.statements if isinstance(s, ast.Assign)}  # type: ignore[attr-defined]
    names: dict[str, ast.expr] = {n: ast.Name(f"{target}_{n}", ast.Load()) for n in local}
    names |= literals
    if conjugate:
        names["g"] = ast.Name("g_conj", ast.Load())
    lines = []
    for statement in map(copied, rule.statements):
        statement = _Rename(names).visit(statement)
        if isinstance(statement, ast.Return):
            value = ast.unparse(statement)[len("return ") :]
            lines.append(f"{target} = np.conj({value})" if conjugate else f"{target} = {value}")
        else:
            lines.append(ast.unparse(statement))
    return [retype(line, integers=True) for line in lines]


def words_called(lines: Iterable[str]) -> set[str]:
    """The words that statements call."""
    calls = (n for n in nodes(parse("\n".join(lines))) if isinstance(n, ast.Call))
    return {c.func.id for c in calls if isinstance(c.func, ast.Name) and c.func.id in WORDS}
