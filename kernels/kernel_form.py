"""What it takes to call a compiled function by words, kept for each combination of argument kinds."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.kernels.argument_kinds import Kind, kinds_of
from jitgrad.kernels.native_entry import entry

__all__ = ["KernelForm", "kernel_form"]


class KernelForm(NamedTuple):
    """The address of a compiled function, its entry and the words that this takes, and its arguments' kinds."""

    kernel: int
    entry: int
    words: int
    kinds: tuple[Kind, ...]


_forms: weakref.WeakKeyDictionary[Any, dict[tuple[Kind, ...], KernelForm]] = weakref.WeakKeyDictionary()


def kernel_form(run: Any, args: Sequence[Any]) -> KernelForm:
    """How ``run`` is called on such arguments; NotImplementedError if it takes what words can't be made of."""
    kinds, forms = kinds_of(args), _forms.setdefault(run, {})
    if kinds not in forms:
        forms[kinds] = KernelForm(run.overload(kinds).address, *entry(kinds), kinds)
    return forms[kinds]
