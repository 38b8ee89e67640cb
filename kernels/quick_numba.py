"""Repeated work in Numba's compiler, replaced by quicker equivalents while a kernel is compiled.

Each of these is 3 to 20 % of the Python calls of a compilation. For each operation the templates of its function are
tried one by one, at least twice in type inference and up to four times more in lowering: signatures are cached. Each
call of an intrinsic refreshes all registries: the answer is cached. Passes list the variables of a statement by a
recursive search with ``isinstance``: types that hold none are remembered. An event is sent before and after each call
of LLVM: it is left out unless a listener is registered. ``number.view(dtype)`` is an overload
that Numba compiles for each pair of types, 40 ms each: its signature follows from the types alone, and `brief_lowering`
emits a bitcast for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite.binding import ffi
from numba.core import event, ir, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing import signature, templates

__all__ = ["is_number_view", "quick_numba"]

_signatures: dict[Any, Any] = {}  # by the function's type and those of its arguments
_registries: dict[Any, Any] = {}  # by the target that a template names, and what for
_FUNCTION: Any = types.Function
_METHOD: Any = types.BoundFunction
_HELPER: Any = templates._TemplateTargetHelperMixin
_INSTRUCTION: Any = ir.Inst
_find_signature, _find_registry, _search, _find_method = (
    _FUNCTION.get_call_type, _HELPER._get_target_registry, _INSTRUCTION._rec_list_vars, _METHOD.get_call_type,
)  # fmt: skip
# Read here, so that another Numba, whose parts have moved, is noticed when this is imported: see compiler.py.
_LOCK: Any = ffi.lib._lock
_LISTENERS, _MUTEX = event._registered, _LOCK._lock
_PLAIN = {str, int, bool, float, type(None), ir.Loc}  # what holds no variable; others are added when they are met


@contextmanager
def quick_numba() -> Iterator[None]:
    """Replace these parts of Numba for the time of the block."""
    # The lock keeps other threads from compiling meanwhile. It is reentrant: a kernel compiles functions that it calls.
    with global_compiler_lock, _no_lock_events():
        before = (
            _FUNCTION.get_call_type, _HELPER._get_target_registry, _INSTRUCTION._rec_list_vars, _METHOD.get_call_type,
        )  # fmt: skip
        _set(_known_signature, _known_registry, _variables, _known_method)
        try:
            yield
        finally:
            _set(*before)


def _set(get_call_type: Any, get_target_registry: Any, list_variables: Any, get_method_type: Any) -> None:
    _FUNCTION.get_call_type, _HELPER._get_target_registry = get_call_type, get_target_registry
    _INSTRUCTION._rec_list_vars, _METHOD.get_call_type = list_variables, get_method_type


def _known_signature(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a call; it depends on nothing but the types, once there is one."""
    if kws:
        return _find_signature(function, context, args, kws)
    call = function, tuple(args)
    signature = _signatures.get(call)
    if signature is None:
        signature = _find_signature(function, context, args, kws)
        if signature is not None:
            _signatures[call] = signature
    return signature


def _known_registry(template: Any, reason: str) -> Any:
    """The registry for the lowering of an intrinsic, found once for each target and typing context.

    Numba's method refreshes all registries before each answer. A lowering that is registered later is found without
    that: where a look-up of one fails, Numba refreshes and tries again.
    """
    asked = template.metadata.get("target", "generic"), reason, template.context
    found = _registries.get(asked)
    if found is None:
        found = _registries[asked] = _find_registry(template, reason)
    return found


def _known_method(method: Any, context: Any, args: Any, kws: Any) -> Any:
    """The signature of a method's call: for the view of a number without compiling Numba's overload."""
    if is_number_view(method, args) and not kws:
        return signature(args[0].dtype, args[0], recvr=method.this)
    return _find_method(method, context, args, kws)


def is_number_view(method: Any, args: Any) -> bool:
    """Whether a call reads the bits of a number as one of another dtype of the same size."""
    number = getattr(method, "this", None)
    asked: Any = args[0] if len(args) == 1 else None
    if not isinstance(number, (types.Integer, types.Float)) or not isinstance(asked, types.DTypeSpec):
        return False
    return bool(method.template.key[1:] == ("view",) and getattr(asked.dtype, "bitwidth", 0) == method.this.bitwidth)


def _variables(self: Any, value: Any) -> list[Any]:
    """The variables in a statement, or in a part of one."""
    kind = type(value)
    if kind in _PLAIN:
        return []
    if kind is ir.Var:
        return [value]
    if kind is not dict and kind is not list and kind is not tuple:
        return _variables_of_other(self, value)
    found = []
    for part in value.values() if kind is dict else value:
        kind = type(part)
        if kind is ir.Var:
            found.append(part)
        elif kind not in _PLAIN:
            found += self._rec_list_vars(part)
    return found


def _variables_of_other(self: Any, value: Any) -> list[Any]:
    if isinstance(value, ir.Inst):
        return value.list_vars()
    if isinstance(value, (ir.Var, dict, list, tuple)):
        return _search(self, value)
    _PLAIN.add(type(value))
    return []


@contextmanager
def _no_lock_events() -> Iterator[None]:
    """Numba's events of LLVM's lock are left out, unless somebody listens."""
    if _LISTENERS["numba:llvm_lock"]:
        yield
        return
    with _MUTEX:  # no other thread is in a call then, between the event of its start and that of its end
        before, _LOCK._cblist = _LOCK._cblist, []
    try:
        yield
    finally:
        with _MUTEX:
            _LOCK._cblist = before
