"""Ops by schemas: ``Library``, and the functions that register a form of an op by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgrad.library.custom import devices_of, registered
from jitgrad.library.operators import Operator, find, namespace
from jitgrad.library.schema import parse

__all__ = [
    "Library", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract", "register_autocast",
    "register_autograd", "register_fake", "register_kernel", "register_vmap",
]  # fmt: skip

# PyTorch's dispatch keys -> those of an Operator; devices have their own names.
_KEYS = {
    "": "composite", "compositeimplicitautograd": "composite", "compositeexplicitautograd": "default", "meta": "fake",
    "autograd": "autograd", "autogradcpu": "autograd", "autogradcuda": "autograd", "cpu": "cpu", "cuda": "cuda",
    "default": "default",
}  # fmt: skip


def _key(dispatch_key: Any) -> str:
    name = str(getattr(dispatch_key, "name", dispatch_key)).lower()
    if name not in _KEYS:
        raise NotImplementedError(f"torch.library: functions for dispatch key {dispatch_key!r} are never called here")
    return _KEYS[name]


class Library:
    """Defines ops in a namespace (``kind`` "DEF"), or adds functions to those of one ("IMPL", "FRAGMENT").

    They go when the object is freed, as in PyTorch, or by ``_destroy``.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: Any = ""):
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError("Unsupported kind: ", kind)
        if ns in ("aten", "prim", "prims"):
            raise ValueError(f"{ns} is a reserved namespace: ops of PyTorch's own can't be exchanged here")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._made: list[Operator] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an op by its schema, ``name(Tensor x) -> Tensor``; return its name."""
        operator = Operator(self.ns, parse(schema))
        operator.tags = tuple(tags) if isinstance(tags, (list, tuple)) else (tags,)
        namespace(self.ns).add(operator)
        self._made.append(operator)
        return operator.schema.name

    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: Any = "", *, with_keyset: bool = False, **options: Any
    ) -> None:  # fmt: skip
        """Call ``fn`` for an op, where the tensors are of the device that ``dispatch_key`` names."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        name = op_name if isinstance(op_name, str) else op_name.name()
        name = name if "::" in name else f"{self.ns}::{name}"
        registered(find(name), [_key(dispatch_key or self.dispatch_key)], fn)

    def fallback(self, fn: Callable[..., Any], dispatch_key: Any = "", *, with_keyset: bool = False) -> None:
        """NotImplementedError: there is no dispatcher that would fall back."""
        raise NotImplementedError("torch.library.Library.fallback: there is no dispatcher that would fall back")

    def _destroy(self) -> None:
        for operator in self._made:
            namespace(self.ns).remove(operator)
        self._made.clear()


def fallthrough_kernel() -> None:
    """NotImplementedError: it is a mark, and never called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


_kept: dict[str, Library] = {}


def _library(lib: Library | None, qualname: str) -> Library:
    space, separator, _ = qualname.partition("::")
    if not separator:
        raise ValueError(f"expected a name 'namespace::name', but got {qualname!r}")
    return lib if lib is not None else _kept.setdefault(space, Library(space, "FRAGMENT"))


def define(qualname: str, schema: Any = None, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Define the op "namespace::name" by its schema, ``(Tensor x) -> Tensor``."""
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    _library(lib, qualname).define(qualname.partition("::")[2] + schema, tags=tags)
    return None


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Library | None = None) -> Any:
    """Call ``func`` for an op with tensors of the devices ``types``, "default" for all. Without it, a decorator."""
    kinds = [types] if isinstance(types, str) else list(types)
    keys = [_KEYS.get(kind.lower(), kind.lower()) for kind in kinds]
    return registered(find(qualname), keys, func)


def register_kernel(
    op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:  # fmt: skip
    """Call ``func`` for an op with tensors of these devices; None: of all."""
    return registered(find(op), devices_of(device_types), func)


def register_fake(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, _stacklevel: int = 1, **options: Any
) -> Any:  # fmt: skip
    """Call ``func`` for an op with tensors of the meta device."""
    return registered(find(op), ["fake"], func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:  # fmt: skip
    """Give an op a gradient, as ``CustomOpDef.register_autograd`` does."""
    operator = find(op)
    operator.backward, operator.setup_context = backward, setup_context
    operator.changed()


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Give an op a form for batches: ``func(info, in_dims, *args)``."""
    operator = find(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator.vmap = function
        operator.changed()
        return function

    return register if func is None else register(func)


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Nothing, but an error for an op that does not exist: arguments keep their dtypes inside of ``autocast``."""
    find(op)


def get_ctx() -> Any:
    """RuntimeError: what asks for it makes shapes that depend on data, which nothing here needs."""
    raise RuntimeError("torch.library.get_ctx() can only be called while a fake implementation is being traced")


