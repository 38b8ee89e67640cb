"""The signature of an op as a type checker should see it, read from the op's declaration or its Python function.

A signature's annotations are text, in the names of the stub (``Tensor``, ``_Number``); stub_text.py writes them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from jitgrad.commands.stub_parameters import FORMS, INTERNAL, RETURNS
from jitgrad.core import return_types
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.dispatch.op_calls import original
from jitgrad.dispatch.parameter_types import PUBLIC_NAMES, parameter_type
from jitgrad.dispatch.registry import FUNCTIONS, OPS
from jitgrad.dispatch.structured import Structured
from jitgrad.ops import nn  # noqa: F401  (declares its ops, which are imported late)

__all__ = ["signatures"]

_OUT = Parameter("out", Parameter.KEYWORD_ONLY, default=None)


def signatures(name: str, function: Callable[..., Any], owner: str = "") -> list[Signature]:
    """The forms in which a function, or a method of ``owner``, can be called: overloads where there are several."""
    function = original(function)
    plain = _of_declaration(name, function) or _of_function(name, function)
    result = plain.return_annotation
    returned = RETURNS.get(name, "Any" if result is Signature.empty else str(result))
    typed = plain.replace(
        parameters=[_typed(name, p) for p in plain.parameters.values() if p.name not in INTERNAL],
        return_annotation=returned,
    )
    if forms := FORMS.get(f"{owner}.{name}") or FORMS.get(name):
        return [_form(typed, name, positional, result) for positional, result in forms]
    return _with_numpy_names(typed, function)


# -- what is declared -----------------------------------------------------------------------------------


def _of_declaration(name: str, function: Callable[..., Any]) -> Signature | None:
    """The signature of a function that was made of a declaration; None for one that was written by hand."""
    if name.startswith("__") and (operator := _operator(name, function)):
        return operator
    for operation in OPERATIONS.values():
        if function in (operation.function, operation.inplace):
            return _elementwise(operation.op, out=function is operation.function)
    op = _structured_op(function)
    return _structured(op, out=function is op.apply) if op is not None else None


def _structured_op(function: Callable[..., Any]) -> Any:
    """The declared op whose own function, or form in place, this is."""
    declared: list[Any] = [op for op in OPS.values() if isinstance(op, type)]
    return next((op for op in declared if function in (op.apply, getattr(op, "inplace", None))), None)


def _elementwise(op: Any, out: bool) -> Signature:
    operands = [_parameter(PUBLIC_NAMES.get(n, n), _operand(op, n)) for n in op.inputs]
    scalars = [_parameter(n, "_Number", default) for n, default in op.scalars.items()]
    return Signature([*operands, *scalars, *([_OUT] if out else [])], return_annotation="Tensor")


def _operand(op: Any, name: str) -> str:
    """The type of an input: a number may stand for one of several tensors, unless the declaration says otherwise."""
    if len(op.inputs) == 1 or (op.numbers_only and name == op.inputs[0]):
        return "Tensor"
    if op.numbers_only:
        return "_Number"
    return "Tensor | _Number" if op.numbers is None or name in op.numbers else "Tensor"


def _structured(op: type[Structured], out: bool) -> Signature:
    source = inspect.signature(op.forward)
    parameters = [p.replace(name=PUBLIC_NAMES.get(p.name, p.name)) for p in source.parameters.values()]
    if out and "out" not in source.parameters:
        parameters.append(_OUT)
    return Signature(parameters, return_annotation=_result(op))


def _result(op: type[Structured]) -> str:
    if not op.multiple_results:
        return "Tensor"
    return f"return_types.{op.name}" if op.name in return_types.__all__ else "tuple[Tensor, ...]"


def _operator(name: str, function: Callable[..., Any]) -> Signature | None:
    """The signature of an operator of one or two operands; None for other special methods."""
    names = [*inspect.signature(function).parameters][1:]
    if names[:1] == ["out"] or name in ("__invert__", "__neg__", "__pos__"):
        return Signature([_parameter("self", "Tensor")], return_annotation="Tensor")
    if names[:1] not in (["other"], ["exponent"], ["operands"]):
        return None
    other = "object" if name in ("__eq__", "__ne__") else "Tensor | _Number"  # object's take anything
    return Signature([_parameter("self", "Tensor"), _parameter("other", other)], return_annotation="Tensor")


def _parameter(name: str, type_: str, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=type_, default=default)


# -- what is written by hand ----------------------------------------------------------------------------


def _of_function(name: str, function: Callable[..., Any]) -> Signature:
    """The signature of a Python function, with what its wrappers take beside its own parameters."""
    source = inspect.signature(function)
    base: Any = vars(Tensor).get(name[:-1]) or FUNCTIONS.get(name[:-1])
    if name[-1] == "_" and base is not None and name not in FORMS and _takes_anything(source):
        return _in_place(name[:-1], base)
    parameters = dict(source.parameters)
    for wrapper in _wrappers(function):
        own = inspect.signature(wrapper, follow_wrapped=False).parameters
        if "out" in own or "out" in vars(wrapper).get("also_takes", ()):
            parameters.setdefault("out", _OUT)
    ordered = sorted(parameters.values(), key=lambda p: p.kind)  # ``out`` before a ``**named``
    return source.replace(parameters=ordered)


def _takes_anything(source: Signature) -> bool:
    return any(p.kind is Parameter.VAR_KEYWORD for p in source.parameters.values())


def _in_place(name: str, op: Callable[..., Any]) -> Signature:
    """The signature of an in-place form that takes what the op takes, and hands it on without looking at it."""
    form = signatures(name, op)[0]
    return form.replace(parameters=[p for p in form.parameters.values() if p.name != "out"], return_annotation="Tensor")


def _wrappers(function: Any) -> list[Any]:
    found = []
    while hasattr(function, "__wrapped__"):
        found.append(function)
        function = function.__wrapped__
    return found


# -- types ------------------------------------------------------------------------------------------------


def _typed(function: str, parameter: Parameter) -> Parameter:
    """The parameter with a type, as text."""
    typed = parameter.replace(annotation=parameter_type(function, parameter))
    # ``...`` is how functions mark an argument that is required, though it has another name too.
    return typed.replace(default=Parameter.empty) if parameter.default is ... else typed


# -- several forms ----------------------------------------------------------------------------------------


def _form(signature: Signature, function: str, positional: str, result: str) -> Signature:
    """One form of a call: positional parameters from text, the keyword-only ones of the function."""
    scope: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef form({positional}): ...", scope)
    stated = inspect.signature(scope["form"]).parameters
    keywords = [
        p for p in signature.parameters.values() if p.kind is Parameter.KEYWORD_ONLY and p.name not in stated
    ]  # fmt: skip
    if function in return_types.__all__:  # ``out`` is one tensor, or as many as there are results
        keywords = [_OUT.replace(annotation="Any" if "return_types" in result else "Tensor | None")]
    returned = result.replace("NAME", function) or signature.return_annotation
    return Signature([*stated.values(), *keywords], return_annotation=returned)


def _with_numpy_names(signature: Signature, function: Callable[..., Any]) -> list[Signature]:
    """The signature, with NumPy's ``axis`` and ``keepdims`` where the function takes them for dim and keepdim."""
    parameters = signature.parameters
    if "dim" not in parameters or not _takes_numpy_names(function):
        return [signature]
    dim, keepdim = parameters["dim"], parameters.get("keepdim")
    axis = dim.replace(name="axis", kind=Parameter.KEYWORD_ONLY)
    keepdims = [keepdim.replace(name="keepdims", kind=Parameter.KEYWORD_ONLY)] if keepdim else []
    if dim.default is not Parameter.empty:
        return [_with_keywords(signature, axis, *keepdims)]
    # A dim that is required is either of two names: one form for each.
    without = [p for p in parameters.values() if p.name != "dim"]
    after = [p.replace(kind=Parameter.KEYWORD_ONLY) if p.name != "input" else p for p in without]
    return [
        _with_keywords(signature, *keepdims),
        _with_keywords(signature.replace(parameters=after), axis, *keepdims),
    ]


def _with_keywords(signature: Signature, *added: Parameter) -> Signature:
    return signature.replace(parameters=sorted([*signature.parameters.values(), *added], key=lambda p: p.kind))


def _takes_numpy_names(function: Any) -> bool:
    if any("axis" in vars(w).get("also_takes", ()) for w in _wrappers(function)):
        return True
    op = _structured_op(function)
    return op is not None and op.apply is function and "keepdim" in op.parameters
