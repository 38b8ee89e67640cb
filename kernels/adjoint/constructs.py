"""What a function may not contain, refused before anything is known of its arguments."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any

from jitgrad.kernels.adjoint.expressions import as_value
from jitgrad.kernels.adjoint.known import is_known
from jitgrad.kernels.adjoint.routine import MISSING, Routine, calls_into, plain_function, shortened
from jitgrad.kernels.codegen.loop_faults import root, stores
from jitgrad.kernels.words.syntax import SourceError, ships_with_jitgrad

__all__ = ["refuse_constructs"]

ATTRIBUTES = {
    "shape", "size", "ndim", "dtype", "T", "copy", "astype", "fill", "transpose", "item", "sum", "prod", "max", "min",
    "any", "all", "mean", "var", "std", "argmax", "argmin", "dot", "cumsum", "ravel", "reshape", "flatten",
}  # fmt: skip
_ARRAYS = "keep numbers in arrays or variables"
_LOOP = "write a loop that fills an array"
_TOP = "define it at the top of the file"
# What is refused wherever it stands: what to call it, and what to write instead.
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Dict: ("a dict", _ARRAYS),
    ast.DictComp: ("a dict", _ARRAYS),
    ast.Set: ("a set", _ARRAYS),
    ast.SetComp: ("a set", _ARRAYS),
    ast.ListComp: ("a list comprehension", _LOOP),
    ast.GeneratorExp: ("a generator", _LOOP),
    ast.Yield: ("a generator", _LOOP),
    ast.YieldFrom: ("a generator", _LOOP),
    ast.Await: ("await", "write a plain function"),
    ast.JoinedStr: ("a string", "use numbers"),
    ast.Lambda: ("a lambda", f"{_TOP} as a function"),
    ast.FunctionDef: ("a function within", _TOP),
    ast.AsyncFunctionDef: ("a function within", _TOP),
    ast.ClassDef: ("a class within", _TOP),
    ast.Try: ("try", "raise errors only"),
    ast.TryStar: ("try", "raise errors only"),
    ast.With: ("with", "call the function within it from outside"),
    ast.AsyncWith: ("with", "call the function within it from outside"),
    ast.AsyncFor: ("async for", "write a plain loop"),
    ast.Global: ("global", "return the value"),
    ast.Nonlocal: ("nonlocal", "return the value"),
    ast.Delete: ("del", "leave the statement out"),
    ast.Import: ("import", "import at the top of the file"),
    ast.ImportFrom: ("import", "import at the top of the file"),
    ast.NamedExpr: ("an assignment within an expression", "assign ahead of the statement"),
    ast.Match: ("match", "write if and elif"),
    ast.Starred: ("a starred expression", "write the values out"),
}


def refuse_constructs(function: Callable[..., Any]) -> None:
    """SourceError for a construct that can't be differentiated, here or in a function that is called."""
    _refuse(plain_function(function), [])
    _refuse_writes(Routine(plain_function(function)))


def _refuse_writes(routine: Routine) -> None:
    """Of an input that the function gives no other value, as that might be a copy."""
    assigned = {n.id for n in ast.walk(routine.tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inputs = {a.arg for a in routine.tree.args.args if not a.arg.startswith("out")} - assigned
    for node in [n for n in ast.walk(routine.tree) if isinstance(n, (ast.Assign, ast.AugAssign))]:
        for name in [root(store) for store in stores([node]) if root(store) in inputs]:
            what = f"writes into its input {name}: {shortened(node)}"
            raise routine.fault(node, f"{what}; write into a parameter named out..., or into a copy")


def _refuse(function: Callable[..., Any], callers: list[Callable[..., Any]]) -> None:
    routine = Routine(function)
    _refuse_parameters(routine)
    texts = _texts(routine.tree)
    lists = _lists(routine)
    for node in _walk(routine.tree):
        if type(node) in _REFUSED and not (isinstance(node, ast.JoinedStr) and id(node) in texts):
            what, instead = _REFUSED[type(node)]
            raise routine.fault(node, f"uses {what}: {shortened(node)}; {instead}")
        if isinstance(node, (ast.For, ast.While)) and node.orelse:
            raise routine.fault(node.orelse[0], "uses else of a loop; set a flag where the loop is left")
        if isinstance(node, ast.Constant) and id(node) not in texts:
            _refuse_constant(routine, node)
        if isinstance(node, ast.List) and id(node) not in lists:
            raise routine.fault(node, f"uses a list {shortened(node)}; {_ARRAYS}")
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            raise routine.fault(node, f"assigns to an attribute: {shortened(node)}; {_ARRAYS}")
        elif isinstance(node, ast.Attribute):
            _refuse_attribute(routine, node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            _refuse_name(routine, node)
        if isinstance(node, ast.Call):
            _refuse_call(routine, node, [*callers, function])


def _refuse_parameters(routine: Routine) -> None:
    arguments = routine.tree.args
    for argument, stars in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if argument is not None:
            raise routine.fault(argument, f"takes {stars}{argument.arg}; write its parameters out")


def _refuse_constant(routine: Routine, node: ast.Constant) -> None:
    kinds: dict[type, tuple[str, str]] = {
        str: ("a string", "use numbers"),
        bytes: ("bytes", "use numbers"),
        complex: ("a complex number", "keep the real and the imaginary part in two variables"),
    }
    if type(node.value) in kinds:
        what, instead = kinds[type(node.value)]
        raise routine.fault(node, f"uses {what} {shortened(node)}; {instead}")


def _refuse_attribute(routine: Routine, node: ast.Attribute) -> None:
    if routine.resolve(node) is MISSING and node.attr not in ATTRIBUTES:
        if isinstance(routine.resolve(node.value), types.ModuleType):
            raise routine.fault(node, f"uses {shortened(node)}, which is not defined")
        known = "attributes of arrays are shape, size, ndim, dtype and T"
        raise routine.fault(node, f"uses the attribute {shortened(node)}; {known}")


def _refuse_name(routine: Routine, node: ast.Name) -> None:
    """A name of the file's that stands for no number, function or module."""
    found = MISSING if node.id in routine.locals else routine.meaning(node.id)
    if found is not MISSING and as_value(found) is None:
        raise routine.fault(node, f"uses {node.id}, a {type(found).__name__} from outside; make it a parameter")


def _refuse_call(routine: Routine, node: ast.Call, callers: list[Callable[..., Any]]) -> None:
    """A call of what is unknown, or of a function that is being called already."""
    found = routine.resolve(node.func)
    if found is MISSING:
        if isinstance(node.func, ast.Name) and node.func.id not in routine.locals:
            raise routine.fault(node, f"calls {node.func.id}, which is not defined")
        return
    if not calls_into(found) or ships_with_jitgrad(getattr(found, "__module__", None)):
        if not is_known(found):
            outside = "draw the numbers outside and pass them in" if "random" in ast.unparse(node.func) else (
                "write it out in loops, or compute it outside and pass the result in")  # fmt: skip
            raise routine.fault(node, f"calls {shortened(node.func)}, which can't be differentiated; {outside}")
        return
    called = plain_function(found)
    if is_known(found):
        return
    if called in callers:
        raise routine.fault(node, f"calls {called.__name__} within itself: {shortened(node)}; write a loop")
    try:
        _refuse(called, callers)
    except SourceError as error:
        if "source text is not available" in str(error):
            raise routine.fault(node, f"calls {shortened(node.func)}, whose source text is not available") from error
        raise


def _walk(tree: ast.FunctionDef) -> list[ast.AST]:
    """The nodes of the body in the order of the text."""
    waiting: list[ast.AST] = list(reversed(tree.body))
    found = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AnnAssign):
            waiting += [n for n in (node.value, node.target) if n is not None]
            continue
        found.append(node)
        waiting += reversed(list(ast.iter_child_nodes(node)))
    return found


def _texts(tree: ast.FunctionDef) -> set[int]:
    """The strings that may stand in a function: its docstring, and the messages of errors."""
    found: set[int] = set()
    for node in ast.walk(tree):
        allowed: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            allowed = [node.value]
        elif isinstance(node, ast.Raise) and node.exc is not None:
            allowed = list(ast.walk(node.exc))
        elif isinstance(node, ast.Assert) and node.msg is not None:
            allowed = list(ast.walk(node.msg))
        found |= {id(n) for n in allowed}
    return found


def _lists(routine: Routine) -> set[int]:
    """The lists that are written as arrays, ``np.array([...])``, or are targets."""
    import numpy as np

    found: set[int] = set()
    for node in ast.walk(routine.tree):
        if isinstance(node, ast.List) and isinstance(node.ctx, ast.Store):
            found.add(id(node))
        if isinstance(node, ast.Call) and routine.resolve(node.func) in (np.array, np.asarray) and node.args:
            found |= {id(n) for n in ast.walk(node.args[0]) if isinstance(n, ast.List)}
    return found
