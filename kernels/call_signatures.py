"""A cache of the signatures that Numba finds for calls, by the function and its argument types.

For each operation in a kernel's text Numba tries the templates of its function one by one: at least twice in type
inference, and up to four times more in lowering. A fifth of the Python calls of a compilation went there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["kept_signatures"]

_signatures: dict[Any, Any] = {}  # by the function's type and those of its arguments


@contextmanager
def kept_signatures() -> Iterator[None]:
    """While this is entered, Numba takes signatures that it found before from the cache."""
    # The lock keeps other threads from compiling meanwhile. It is reentrant: a kernel compiles functions that it calls.
    with global_compiler_lock:
        kind: Any = types.Function
        find = kind.get_call_type

        def found_once(function: Any, context: Any, args: Any, kws: Any) -> Any:
            if kws:
                return find(function, context, args, kws)
            call = function, tuple(args)
            signature = _signatures.get(call)
            if signature is None:
                signature = find(function, context, args, kws)
                if signature is not None:
                    _signatures[call] = signature
            return signature

        kind.get_call_type = found_once
        try:
            yield
        finally:
            kind.get_call_type = find
