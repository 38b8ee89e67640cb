"""Launches as rows of a program.

Where an array lies when the program runs is asked of ``locate``: at an address that stays, or so many bytes behind the
first element of an array that is bound anew for every run. Numbers may change from run to run as well: a `LiveNumber`
among the arguments says under which key it is set.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels import pool_code, threads
from jitgrad.kernels.argument_kinds import ArrayKind
from jitgrad.kernels.compiled_function import CompiledFunction
from jitgrad.kernels.kernel_form import kernel_form
from jitgrad.kernels.launch import Kernel, Loop
from jitgrad.kernels.loops.join import Join, join, join_address
from jitgrad.kernels.loops.matmul import few_rows_by_transposed, stays_on_one
from jitgrad.kernels.loops.optimizer import Foreach
from jitgrad.kernels.number_words import bits, words_of_number
from jitgrad.kernels.product_parts import by_tiles
from jitgrad.kernels.program import products
from jitgrad.kernels.program.addresses import address_of, extent_of_strides, is_array, is_on_device
from jitgrad.kernels.program.block_rows import TableRow, add_row_blocks
from jitgrad.kernels.program.device_arrays import DeviceArrays, DeviceStretch
from jitgrad.kernels.program.executor import code
from jitgrad.kernels.program.program import Program
from jitgrad.kernels.program.row_blocks import RowBlocks
from jitgrad.kernels.split_call import SplitCall

__all__ = ["Builder", "LiveNumber", "Place"]


class Place(NamedTuple):
    """Where an array's first element is: at ``offset`` bytes behind what is bound to ``slot``; None: at an address.

    ``block``: the allocation on a device that it is ``offset`` bytes into, in every run.
    """

    slot: int | None
    offset: int
    block: Any = None


class LiveNumber(float):
    """A number that may differ in the next run; ``key`` says which it is."""

    key: Any = None


class _Call(NamedTuple):
    """A kernel that Python calls, between the rows before it and those after it."""

    row: int
    call: Callable[..., Any]
    args: list[Any]
    live: list[tuple[int, Any]]  # positions of arguments that are live numbers, their keys


class Builder:
    """Collects rows; ``finish`` makes a Program of them."""

    def __init__(self, locate: Callable[[Any], Place], timed: bool = False):
        self.locate, self.timed = locate, timed
        self.words: list[int] = []
        self.rows: list[TableRow] = []
        self.names: list[str] = []  # what each row is part of
        self.calls: list[_Call] = []
        # By row: the array that is tested, what raises, its further arguments.
        self.checks: dict[int, tuple[Any, Callable[..., Any], tuple[Any, ...]]] = {}
        self.cells: dict[int, list[tuple[bool, int, int]]] = {}  # by slot: (absolute, address or word, offset)
        self.device = DeviceArrays()
        self.pointers: list[tuple[int, int]] = []  # (word, the word whose address it holds)
        self.live: list[tuple[Any, int]] = []  # (key, word) of numbers
        self.arrays: list[int] = []  # words that hold addresses of arrays
        self.keep: list[Any] = []
        # Stand-ins are made on this memory and point elsewhere before they are used. It is mapped anew, so that its
        # pages, which nothing touches, are never resident.
        self.unused = mmap(-1, 1 << 16)
        self.scratch = np.empty(0, np.uint8)  # for single launches: what one leaves there no other reads
        self.uses_blas = False
        self.nbytes = 0  # of all arrays of all launches

    # -- launches -----------------------------------------------------------------------------------

    def launch(self, kernel: Kernel, args: Sequence[Any]) -> None:
        """Add what a launch of ``kernel`` on ``args`` does."""
        self.nbytes += sum(a.nbytes for a in args if isinstance(a, np.ndarray))
        self._name("zeros and copies")
        self._launch(kernel, args)
        self._name(kernel.name)

    def _name(self, name: str) -> None:
        """Say what the rows are part of that were added since the last time."""
        self.names += [name] * (len(self.rows) - len(self.names))

    def _launch(self, kernel: Kernel, args: Sequence[Any]) -> None:
        if any(map(is_on_device, args)):
            self._on_device(kernel.call, args)
        elif isinstance(kernel, Foreach):
            self._step(kernel, args)
        elif kernel.name in products.KINDS and self._product(*products.factors(args)):
            pass
        elif isinstance(kernel, RowBlocks):
            add_row_blocks(self, kernel)
        elif isinstance(kernel, Loop):
            self._loop(kernel, args)
        elif kernel is join:
            self._join(*args)
        elif isinstance(kernel.call, (SplitCall, CompiledFunction)):
            self._compiled(kernel.call, args)
        elif getattr(kernel.call, "__name__", "") != "_nothing":  # of empty tensors
            self._python(kernel.call, args)

    def _step(self, kernel: Foreach, args: Sequence[Any]) -> None:
        """An optimiser's step: a row for each parameter, or one for all that several threads share."""
        count, many = kernel.count, len(kernel.arrays) * kernel.count
        total = sum(a.size for a in args[:count])
        if kernel.is_shared(total):
            copies = []
            for counter in kernel.counters(args[:many]):
                copies.append(np.empty_like(counter))
                self._copy(copies[-1], counter)
            arrays = [self.stand_in(a) for a in args[:many]]
            call, tables = kernel.shared(arrays, copies)
            self.keep += copies
            self._compiled(call, [tables, 0, 0, total, *args[many:]])
            return
        for k in range(count):
            arrays = [self._flat(a) for a in args[k:many:count]]
            self._compiled(kernel.loop.variant(arrays[0].dtype), [*arrays, *args[many:]])

    def _copy(self, target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
        """Add a row that copies the memory of an array to another one; both are dense and alike."""
        start = len(self.words)
        self.words += [0, 0]
        self.pointer_to(target)
        self.pointer_to(source)
        self.words.append(source.nbytes)
        self.rows.append(TableRow(code()["restore"], start))

    def _loop(self, loop: Loop, args: Sequence[Any]) -> None:
        dtype = args[loop.dtype_from].dtype
        if loop.pieces is not None:
            count, _ = loop.pieces(*args)
            args = [*args, 0, count]
        many = loop.split or loop.pieces is not None
        self._compiled(loop.in_parts(dtype) if many else loop.variant(dtype), args)

    def _compiled(self, run: Any, args: Sequence[Any]) -> None:
        """Add a compiled kernel, in parts if it is a SplitCall and the arguments are large enough."""
        split = None
        if isinstance(run, SplitCall):
            split, run = run, run.run
        try:
            row = self.serial(run, args)
        except NotImplementedError:
            self._python(split or run, args)
            return
        shared = split.shared(tuple(args)) if split is not None and threads.get_num_threads() > 1 else None
        self.rows.append(row if shared is None else self._in_parts(row, shared, args))

    def serial(self, run: Any, args: Sequence[Any]) -> TableRow:
        """The row of a compiled function; NotImplementedError if it takes what words can't be made of."""
        given = [float(a) if isinstance(a, LiveNumber) else a for a in args]
        form, start = kernel_form(run, given), len(self.words)
        self.words += [form.kernel, 0]
        for a, value, kind in zip(args, given, form.kinds, strict=True):
            if isinstance(kind, ArrayKind):
                self._array(a)
            elif isinstance(a, LiveNumber):
                self.live.append((a.key, len(self.words)))
                self.words.append(bits("d", value))
            else:
                self.words += words_of_number(value, kind)
        assert len(self.words) == start + form.words, run
        self.keep.append(run)
        return TableRow(form.entry, start)

    def _array(self, a: np.ndarray[Any, Any]) -> None:
        """Add Numba's struct of an array: two owners, not needed here, size, itemsize, address, shape, strides."""
        self.words += [0, 0, a.size, a.itemsize]
        self.arrays.append(len(self.words))
        self.pointer_to(a)
        self.words += [*a.shape, *a.strides]

    def pointer_to(self, a: np.ndarray[Any, Any], further: int = 0) -> None:
        """Add a word that holds the address of an array's first element, or of what is ``further`` bytes behind it."""
        place = self.locate(a)
        if place.slot is None:
            if place.offset == address_of(a):  # it stays where it is
                self.keep.append(a)
            self.words.append(place.offset + further)
        else:
            self.cells.setdefault(place.slot, []).append((False, len(self.words), place.offset + further))
            self.words.append(0)

    def _flat(self, a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A contiguous array as a vector, in whatever order its memory lies."""
        return a.reshape(-1) if a.flags.c_contiguous else np.lib.stride_tricks.as_strided(a, (a.size,), (a.itemsize,))

    def _in_parts(self, serial: TableRow, shared: tuple[Any, Sequence[int]], args: Sequence[Any]) -> TableRow:
        """A row that shares a kernel among threads. shared: what `SplitCall.shared` returns."""
        plan, words = shared
        self.keep.append(plan)
        start = len(self.words)
        self.words += [serial.entry, 0]
        self.address_of_word(serial.words)
        self.words.append(0)
        self.words += words[:6]
        for a, word in zip(args, words[6:], strict=True):
            if isinstance(a, LiveNumber):
                self.live.append((a.key, len(self.words)))
            self.words.append(id(self.stand_in(a)) if isinstance(a, np.ndarray) else word)
        return TableRow(code()["in_parts"], start)

    def _join(self, out: Any, how: Join, *parts: Any) -> None:
        start = len(self.words)
        self.words += [join_address(), 0, how.address]
        self.words += [id(self.stand_in(a)) for a in (out, *parts)]
        self.keep.append(how)
        self.rows.append(TableRow(code()["packed"], start))

    def address_of_word(self, target: int) -> None:
        """Add a word that holds the address of word number ``target``."""
        self.pointers.append((len(self.words), target))
        self.words.append(0)

    def stand_in(self, a: Any) -> Any:
        """An array object that lies where ``a`` will when the program runs: its address is set as a word's is."""
        place = self.locate(a)
        if is_on_device(a):
            return self._stand_in_on_device(a, place, self.device.others)
        if place.slot is None and place.offset == address_of(a):
            self.keep.append(a)
            return a
        low, high = extent_of_strides(0, a.shape, a.strides, a.itemsize)
        if high - low > len(self.unused):
            self.unused = mmap(-1, 2 * (high - low))
        made = np.ndarray(a.shape, a.dtype, self.unused, -low, a.strides)
        self.keep.append(made)
        if place.slot is None:
            ctypes.c_ssize_t.from_address(id(made) + pool_code.DATA).value = place.offset
        else:
            self.cells.setdefault(place.slot, []).append((True, id(made) + pool_code.DATA, place.offset))
        return made

    def _stand_in_on_device(self, a: Any, place: Place, cells: dict[int, list[tuple[Any, int]]]) -> Any:
        if place.block is not None:
            return a.on(place.block, place.offset)
        if place.slot is None:  # it stays where it is
            return a
        made = a.on(None, 0)
        cells.setdefault(place.slot, []).append((made, place.offset))
        return made

    def _on_device(self, call: Callable[..., Any], args: Sequence[Any]) -> None:
        if any(isinstance(a, (np.ndarray, LiveNumber)) for a in args):  # which may hold other numbers in each run
            self._python(call, args)
            return
        last = self.calls[-1] if self.calls else None
        if last is None or last.row != len(self.rows) or not isinstance(last.call, DeviceStretch):
            last = _Call(len(self.rows), DeviceStretch(self.device), [], [])
            self.calls.append(last)
        cells = self.device.in_tables
        given = [self._stand_in_on_device(a, self.locate(a), cells) if is_on_device(a) else a for a in args]
        last.call.add(call, given)  # type: ignore[attr-defined]

    def _python(self, call: Callable[..., Any], args: Sequence[Any]) -> None:
        live = [(k, a.key) for k, a in enumerate(args) if isinstance(a, LiveNumber)]
        given = [self.stand_in(a) if is_array(a) else a for a in args]
        self.calls.append(_Call(len(self.rows), call, given, live))

    def host(self, call: Callable[..., Any], *args: Any) -> None:
        """Let Python call a function with these arguments between the rows so far and further ones."""
        self.calls.append(_Call(len(self.rows), call, list(args), []))

    # -- matrix products, flags, copies ---------------------------------------------------------------

    def _product(self, x: Any, y: Any, out: Any) -> bool:
        if not (x.ndim == 2 and by_tiles(out.dtype.char, out.size * x.shape[1])):
            self.uses_blas |= x.ndim > 0 and not stays_on_one(out.shape, x.shape[-1])
            if few_rows_by_transposed(x, y, out) and out.size * x.shape[1] >= products.WORTH_TURNING:
                if out.nbytes > self.scratch.nbytes:
                    self.scratch = np.empty(out.nbytes, np.uint8)
                turned = np.ndarray(out.shape[::-1], out.dtype, self.scratch)
                if self._product(y.T, x.T, turned):
                    self._turn(turned, out)
                    return True
        found = products.jobs(x, y, out)
        if found is None:
            return False
        rows = []
        for address, head, places in found:
            rows.append(TableRow(address, len(self.words)))
            self.words += head
            for matrix, (offset, distance) in zip((x, y, out), places, strict=True):
                self.pointer_to(matrix, offset)
                self.words.append(distance)
        self.together(rows)
        return True

    def _turn(self, source: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
        """Add a row that copies a row-major matrix of float32 transposed."""
        start = len(self.words)
        self.words += [0, 0]
        self.pointer_to(out)
        self.pointer_to(source)
        self.words += [*out.shape]
        self.rows.append(TableRow(code()["turn"], start))

    def table(self, rows: Sequence[TableRow]) -> int:
        """The number of the first word of a table of rows."""
        start = len(self.words)
        for row in rows:
            self.words.append(row.entry)
            self.address_of_word(row.words)
        return start

    def together(self, rows: Sequence[TableRow], helpers: int = 0) -> None:
        """Add rows that may run at once, with as many ``helpers`` among the threads, by default one for each."""
        if len(rows) == 1:
            self.rows.append(rows[0])
            return
        helpers = helpers or len(rows) - 1
        table, start = self.table(rows), len(self.words)
        self.words += [0, 0, threads.control(helpers)]
        self.address_of_word(table)
        self.words += [len(rows), helpers]
        self.rows.append(TableRow(code()["together"], start))

    def clear(self, a: np.ndarray[Any, Any]) -> None:
        """Add a row that fills an array, of a multiple of 8 bytes, with zeros."""
        start = len(self.words)
        self.words += [0, 0]
        self.pointer_to(a)
        self.words.append(a.nbytes // 8)
        self.rows.append(TableRow(code()["clear"], start))

    def restore(self, a: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> None:
        """Add a row that fills an array with the memory of another one; both are dense and alike."""
        self._copy(a, numbers)

    def check(self, found: np.ndarray[Any, Any], fail: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Add a row that stops the program unless the first element of ``found`` is zero: ``fail(found, *args)``."""
        start = len(self.words)
        self.words += [0, 0]
        self.pointer_to(found)
        self.words.append(found.itemsize)
        self.checks[len(self.rows)] = self.stand_in(found), fail, args
        self.rows.append(TableRow(code()["check"], start))

    def finish(self) -> Program:
        """The program of all rows so far."""
        self._name("checks")
        return Program(self)
