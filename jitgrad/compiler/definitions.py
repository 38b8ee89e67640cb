"""The syntax tree that a function's code comes from, and functions made of a changed one in its place."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from jitgrad.compiler.kept_code import steps_of
from jitgrad.kernels.words.syntax import copied, parse

__all__ = [
    "DEFINITION", "NotRewritable", "code_of", "definition", "function_of", "owner_name", "without_annotations",
    "without_private_names",
]  # fmt: skip

DEFINITION = "_jitgrad_definition"  # where a function that was made of a tree has it
_MADE = "jitgrad_rewritten"
_CHANGED = "its file has changed since it was imported, or its code was made in another way"


class NotRewritable(Exception):
    """A function that can't be rewritten; the message says why, ``line`` where in its file if that is one place."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line = line


# -- from code to text ------------------------------------------------------------------------------------


def definition(code: CodeType) -> ast.FunctionDef | ast.Lambda:
    """The syntax tree of the function whose code this is, with its file's line numbers.

    NotRewritable where what the file has there is not what the code was made of.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise NotRewritable("its source text is not available")
    tree = _tree(code.co_filename, "".join(lines))
    node = _found(tree, code)
    made = code_of(without_private_names(node, code.co_qualname), code, [], _imported(tree))
    if steps_of(made) != steps_of(code) and not _has_pytests_asserts(code):
        raise NotRewritable(_CHANGED)
    return node


def _has_pytests_asserts(code: CodeType) -> bool:
    """Whether pytest has made ``assert`` say more; what it does besides is what the text does."""
    inside = [c for c in code.co_consts if isinstance(c, CodeType)]
    return "@pytest_ar" in code.co_names or any(map(_has_pytests_asserts, inside))


def _found(tree: ast.Module, code: CodeType) -> Any:
    every = [n for n in _on_line(tree, code.co_firstlineno) if _is_called(n, code)]
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = [n for n in every if tuple([a.arg for a in _named(n.args)]) == taken]
    if not found:
        raise NotRewritable(_CHANGED)
    if len(found) > 1:
        found = _at_columns(found, code)
    if len(found) > 1:
        raise NotRewritable("several lambdas with these parameters stand on its line")
    return found[0]


def _at_columns(lambdas: list[Any], code: CodeType) -> list[Any]:
    """Of several lambdas on one line the one whose body holds all instructions of the code, by their columns.

    All of them if Python was told to keep no columns.
    """
    every = [(start, first, end, last) for start, end, first, last in code.co_positions() if first and last]
    known = [place for place in every if None not in place]

    def holds(node: Any) -> bool:
        low, high = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return all(low <= place[:2] and place[2:] <= high for place in known)

    bodies = [n for n in lambdas if known and holds(n.body)]
    # Instructions of a lambda inside of another one lie in the bodies of both: it is the inner one.
    return [n for n in bodies if not any(o is not n and _is_inside(o, n.body) for o in bodies)] or lambdas


def _is_inside(node: ast.AST, other: ast.AST) -> bool:
    return any(node is n for n in ast.walk(other))


@functools.lru_cache(maxsize=256)
def _tree(file: str, text: str) -> ast.Module:
    """The syntax tree of a file, as its text is now."""
    try:
        return parse(text)
    except SyntaxError:
        raise NotRewritable("its file can't be parsed") from None


@functools.lru_cache(maxsize=256)
def _imported(tree: ast.Module) -> tuple[str, ...]:
    """Names that a module binds by imports at its top level.

    Python compiles ``name.method()`` otherwise where it knows ``name`` to be an imported module.
    """
    return tuple({name: None for statement in tree.body for name in _imports(statement)})


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from [(a.asname or a.name).partition(".")[0] for a in node.names if a.name != "*"]
    elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
        for child in ast.iter_child_nodes(node):
            yield from _imports(child)


def _on_line(node: ast.AST, line: int) -> Iterator[Any]:
    """What in a tree stands on a line, or on lines with that among them; a hundredth of a large file's tree."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr_context):
            continue
        last = getattr(child, "end_lineno", None)
        if last is None or _first_line(child) <= line <= last:
            yield child
            yield from _on_line(child, line)


def _first_line(node: Any) -> int:
    """The first line of a statement or an expression, decorators included, as that of a function's code is."""
    decorators = getattr(node, "decorator_list", None)
    return decorators[0].lineno if decorators else node.lineno


def _is_called(node: Any, code: CodeType) -> bool:
    """Whether a node is a function of a code's name that begins on its line."""
    if not isinstance(node, (ast.FunctionDef, ast.Lambda)) or _first_line(node) != code.co_firstlineno:
        return False
    return code.co_name == ("<lambda>" if isinstance(node, ast.Lambda) else node.name)


def _named(arguments: ast.arguments) -> list[ast.arg]:
    """The parameters that have names of their own, in the order in which code has them."""
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


# -- and back ---------------------------------------------------------------------------------------------


def without_annotations(arguments: ast.arguments) -> None:
    """Take annotations away; defaults, which the function that is made gets from the original, become constants."""
    for a in (*_named(arguments), arguments.vararg, arguments.kwarg):
        if a is not None:
            a.annotation = None
    arguments.defaults = [ast.Constant(None) for _ in arguments.defaults]
    arguments.kw_defaults = [None if d is None else ast.Constant(None) for d in arguments.kw_defaults]


def owner_name(qualname: str) -> str:
    """The name of the class around a function, by which Python changes private names in it; "" if there is none."""
    parts = qualname.split(".")
    return parts[-2].lstrip("_") if len(parts) > 1 and parts[-2] != "<locals>" else ""


class _Public(ast.NodeTransformer):
    def __init__(self, owner: str):
        self.owner = owner

    def visit(self, node: Any) -> Any:
        for field in ("id", "attr", "arg", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                setattr(node, field, f"_{self.owner}{name}")
        return self.generic_visit(node)


def without_private_names(node: Any, qualname: str) -> Any:
    """A copy of a definition that means outside of its class what it means there."""
    node, owner = copied(node), owner_name(qualname)
    return _Public(owner).visit(node) if owner else node


def code_of(
    node: ast.FunctionDef | ast.Lambda, code: CodeType, names: Sequence[str], imported: Sequence[str] = ()
) -> CodeType:
    """Code of a function with this tree in the place of the one with ``code``; ``names``: variables that it gets.

    imported: names that the module around it imports, if the code is to be what it is there.
    """
    body: list[ast.stmt]
    if isinstance(node, ast.Lambda):
        body = [ast.Return(node)]
    else:
        node.decorator_list = []
        # By another name, for its own may be a global that it reads, as that of a recursive function.
        node.name = _MADE
        body = [node, ast.Return(ast.Name(_MADE, ast.Load()))]
    outer = [ast.arg(n) for n in (*code.co_freevars, *names)]
    factory = ast.FunctionDef("factory", ast.arguments([], outer, None, [], [], None, []), body, [], None, None)
    if "type_params" in ast.FunctionDef._fields:
        factory.type_params = []  # type: ignore[attr-defined]
    imports = [ast.Import([ast.alias("_", name)]) for name in imported]
    module = ast.fix_missing_locations(ast.Module([*imports, ast.copy_location(factory, node)], []))
    compiled = compile(module, code.co_filename, "exec", dont_inherit=True, flags=_future(code))
    made = _inner(_inner(compiled, "factory"), code.co_name if isinstance(node, ast.Lambda) else _MADE)
    return made.replace(co_name=code.co_name)


def function_of(code: CodeType, original: FunctionType, values: dict[str, Any]) -> Callable[..., Any]:
    """The function of such code, on the original's globals, closure and defaults; ``values`` of the variables."""
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    closure = tuple([cells[name] if name in cells else CellType(values[name]) for name in code.co_freevars])
    made = FunctionType(code, original.__globals__, original.__name__, original.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = original.__kwdefaults__, original.__qualname__
    return made


def _future(code: CodeType) -> int:
    return code.co_flags & 0x1000000  # from __future__ import annotations: they are not evaluated


def _inner(code: CodeType, name: str) -> CodeType:
    found = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name]
    return found[0]
