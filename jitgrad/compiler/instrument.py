"""Python functions, rewritten so that a Watch sees what they read, write and call.

The rewritten function does what the original does, on the same globals and closure. Wherever it would load an
attribute or an item, call, iterate, compute or test something it asks the Watch, which does it and takes notes:

    self.scale * x[0]        W.binary("mul", W.attr(self, "scale"), W.item(x, 0))
    group["lr"] = lr         W.at(group)["lr"] = lr

Names need no rewriting: which globals and variables of enclosing functions a function reads is in its code.
"""

from __future__ import annotations

import ast
import dis
import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

from jitgrad.compiler.definitions import (
    DEFINITION,
    NotRewritable,
    code_of,
    definition,
    function_of,
    owner_name,
    without_annotations,
)
from jitgrad.compiler.kept_code import is_in_package, kept_code
from jitgrad.kernels.words.syntax import copied

__all__ = ["NotRewritable", "outer_names", "rewritten"]

WATCH = "jitgrad_watch"


def rewritten(function: FunctionType, watch: Any) -> Callable[..., Any]:
    """The function with ``watch`` in it. NotRewritable where its text isn't there or has what is not supported."""
    code, known = function.__code__, vars(function).get(DEFINITION)
    code = _rewritten_code(code, code.co_filename, function.__qualname__, known)
    return function_of(code, function, {WATCH: watch})


@functools.lru_cache(maxsize=4096)
def _rewritten_code(code: CodeType, file: str, qualname: str, known: ast.FunctionDef | None) -> CodeType:
    """file: that of the code, which code is equal without."""
    if known is not None:
        return _rewritten_tree(known, code, qualname)
    return kept_code(code, qualname, lambda: _rewritten_tree(definition(code), code, qualname))


def _rewritten_tree(node: ast.FunctionDef | ast.Lambda, code: CodeType, qualname: str) -> CodeType:
    return code_of(_Rewriter(owner_name(qualname), not is_in_package(code)).rewrite(node), code, [WATCH])


# -- what its names refer to ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def outer_names(code: CodeType) -> tuple[tuple[str, ...], dict[str, int]]:
    """(globals that the function and those inside it read, names outside of it that they write and on which line)."""
    reads: dict[str, None] = {}
    writes: dict[str, int] = {}
    free = set(code.co_freevars)
    for part in _all_codes(code):
        for instruction in dis.get_instructions(part):
            what, name = instruction.opname, instruction.argval
            outer = what in ("STORE_DEREF", "DELETE_DEREF") and name in free and name in part.co_freevars
            if what in ("LOAD_GLOBAL", "LOAD_NAME"):
                reads[name] = None
            elif outer or what in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                writes.setdefault(name, (instruction.positions and instruction.positions.lineno) or code.co_firstlineno)
    return tuple(reads), writes


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


# -- the rewriting ----------------------------------------------------------------------------------------

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_",
    ast.BitOr: "or_", ast.BitXor: "xor", ast.UAdd: "pos", ast.USub: "neg", ast.Invert: "invert",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_REFUSED = {
    ast.AsyncFunctionDef: "an async function", ast.Await: "await", ast.ClassDef: "a class", ast.Match: "match",
    ast.AsyncFor: "async for", ast.AsyncWith: "async with",
}  # fmt: skip


def _shape(target: Any) -> Any:
    """How what is assigned to a target is unpacked: see ``Accesses.unpacked``."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(map(_shape, target.elts))
    return "*" if isinstance(target, ast.Starred) else None


class _Rewriter(ast.NodeTransformer):
    """owner: the class around the function, by whose name Python changes private names.

    marks: whether ``try`` is marked; jitgrad's own leave all as it was, so that a run that fails need not do it.
    """

    def __init__(self, owner: str, marks: bool):
        self.owner, self.marks = owner, marks

    def rewrite(self, node: Any) -> Any:
        """A rewritten copy of a function's definition."""

        node = copied(node)
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
        else:
            node.body = [self.visit(s) for s in node.body]
            node.returns = None
        without_annotations(node.args)
        return node

    def _ask(self, place: ast.AST, what: str, *args: Any, keywords: Any = ()) -> Any:
        function = ast.Attribute(ast.Name(WATCH, ast.Load()), what, ast.Load())
        given = [ast.Constant(a) if isinstance(a, str) else a for a in args]
        return ast.copy_location(ast.Call(function, given, list(keywords)), place)  # its parts get theirs at the end

    def visit(self, node: Any) -> Any:
        if type(node) in _REFUSED:
            raise NotRewritable(f"it has {_REFUSED[type(node)]} on line {node.lineno}", node.lineno)
        return super().visit(node)

    def _private(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and self.owner
        return f"_{self.owner}{name}" if private else name

    # -- loads and stores

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        name, value = self._private(node.attr), self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            return self._ask(node, "attr", value, name)
        return ast.copy_location(ast.Attribute(self._ask(node, "at", value), name, node.ctx), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        value, key = self.visit(node.value), self._key(node.slice)
        if isinstance(node.ctx, ast.Load):
            return self._ask(node, "item", value, key)
        place, key = self._ask(node, "at", value), self._ask(key, "key", key)
        return ast.copy_location(ast.Subscript(place, key, node.ctx), node)

    def _key(self, node: Any) -> Any:
        if isinstance(node, ast.Slice):
            parts = [ast.Constant(None) if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
            return self._ask(node, "slice", *parts)
        if isinstance(node, ast.Tuple):
            return ast.copy_location(ast.Tuple([self._key(e) for e in node.elts], ast.Load()), node)
        return self.visit(node)

    def visit_Starred(self, node: ast.Starred) -> Any:
        node.value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            node.value = self._ask(node, "iter", node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value = self.visit(node.value)
        shapes = [shape for shape in map(_shape, node.targets) if shape]
        if shapes:
            # Of several targets all get the value; only where one of them is nested is it not the value itself.
            if len(node.targets) > 1 and any(isinstance(part, tuple) for shape in shapes for part in shape):
                raise NotRewritable(f"it unpacks what it also assigns as it is on line {node.lineno}", node.lineno)
            node.value = self._ask(node, "unpacked", node.value, ast.Constant(shapes[0]))
        node.targets = [self.visit(t) for t in node.targets]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([self.visit(node.target)], self.visit(node.value)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        what, value = _OPERATORS[type(node.op)], self.visit(node.value)
        if isinstance(node.target, ast.Name):
            old = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            new = self._ask(node, "inplace", what, old, value)
            return ast.copy_location(ast.Assign([node.target], new), node)
        if isinstance(node.target, ast.Attribute):
            owner, name = self.visit(node.target.value), ast.Constant(self._private(node.target.attr))
            call = self._ask(node, "augment_attr", what, owner, name, value)
        else:
            owner, key = self.visit(node.target.value), self._key(node.target.slice)
            call = self._ask(node, "augment_item", what, owner, key, value)
        return ast.copy_location(ast.Expr(call), node)

    # -- imports

    def visit_Import(self, node: ast.Import) -> Any:
        bound = [(a.asname or a.name.partition(".")[0], a.name, a.asname is None) for a in node.names]
        return self._bind(node, [(n, self._ask(node, "module", m, ast.Constant(outer))) for n, m, outer in bound])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        module, package = "." * node.level + (node.module or ""), ast.Name("__package__", ast.Load())
        where: Any = package if node.level else ast.Constant(None)
        names = [(a.asname or a.name, a.name) for a in node.names]
        return self._bind(node, [(bound, self._ask(node, "imported", module, n, where)) for bound, n in names])

    def _bind(self, node: Any, pairs: list[tuple[str, Any]]) -> Any:
        """One assignment to several names."""
        targets = ast.Tuple([ast.Name(self._private(n), ast.Store()) for n, _ in pairs], ast.Store())
        return ast.copy_location(ast.Assign([targets], ast.Tuple([v for _, v in pairs], ast.Load())), node)

    # -- calls and operators

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return node  # which Python gives the class and the first parameter of the function around it
        if isinstance(node.func, ast.Name) and node.func.id in ("locals", "vars", "eval", "exec", "globals", "dir"):
            raise NotRewritable(f"it calls {node.func.id} on line {node.lineno}")
        args = [self.visit(a) for a in node.args]
        keywords = []
        for k in node.keywords:
            value = self.visit(k.value)
            keywords.append(ast.keyword(k.arg, value if k.arg else self._ask(k.value, "mapping", value)))
        return self._ask(node, "call", self.visit(node.func), *args, keywords=keywords)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._ask(node, "binary", _OPERATORS[type(node.op)], self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            node.operand = self._tested(node.operand)
            return node
        if isinstance(node.operand, ast.Constant):
            return node
        return self._ask(node, "unary", _OPERATORS[type(node.op)], self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> Any:
        left, right = self.visit(node.left), [self.visit(c) for c in node.comparators]
        if len(right) == 1 and type(node.ops[0]) in _OPERATORS:
            return self._ask(node, "binary", _OPERATORS[type(node.ops[0])], left, right[0])
        if len(right) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = self._ask(node, "contains", right[0], left)
            return found if isinstance(node.ops[0], ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), found), node)
        identity = len(right) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot))
        # Whether a number is None, or True, does not depend on which number it is.
        others = [c for c in (left, *right) if isinstance(c, ast.Constant) and type(c.value) not in (int, float)]
        if not (identity and others):
            what = "settled" if identity else "compared"
            left, right = self._ask(node, what, left), [self._ask(node, what, r) for r in right]
        return ast.copy_location(ast.Compare(left, node.ops, right), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        node.values = [self._tested(v) for v in node.values[:-1]] + [self.visit(node.values[-1])]
        return node

    def _tested(self, node: Any) -> Any:
        """An expression that is tested: the Watch notes what its truth depends on."""
        negation = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        new = self.visit(node)
        return new if negation or isinstance(node, ast.Constant) else self._ask(node, "tested", new)

    def visit_If(self, node: Any) -> Any:
        node.test = self._tested(node.test)
        self._bodies(node)
        return node

    visit_While = visit_If

    def _bodies(self, node: Any) -> None:
        for name in ("body", "orelse", "finalbody"):
            if hasattr(node, name):
                setattr(node, name, [self.visit(s) for s in getattr(node, name)])

    def visit_Try(self, node: Any) -> Any:
        self.generic_visit(node)
        if self.marks:
            marked = ast.With([ast.withitem(self._ask(node, "trying"), None)], node.body)
            node.body = [ast.copy_location(marked, node)]
        return node

    visit_TryStar = visit_Try

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        node.test, node.body, node.orelse = self._tested(node.test), self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        node.test = self._tested(node.test)
        node.msg = self.visit(node.msg) if node.msg is not None else None
        return node

    # -- loops, with, functions

    def _gone_through(self, node: Any) -> Any:
        """What a loop or comprehension goes through."""
        shape, through = _shape(node.target), self.visit(node.iter)
        if shape:
            return self._ask(node.iter, "each", through, ast.Constant(shape))
        return self._ask(node.iter, "iter", through)

    def visit_For(self, node: ast.For) -> Any:
        node.iter = self._gone_through(node)
        node.target = self.visit(node.target)
        self._bodies(node)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        if node.is_async:
            raise NotRewritable("it has an async comprehension")
        node.iter = self._gone_through(node)
        node.target = self.visit(node.target)
        node.ifs = [self._tested(i) for i in node.ifs]
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> Any:
        node.value = self._ask(node, "iter", self.visit(node.value))
        return node

    def visit_withitem(self, node: ast.withitem) -> Any:
        node.context_expr = self._ask(node.context_expr, "context", self.visit(node.context_expr))
        node.optional_vars = self.visit(node.optional_vars) if node.optional_vars is not None else None
        return node

    def visit_Dict(self, node: ast.Dict) -> Any:
        values = zip(node.keys, map(self.visit, node.values), strict=True)
        node.values = [self._ask(v, "mapping", v) if k is None else v for k, v in values]
        node.keys = [None if k is None else self._settled(k) for k in node.keys]
        return node

    def visit_Set(self, node: ast.Set) -> Any:
        node.elts = [self.visit(e) if isinstance(e, ast.Starred) else self._settled(e) for e in node.elts]
        return node

    def visit_SetComp(self, node: ast.SetComp) -> Any:
        node.generators = [self.visit(g) for g in node.generators]
        node.elt = self._settled(node.elt)
        return node

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        node.generators = [self.visit(g) for g in node.generators]
        node.key, node.value = self._settled(node.key), self.visit(node.value)
        return node

    def _settled(self, node: Any) -> Any:
        """What is looked up by its value, so that a number has to be as it was."""
        return node if isinstance(node, ast.Constant) else self._ask(node, "key", self.visit(node))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        node.value = self._ask(node.value, "shown", self.visit(node.value))
        node.format_spec = self.visit(node.format_spec) if node.format_spec is not None else None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node.decorator_list:
            raise NotRewritable(f"it has a function with decorators on line {node.lineno}", node.lineno)
        node.body = [self.visit(s) for s in node.body]
        self._nested(node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.body = self.visit(node.body)
        self._nested(node)
        return node

    def _nested(self, node: Any) -> None:
        arguments = node.args
        for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
            if a is not None:
                a.annotation = None
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [None if d is None else self.visit(d) for d in arguments.kw_defaults]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
