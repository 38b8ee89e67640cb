"""Direct calls, as in direct_call.py, of kernels that run in parts on the threads of the pool.

`SplitCall` asks each call's arguments for their types and writes all words of each part anew: 5 us of Python, as long
as plain arithmetic on 50,000 numbers takes. Here the words of all parts are written once. A call stores where the
arrays' memory begins, and runs the parts without the GIL. The pool serves one caller at a time, so whoever has it has
the words, too.
"""
# mypy: ignore-errors

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.builtin_function import function_address, new_int
from jitgrad.kernels.compiled_function import CompiledFunction
from jitgrad.kernels.direct_call import DIRECT_BYTES, REFUSED, DirectCalls, refuse
from jitgrad.kernels.kernel_form import kernel_form
from jitgrad.kernels.machine_words import compiled_words
from jitgrad.kernels.number_words import check_layout, words_of_number
from jitgrad.kernels.pool_code import ARRAY, BUSY, CUT, DATA, FIRST, GENERATION, LAST, PART, PARTS, TYPE, compiled_pool
from jitgrad.kernels.split_call import SplitCall, role_of

__all__ = ["DirectParts", "direct_calls", "is_direct"]

HEAD = 88  # bytes of `_words` ahead of those for arguments


def launch_parts(owner, arguments, count):
    """Run a kernel in parts on these arguments; a built-in function whose ``self`` is an array of what `_words` makes.

    It returns an int: 0, REFUSED (nothing was done), or what the kernel's error is known by.
    """
    words = read(owner + DATA)
    control, parts, table = read(words + 16), read(words + 24), read(words + 32)
    if count != read(words + 8) or load(control + GENERATION) != read(words + 48):
        return ask(read(words), REFUSED)
    at = words + HEAD
    for k in range(count):
        if read(read(arguments + 8 * k) + TYPE) != read(at):
            return ask(read(words), REFUSED)
        at += 16 + 16 * parts
    if not swap(control + BUSY, 0, 1):
        return ask(read(words), REFUSED)
    at = words + HEAD
    for k in range(count):
        given = read(arguments + 8 * k)
        word = read(given + DATA)
        if read(at + 8):
            word = ask(read(at + 8), given)
            if word == -1:  # or an int of more than 64 bits, with an error that the function will raise itself
                call(read(words + 56), 0)
                store(control + BUSY, 0)
                return ask(read(words), REFUSED)
        at += 16
        for _ in range(parts):
            write(read(at), word + read(at + 8))
            at += 16
    thread = ask(read(words + 64), 0)
    call(read(words + 72), words + 16)
    error = 0
    for part in range(parts):
        if error == 0:
            error = read(read(table + 16 * part + 8) + 8)
    store(control + BUSY, 0)
    call(read(words + 80), thread)
    return ask(read(words), error)


@functools.cache
def _launch_parts() -> int:
    """The address of `launch_parts`; NotImplementedError where a float's own field does not lie where it is read."""
    check_layout()
    return compiled_words("direct_parts", [launch_parts])["launch_parts"]


class DirectParts(DirectCalls):
    """`DirectCalls` of a `SplitCall`, made anew where the number of threads has changed."""

    __slots__ = ("generation",)

    def __init__(self, run: SplitCall, places: Sequence[int] | None = None):
        super().__init__(run, places)
        self.generation = -1

    def other(self, code: int, direct: Any, given: Sequence[Any], args: Sequence[Any]) -> Any:
        """As in `DirectCalls`."""
        if self.generation != threads.generation():
            self.generation, self.calls, direct = threads.generation(), 0, refuse
        return super().other(code, direct, given, args)

    def entry(self) -> int:
        """As in `DirectCalls`."""
        return _launch_parts()

    def words(self, places: Sequence[int], given: Sequence[Any], args: Sequence[Any]) -> np.ndarray[Any, Any]:
        """As in `DirectCalls`."""
        return _words(self.run, places, given, args)


def is_direct(call: Any, nbytes: int) -> bool:
    """Whether a direct call of ``call`` is worth it: of any `SplitCall`, of others up to ``nbytes`` of arrays."""
    return type(call) is SplitCall or (nbytes <= DIRECT_BYTES and isinstance(call, CompiledFunction))


def direct_calls(call: Any, places: Sequence[int] | None = None) -> DirectCalls:
    """What makes direct calls of a compiled function, or of one in parts; places: see `DirectCalls`."""
    return DirectParts(call, places) if type(call) is SplitCall else DirectCalls(call, places)


def _words(
    split: SplitCall, places: Sequence[int], given: Sequence[Any], args: Sequence[Any]
) -> np.ndarray[Any, Any]:  # fmt: skip
    """What `launch_parts` reads.

    PyLong_FromSsize_t, the number of arguments; what `pool_code.run_taken` takes: control, parts, table, helpers; the
    generation of `threads`; PyErr_Clear, PyEval_SaveThread, `run_taken`, PyEval_RestoreThread. Then for each argument
    its type, what makes a word of an int or bool, and for each part where its word is and what is added to it there.
    Then the table: an entry and the address of its words for each part. Then those words.
    """
    rows, count, parts = split.cuts(args)
    parts = parts if count > 1 and parts > 1 else 1
    helpers = threads.helpers_for(count) if parts > 1 else 0
    control, generation = threads.control(helpers), threads.generation()
    form, blocks = kernel_form(split.run, args), list[_Part]()
    for part in range(parts):
        first, last = split.edge(rows, part, parts), split.edge(rows, part + 1, parts)
        numbers = {FIRST: first, LAST: last, PART: part, PARTS: parts}
        blocks.append(_Part(form, split.roles_of(args), numbers, args))
    table = HEAD // 8 + len(given) * (2 + 2 * parts)
    start = table + 2 * parts
    size = len(blocks[0].words)
    found = np.zeros(start + parts * size, np.int64)
    at = found.ctypes.data
    found[: HEAD // 8] = (
        new_int(), len(given), control, parts, at + 8 * table, helpers, generation, function_address("PyErr_Clear"),
        function_address("PyEval_SaveThread"), compiled_pool()["run_taken"], function_address("PyEval_RestoreThread"),
    )  # fmt: skip
    for k, (g, place) in enumerate(zip(given, places, strict=True)):
        record = [id(type(g)), function_address("PyLong_AsSsize_t") if isinstance(g, int) else 0]
        for part, block in enumerate(blocks):
            record += [at + 8 * (start + part * size + block.places[place]), block.offsets[place]]
        found[HEAD // 8 + k * len(record) : HEAD // 8 + (k + 1) * len(record)] = record
    for part, block in enumerate(blocks):
        found[table + 2 * part : table + 2 * part + 2] = form.entry, at + 8 * (start + part * size)
        found[start + part * size : start + (part + 1) * size] = block.words
    return found


class _Part:
    """The words that a kernel's entry reads in one part.

    places: for each argument, the index among them of the one that changes from call to call: an array's address, or a
    number. offsets: what is added to the address, in bytes: the part's first row lies so far behind the array's.
    """

    def __init__(self, form: Any, roles: dict[int, int], numbers: dict[int, int], args: Sequence[Any]):
        self.words, self.places, self.offsets = [form.kernel, 0], list[int](), list[int]()
        for k, (a, kind) in enumerate(zip(args, form.kinds, strict=True)):
            role, offset = role_of(kind, roles.get(k)), 0
            if role is None:
                raise NotImplementedError
            if role in (ARRAY, CUT):
                if role == CUT:
                    offset = numbers[FIRST] * a.strides[0]
                    a = a[numbers[FIRST] : numbers[LAST]]
                self.places.append(len(self.words) + 4)
                # Two owners, of which a kernel needs none; size, itemsize, address, shape, strides.
                self.words += [0, 0, a.size, a.itemsize, a.ctypes.data, *a.shape, *a.strides]
            else:
                self.places.append(len(self.words))
                self.words += words_of_number(numbers.get(role, a), kind)
            self.offsets.append(offset)
