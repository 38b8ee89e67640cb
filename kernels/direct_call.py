"""Calls of a compiled kernel whose arguments are alike every time: the same words, but for addresses and numbers.

A `CompiledFunction` looks for the kernel of its arguments' kinds and reads all of an array's fields: 165 ns for three
arrays and a kernel that takes 5; Numba's dispatcher takes 290. A plan knows both, so after some calls it has a function
of Python's made that only stores where the arrays' memory begins and calls the kernel's entry, in 60. It also takes an
array in the place of a view of it that begins at the same address, so the view need not be made at all.

The function holds the GIL, which is the reason that its words need no lock, so it is for short kernels.
"""
# mypy: ignore-errors

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from jitgrad.kernels.argument_kinds import ArrayKind
from jitgrad.kernels.builtin_function import METH_FASTCALL, builtin_function, function_address, new_int
from jitgrad.kernels.kernel_form import kernel_form
from jitgrad.kernels.machine_words import compiled_words
from jitgrad.kernels.native_entry import raise_error
from jitgrad.kernels.number_words import check_layout, words_of_number
from jitgrad.kernels.pool_code import DATA, TYPE

__all__ = ["CALLS", "DIRECT_BYTES", "REFUSED", "DirectCalls", "refuse"]

# Bytes of all arrays of a call, beyond which finding the kernel makes less than a tenth of its time, and the GIL had
# better be released.
DIRECT_BYTES = 1 << 18
HEAD = 40  # bytes of `_words` ahead of those for arguments
REFUSED = 1  # what the function returns where an argument is of another type; 0: done; else the kernel's error
# So many other calls come first: words take 40 us to make, and each call then saves 0.1 to 0.8, with views not made.
CALLS = 20
# Where Python runs without its lock, two threads could use the words at once.
_LOCKED = getattr(sys, "_is_gil_enabled", lambda: True)()


def launch(owner, arguments, count):
    """Store the arguments' words where the kernel reads them, and call it; see `_words`."""
    words = read(owner + DATA)
    if count != read(words + 8):
        return ask(read(words), REFUSED)
    at = words + HEAD
    for k in range(count):
        given = read(arguments + 8 * k)
        if read(given + TYPE) != read(at):
            return ask(read(words), REFUSED)
        word = read(given + DATA)
        if read(at + 16):
            word = ask(read(at + 16), given)
            if word == -1:  # or an int of more than 64 bits, with an error that the function will raise itself
                call(read(words + 32), 0)
                return ask(read(words), REFUSED)
        write(read(at + 8), word)
        at += 24
    call(read(words + 16), read(words + 24))
    return ask(read(words), read(read(words + 24) + 8))


@functools.cache
def _launch() -> int:
    """The address of `launch`; NotImplementedError where a float's own field does not lie where it is read."""
    check_layout()
    return compiled_words("direct", [launch])["launch"]


def refuse(*arguments: Any) -> int:
    """What stands for the function until it is made, and where none can be."""
    return REFUSED


class DirectCalls:
    """What a plan's launches of a compiled function ``run`` do where its direct call refuses.

    ``direct(*given)`` is that call: ``given`` are numbers, and arrays that begin where those that ``run`` takes do.
    They stand for its arguments at ``places``, by default the first; all others are the same every time. Where it
    returns anything but 0, ``other`` has to be called.
    """

    __slots__ = ("calls", "places", "run")

    def __init__(self, run: Any, places: Sequence[int] | None = None):
        self.run, self.places, self.calls = run, places, 0

    def other(self, code: int, direct: Any, given: Sequence[Any], args: Sequence[Any]) -> Any:
        """Raise the kernel's error, or run it on ``args``; returns what is to be called directly from now on."""
        if code != REFUSED:
            raise_error(code)
        self.run(*args)
        self.calls += 1
        return self.make(given, args) if self.calls == CALLS else direct

    def make(self, given: Sequence[Any], args: Sequence[Any]) -> Callable[..., int]:
        """The direct call; `refuse` where an argument is of another kind, or doesn't begin where the given array does.

        It rests on Numba's insides, which may change. Without it ``run`` goes on, and raises what a kernel does.
        """
        places = range(len(given)) if self.places is None else self.places
        if _LOCKED and all(_alike(g, args[k]) for g, k in zip(given, places, strict=True)):
            with suppress(Exception):
                return builtin_function("launch", self.entry(), self.words(places, given, args), METH_FASTCALL)
        return refuse

    def entry(self) -> int:
        """The address of the C function that a direct call is, of METH_FASTCALL's convention."""
        return _launch()

    def words(self, places: Sequence[int], given: Sequence[Any], args: Sequence[Any]) -> np.ndarray[Any, Any]:
        """The ``self`` of that function, a vector of int64: what it knows of the kernel and its arguments."""
        return _words(self.run, places, given, args)


def _alike(given: Any, argument: Any) -> bool:
    """Whether an argument is a number that is given, or an array that begins where a given one does."""
    if type(given) is np.ndarray is type(argument):
        return given.ctypes.data == argument.ctypes.data and given.size > 0
    return type(given) in (float, int, bool) and given is argument


def _words(
    run: Any, places: Sequence[int], given: Sequence[Any], args: Sequence[Any]
) -> np.ndarray[Any, Any]:  # fmt: skip
    """What `launch` reads.

    PyLong_FromSsize_t, the number of arguments, the entry, where its words begin, PyErr_Clear; for each argument its
    type, where its word is, and what makes one of an int or bool; then the entry's words. The word of an array or a
    float lies where the type's own fields begin.
    """
    form = kernel_form(run, args)
    words, where = [form.kernel, 0], []
    for a, kind in zip(args, form.kinds, strict=True):
        if isinstance(kind, ArrayKind):
            where.append(len(words) + 4)
            # Two owners, of which a kernel needs none; size, itemsize, address, shape, strides.
            words += [0, 0, a.size, a.itemsize, a.ctypes.data, *a.shape, *a.strides]
        else:
            where.append(len(words))
            words += words_of_number(a, kind)
    head = HEAD // 8 + 3 * len(given)
    found = np.zeros(head + len(words), np.int64)
    at = found.ctypes.data
    found[: HEAD // 8] = new_int(), len(given), form.entry, at + 8 * head, function_address("PyErr_Clear")
    for k, (g, place) in enumerate(zip(given, places, strict=True)):
        convert = function_address("PyLong_AsSsize_t") if isinstance(g, int) else 0
        found[HEAD // 8 + 3 * k : HEAD // 8 + 3 * k + 3] = id(type(g)), at + 8 * (head + where[place]), convert
    found[head:] = words
    return found
