"""Scalar rules: checked when they are declared, kept as syntax trees for the emitters.

A rule is a function of scalars in plain arithmetic and words. Its parameter names are its contract:
``g`` is the incoming gradient, ``out`` the op's result, any other name an input of the op.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

from jitgrad.kernels.words import WORDS
from jitgrad.kernels.words.syntax import definition, nodes, parameters, read_once

__all__ = ["Rule", "RuleError"]

# What has one meaning for a scalar in a kernel, for NumPy's arrays and for Tensors.
_ALLOWED = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.Expr, ast.Name,
    ast.Load, ast.Store, ast.Constant, ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert,
)  # fmt: skip
# What a rule's author probably wants in place of what is refused.
_INSTEAD = {
    ast.IfExp: "where(condition, a, b)",
    ast.If: "where(condition, a, b)",
    ast.BoolOp: "logical_and(a, b), logical_or(a, b)",
    ast.Not: "logical_not(a)",
    ast.For: "a loop kernel (jitgrad.kernel_pair)",
    ast.While: "a loop kernel (jitgrad.kernel_pair)",
    ast.FloorDiv: "floor_divide(a, b)",
    ast.Mod: "remainder(a, b)",
    ast.Attribute: "a word",
    ast.Subscript: "a loop kernel (jitgrad.kernel_pair)",
}


class RuleError(TypeError):
    """A rule holds a construct that has no meaning on tensors or in a kernel."""


class Rule:
    """One rule of the op ``op``: its parameters, their defaults, and its definition as a syntax tree."""

    def __init__(self, op: str, function: Callable[..., Any]):
        self.op, self.function, self.name = op, function, function.__name__
        defaults = function.__defaults__ or ()
        self.parameters = list(parameters(function))
        self.defaults = dict(zip(self.parameters[len(self.parameters) - len(defaults) :], defaults, strict=True))

    @read_once
    def tree(self) -> ast.FunctionDef:
        """The rule's definition. Parsed and checked when first asked for: a process uses few of all rules."""
        tree = definition(self.function, "rule")
        self._check(tree)
        return tree

    def _fail(self, node: ast.AST, what: str, instead: str) -> None:
        code = self.function.__code__
        line = getattr(node, "lineno", code.co_firstlineno)
        raise RuleError(
            f"{self.op}.{self.name}: {what} at {code.co_filename}:{line} is not allowed in a rule; use {instead}. "
            f"Rules are plain arithmetic, comparisons and these words: {', '.join(sorted(WORDS))}"
        )

    def _check(self, tree: ast.FunctionDef) -> None:
        for node in nodes(tree):
            if isinstance(node, ast.Call):
                self._check_call(node)
            elif isinstance(node, ast.Compare) and len(node.ops) > 1:
                self._fail(node, "a chained comparison", "logical_and(a < b, b < c)")
            elif not isinstance(node, _ALLOWED) and not isinstance(node, ast.expr_context):
                instead = next((text for kind, text in _INSTEAD.items() if isinstance(node, kind)), "a word")
                self._fail(node, f"'{type(node).__name__}'", instead)
            elif isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name):
                self._fail(node, "unpacking", "one name per assignment")
        if not isinstance(tree.body[-1], ast.Return):
            self._fail(tree.body[-1], "an ending without return", "return as the last statement")

    def _check_call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in WORDS:
            # math.fabs, np.exp, math.exp: the word has the function's name, perhaps without C's f.
            near = name.rsplit(".", 1)[-1].removeprefix("f")
            instead = f"the word {near}" if near in WORDS else {"max": "maximum", "min": "minimum"}.get(near, "a word")
            self._fail(node, f"the call of {name!r}", instead)
        if node.keywords:
            self._fail(node, "a keyword argument", "positions")

    @read_once
    def accumulated(self) -> Rule:
        """The rule with a parameter more, the first, to which its value is added. It has a tree for kernels alone:
        ``function`` is still this rule's.
        """
        made, tree = copy.copy(self), copy.deepcopy(self.tree)
        name, taken = "there", {*self.parameters, *(n.id for n in nodes(tree) if isinstance(n, ast.Name))}
        while name in taken:
            name += "_"
        made.parameters = [name, *self.parameters]
        tree.args.args.insert(0, ast.arg(name))
        last: Any = tree.body[-1]
        last.value = ast.BinOp(ast.Name(name, ast.Load()), ast.Add(), last.value)
        vars(made)["tree"] = ast.fix_missing_locations(tree)
        return made

    @property
    def statements(self) -> list[ast.stmt]:
        """The body without its docstring."""
        return [s for s in self.tree.body if not isinstance(s, ast.Expr)]

    @property
    def passes_gradient(self) -> bool:
        """Whether the rule is just ``return g``: no kernel is needed for it."""
        last = self.statements[0]
        return isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and last.value.id == "g"
