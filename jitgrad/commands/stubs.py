"""The stubs that editors and type checkers read, written from the declarations: names, signatures, first lines of docs.

Most functions and methods are made when their ops are declared, so no checker finds them in the source. A stub hides
its module: what jitgrad's own code uses of these modules is in the stubs too.
"""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from inspect import Signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import jitgrad
from jitgrad.commands.stub_parameters import RETURNS
from jitgrad.commands.stub_signatures import signatures
from jitgrad.commands.stub_text import StubFile
from jitgrad.core import return_types, tensor
from jitgrad.core.dtypes import dtype
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.dispatch.registry import FUNCTIONS, publish_rest

__all__ = ["stale", "texts", "write"]

_ROOT = Path(jitgrad.__file__).parent


def texts() -> dict[Path, str]:
    """The stubs, by their files."""
    publish_rest()
    return {
        _ROOT / "__init__.pyi": _package(),
        _ROOT / "core" / "return_types.pyi": _return_types(),
        _ROOT / "core" / "tensor.pyi": _tensor_module(),
        _ROOT / "dispatch" / "table.pyi": _table(),
        **{_ROOT / f"{name.replace('.', '/')}.pyi": _module(name) for name in _MODULES},
    }


def stale() -> dict[Path, str]:
    """The stubs that are not what the declarations say, and what they should be."""
    return {p: text for p, text in texts().items() if not p.exists() or p.read_text(encoding="utf-8") != text}


def write() -> list[Path]:
    """Write the stubs that are stale; return their files."""
    fresh = stale()
    for path, text in fresh.items():
        path.write_text(text, encoding="utf-8")
    return list(fresh)


def _doc(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "").split("\n")[0]


# -- jitgrad ----------------------------------------------------------------------------------------------


def _package() -> str:
    stub = StubFile("jitgrad")
    source = ast.parse((_ROOT / "__init__.py").read_text(encoding="utf-8"))
    homes = _imported_names(source)
    names = [n for n in dir(jitgrad) if n[0] != "_"]
    names = sorted({*names, *(n for n in FUNCTIONS if "." not in n)})  # those of modules are in the modules' stubs
    stub.taken = frozenset(names)
    stub.add("__version__: str")
    for name in names:
        _public_name(stub, name, getattr(jitgrad, name), homes)
    return stub.text()


# Modules of jitgrad whose names are all published functions.
_MODULES = ("fft", "linalg", "masked", "signal.windows", "special")


def _module(name: str) -> str:
    """The stub of ``jitgrad.NAME``, of which all functions are published by ops."""
    module = import_module(f"jitgrad.{name}")
    stub = StubFile(module.__name__)
    for title in (n for n in dir(module) if n[0] != "_"):
        value: Any = getattr(module, title)
        if f"{name}.{title}" in FUNCTIONS:
            stub.function(title, signatures(f"{name.replace('.', '_')}_{title}", value), _doc(value))
        else:
            stub.export("jitgrad", value.__name__, title)
    return stub.text()


def _imported_names(source: ast.Module) -> dict[str, tuple[str, str]]:
    """What jitgrad/__init__.py imports by a public name: the module it comes from, its name there."""
    return {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name)[0] != "_"
    }


def _public_name(stub: StubFile, name: str, value: Any, homes: dict[str, tuple[str, str]]) -> None:
    if name in FUNCTIONS and isinstance(value, FunctionType):
        stub.function(name, signatures(name, value), _doc(value))
    elif isinstance(value, ModuleType):
        package, _, attribute = value.__name__.rpartition(".")
        stub.export(package, attribute, name)
    elif isinstance(value, float) or value is None:
        stub.add(f"{name}: {stub.type(type(value).__name__ if value is not None else 'None')}")
    elif name in homes:
        stub.export(*homes[name], name)
    elif isinstance(value, dtype):
        stub.add(f"{name}: {stub.type('dtypes.dtype')}")
    elif type(value) is type and (base := value.__mro__[1]) in FUNCTIONS.values():  # made in a loop, as FloatStorage
        stub.add(f"{name}: {stub.type('builtins')}.type[{stub.private(base.__module__, base.__qualname__)}]")
    elif isinstance(value, FunctionType) or type(value) is type:
        # Classes that call themselves jitgrad's are defined where the package finds them at their first use.
        home = vars(jitgrad)["_LAZY"][name] if value.__module__ == "jitgrad" else value.__module__
        stub.export(home, value.__qualname__, name)
    else:  # an object of a class of ours, such as ``torch.strided``
        stub.add(f"{name}: {stub.private(type(value).__module__, type(value).__qualname__)}")


# -- jitgrad.core.tensor ------------------------------------------------------------------------------------


def _tensor_module() -> str:
    stub = StubFile(tensor.__name__)
    stub.add(f"F = {stub.type('TypeVar')}('F', bound={stub.type('Callable[..., Any]')})".replace("'", '"'))
    stub.add()
    stub.taken = frozenset(n for n in dir(Tensor) if n[0] != "_")
    stub.add("class Tensor:")
    stub.add(f'"""{_doc(Tensor)}"""', 1)
    for name in sorted({*vars(Tensor), *Tensor.__annotations__} - _OF_EVERY_CLASS):
        _member(stub, name, vars(Tensor).get(name))
    stub.taken = frozenset("F")
    stub.add()
    for name, value in sorted(vars(tensor).items()):
        if isinstance(value, FunctionType) and value.__module__ == tensor.__name__ and name[0] != "_":
            stub.function(name, [inspect.signature(value)], _doc(value))
    return stub.text()


_OF_EVERY_CLASS = {  # in one version of Python or another
    "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__dict__", "__doc__",
    "__firstlineno__", "__module__", "__static_attributes__", "__weakref__",
}  # fmt: skip


def _member(stub: StubFile, name: str, member: Any) -> None:
    if isinstance(member, property):
        _property(stub, name, member)
    elif isinstance(member, FunctionType):
        stub.function(name, [_bound(form) for form in signatures(name, member, "Tensor")], _doc(member), 1)
    else:
        known = Tensor.__annotations__.get(name) or ("None" if member is None else type(member).__name__)
        stub.add(f"{name}: {stub.type(known)}", 1)


def _bound(form: Signature) -> Signature:
    """A function's signature as that of a method: the first parameter is the tensor, also where it has another name."""
    first, *rest = form.parameters.values()
    name = first.name if first.name == "cls" else "self"
    first = first.replace(name=name, annotation=inspect.Parameter.empty)
    return form.replace(parameters=[first, *rest])


def _property(stub: StubFile, name: str, member: property) -> None:
    getter: Any = member.fget
    type_ = stub.type(RETURNS.get(name) or getter.__annotations__.get("return", "Any"), getter.__globals__)
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    value = inspect.Parameter("value", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=type_)
    stub.function(name, [Signature([self], return_annotation=type_)], _doc(member), 1, "property")
    if member.fset:
        stub.function(name, [Signature([self, value], return_annotation="None")], "", 1, f"{name}.setter")
    if member.fdel:
        stub.function(name, [Signature([self], return_annotation="None")], "", 1, f"{name}.deleter")


# -- the smaller ones -----------------------------------------------------------------------------------------


def _return_types() -> str:
    stub = StubFile(return_types.__name__)
    stub.add(f"__all__ = {sorted(return_types.__all__)}".replace("'", '"'))
    stub.add()
    for name in sorted(return_types.__all__):
        kind = getattr(return_types, name)
        stub.add(f"class {name}({stub.type('NamedTuple')}):")
        stub.add(f'"""{_doc(kind)}"""', 1)
        for field in kind._fields:
            stub.add(f"{field}: {stub.type('Tensor')}", 1)
        stub.add()
    return stub.text()


def _call(self: Any, *operands: Any, out: Tensor | None = None, **named: Any) -> Tensor:
    """How any function of the table is called: the form in which ops take one as an argument."""
    raise NotImplementedError


def _table() -> str:
    """The names that jitgrad's own declarations have in ``dispatch.table``; those of users' ops are not there."""
    stub = StubFile(table.__name__)
    stub.add(f"class Function({stub.type('Protocol')}):")
    stub.add("__name__: str", 1)
    stub.add(f"operation: {stub.type('ElementwiseOp')}", 1)
    stub.function("__call__", [_bound(inspect.signature(_call))], "", 1)
    stub.add()
    for name in sorted(n for n, o in OPERATIONS.items() if o.op.__module__.startswith("jitgrad.kernels")):
        stub.add(f"{name}: Function")
    return stub.text()
