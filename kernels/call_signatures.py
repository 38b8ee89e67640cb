"""What calls return, kept from one place of a text to the next, and from one kernel to the next.

For each operation in a text Numba tries the templates of its function one by one: at least twice to infer types, and up
to four times more to lower it. A quarter of its calls of Python go there.
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
    """For the time of a compilation Numba looks up what it found for the same function and arguments before."""
    # No other thread compiles meanwhile; the lock is reentrant, and a kernel compiles the functions that it calls.
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
