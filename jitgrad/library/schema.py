"""Schemas of ops: ``(Tensor x, float alpha=1.0, *, bool flag=False) -> Tensor``, read and inferred."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Union, get_args, get_origin

from jitgrad.core.device import device
from jitgrad.core.dtypes import dtype
from jitgrad.core.tensor import Tensor

__all__ = ["Schema", "infer_schema", "parse"]

_TYPES: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", dtype: "ScalarType", device: "Device",
    types.NoneType: "()",
}  # fmt: skip
_WORDS = {"None": None, "True": True, "False": False}


class Schema(typing.NamedTuple):
    """An op's name, the signature that its calls are bound by, and its text."""

    name: str
    overload: str
    signature: inspect.Signature
    text: str


def _type_text(kind: Any, where: str) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    origin, items = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [k for k in items if k is not types.NoneType]
        if set(kinds) == {int, float} or set(kinds) == {int, float, bool}:
            return "Scalar" + "?" * (len(kinds) < len(items))
        if len(kinds) == 1 and len(items) == 2:
            return _type_text(kinds[0], where) + "?"
    if isinstance(origin, type) and issubclass(origin, Sequence) and items:
        return _type_text(items[0], where) + "[]"
    raise ValueError(f"infer_schema(func): {where} has unsupported type {kind}.")


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None
) -> str:  # fmt: skip
    """The schema of a function by its annotations. ValueError for one that is missing, or of an unsupported type.

    mutates_args: the names of arguments that it writes to, or "unknown".
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    texts, keywords = [], False
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError(
                "infer_schema(func): We do not support positional-only args, varargs, or varkwargs. Got func with "
                f"signature {signature})"
            )
        if name not in hints:
            raise ValueError(
                f"infer_schema(func): Parameter {name} must have a type annotation. Got func with signature "
                f"{signature})"
            )
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            texts.append("*")
            keywords = True
        text = _type_text(hints[name], f"Parameter {name}")
        if text.startswith("Tensor") and (mutates_args == "unknown" or name in mutates_args):
            text = text.replace("Tensor", f"Tensor(a{len(texts)}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_default_text(parameter.default)}"
        texts.append(f"{text} {name}{default}")
    unknown = [] if mutates_args == "unknown" else sorted(set(mutates_args) - set(signature.parameters))
    if unknown:
        raise ValueError(
            f"infer_schema(func): {unknown} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string \"unknown\" if you "
            "don't know."
        )
    return f"{op_name or ''}({', '.join(texts)}) -> {_returned(hints.get('return', inspect.Signature.empty))}"


def _default_text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).removeprefix("torch.")


def _returned(kind: Any) -> str:
    if kind is inspect.Signature.empty:
        raise ValueError("infer_schema(func): Return must have a type annotation; use None where nothing is returned.")
    if get_origin(kind) is tuple:
        return f"({', '.join(_type_text(k, 'Return') for k in get_args(kind))})"
    return _type_text(kind, "Return")


def parse(text: str) -> Schema:
    """The parts of ``name.overload(Tensor x, ...) -> ...``. RuntimeError for other text."""
    found = re.fullmatch(r"\s*(?:\w+::)?(\w+)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*", text, re.S)
    if found is None:
        raise RuntimeError(f"expected a schema such as 'name(Tensor x) -> Tensor', but got {text!r}")
    name, overload, arguments, _ = found.groups()
    parameters: list[inspect.Parameter] = []
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for part in _split(arguments):
        if part == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        declared, _, default = part.partition("=")
        kind_text, own = declared.split()[0], declared.split()[-1]
        value: Any = inspect.Parameter.empty if not default else _value(default.strip())
        parameters.append(inspect.Parameter(own, kind, default=value, annotation=kind_text))
    return Schema(name, overload or "", inspect.Signature(parameters), text.strip())


def _split(arguments: str) -> Iterable[str]:
    """The arguments between commas that are in no brackets."""
    depth, start = 0, 0
    for k, letter in enumerate(arguments):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield arguments[start:k].strip()
            start = k + 1
    if arguments[start:].strip():
        yield arguments[start:].strip()


def _value(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == "[":
        return [_value(part) for part in _split(text[1:-1])]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("\"'")
