"""What it takes to call a compiled function by words, kept for each combination of argument types."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from numba._dispatcher import compute_fingerprint
from numba.core import types

from jitgrad.kernels.native_entry import entry, kernel_address

__all__ = ["KernelForm", "kernel_form"]


class KernelForm(NamedTuple):
    """The address of a compiled function, its entry and the words that this takes, and its arguments' Numba types."""

    kernel: int
    entry: int
    words: int
    types: tuple[Any, ...]


# By compiled function, and by fingerprints of its arguments: Numba takes a quarter of a millisecond to name the types
# of a launch and to find the machine types that these have.
_forms: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], KernelForm]] = weakref.WeakKeyDictionary()


def kernel_form(run: Any, args: Sequence[Any]) -> KernelForm:
    """How ``run`` is called on such arguments; NotImplementedError if it takes what words can't be made of."""
    key = tuple(map(_fingerprint, args))
    forms = _forms.setdefault(run, {})
    if key not in forms:
        forms[key] = _form(run, args)
    return forms[key]


def _fingerprint(value: Any) -> Any:
    # Numba has the same one for all ints, but a type of its own for those beyond 63 bits.
    if type(value) is int and value >= 1 << 63:
        return types.uint64
    try:
        return compute_fingerprint(value)
    except (NotImplementedError, ValueError):
        return type(value), getattr(value, "dtype", None)


def _form(run: Any, args: Sequence[Any]) -> KernelForm:
    signature = tuple([run.typeof_pyval(a) for a in args])
    if not all(isinstance(t, (types.Array, types.Integer, types.Boolean, types.Float, types.Complex))
               for t in signature):  # fmt: skip
        raise NotImplementedError
    run.compile(signature)
    address, count = entry(signature)
    return KernelForm(kernel_address(run.overloads[signature]), address, count, signature)
