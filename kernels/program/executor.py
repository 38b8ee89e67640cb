"""The compiled half of a program: sets the addresses that change from run to run, and calls one entry after another.

The functions below are compiled by `machine_words`: all values are words of 64 bits.
"""
# mypy: ignore-errors

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from jitgrad.kernels import pool_code
from jitgrad.kernels.machine_words import compiled_words

__all__ = ["ERROR", "code", "functions"]

ERROR = 8  # where a row's words have that for its error, in bytes
DATA = pool_code.DATA


def bind(bindings, count, items):
    """Write addresses into the cells that hold them.

    A binding: where its cells begin and end. A cell: the address of a word, and by how many bytes what it is to hold
    lies behind the array's first element. items: where the addresses of the array objects of Python's stand.
    """
    for k in range(count):
        data = read(read(items + 8 * k) + DATA)
        cell, end = read(bindings + 16 * k), read(bindings + 16 * k + 8)
        while cell < end:
            write(read(cell), data + read(cell + 8))
            cell += 16


def first_changed(rows, first, last):
    """The number of the first row, of those from ``first`` to ``last``, that does not hold; -1 if all do.

    A row: an address, an offset, a word. The word is to be at the address, or, where the offset is not negative, that
    far behind where the address that stands there leads.
    """
    k = first
    while k < last:
        row = rows + 24 * k
        found, offset = read(read(row)), read(row + 8)
        if offset >= 0:
            found = read(found + offset)
        if found != read(row + 16):
            return k
        k += 1
    return -1


def run_rows(table, first, last):
    """Call the entries of rows ``first`` to ``last``; the number of the row that failed, -1 if none did."""
    row = first
    while row < last:
        words = read(table + 16 * row + 8)
        call(read(table + 16 * row), words)
        if read(words + ERROR):
            return row
        row += 1
    return -1


def overlap(pairs, count, items):
    """Whether two pieces of memory share a byte that must not.

    A pair: which of the arrays, how many bytes behind its first element a piece begins and ends; the same of another
    one, or -1 and the addresses between which that lies.
    """
    for k in range(count):
        pair = pairs + 48 * k
        data = read(read(items + 8 * read(pair)) + DATA)
        low, high = data + read(pair + 8), data + read(pair + 16)
        other_low, other_high = read(pair + 32), read(pair + 40)
        other = read(pair + 24)
        if other >= 0:
            data = read(read(items + 8 * other) + DATA)
            other_low, other_high = other_low + data, other_high + data
        if low < other_high and other_low < high:
            return 1
    return 0


def begin(owner, arrays):
    """A function of Python's: compares rows, binds arrays, which it gets as a tuple, and runs a short program.

    The int that it returns: 0, or 1 where the first rows have changed, 2 where the second have, 3 where arrays overlap
    that must not, 4 + the number of the row that failed. ``owner`` is an array of words, in this order:
    PyLong_FromSsize_t, where a tuple has its items; the first rows, how many; the second rows, how many; bindings, how
    many; the program, how many rows to run; pairs of arrays, how many.
    """
    words = read(owner + DATA)
    if first_changed(read(words + 16), 0, read(words + 24)) >= 0:
        return ask(read(words), 1)
    if first_changed(read(words + 32), 0, read(words + 40)) >= 0:
        return ask(read(words), 2)
    bind(read(words + 48), read(words + 56), arrays + read(words + 8))
    if overlap(read(words + 80), read(words + 88), arrays + read(words + 8)):
        return ask(read(words), 3)
    failed = run_rows(read(words + 64), 0, read(words + 72))
    if failed >= 0:
        return ask(read(words), failed + 4)
    return ask(read(words), 0)


def clear(words):
    """An entry: zeros, in so many words of 64 bits. Its words: unused, error, address, count."""
    at = read(words + 16)
    for k in range(read(words + 24)):
        write(at + 8 * k, 0)


def check(words):
    """An entry: fails if there is anything but zeros. Its words: unused, error, address, bytes (one, or many words)."""
    at, size = read(words + 16), read(words + 24)
    found = 0
    if size < 8:
        found = read(at) & ((1 << (8 * size)) - 1)
    else:
        found = read(at)
    write(words + ERROR, found != 0)


def restore(words):
    """An entry: copies memory. Its words: unused, error, target, source, bytes."""
    copy(read(words + 16), read(words + 24), read(words + 32))


def turn(words):
    """An entry: out[i, j] = source[j, i], of float32, in squares that a cache holds.

    Its words: unused, error, out, source, rows and columns of out.
    """
    out, source, rows, columns = read(words + 16), read(words + 24), read(words + 32), read(words + 40)
    top = 0
    while top < rows:
        bottom, left = top + 16, 0
        if bottom > rows:
            bottom = rows
        while left < columns:
            right = left + 16
            if right > columns:
                right = columns
            for i in range(top, bottom):
                for j in range(left, right):
                    copy(out + 4 * (i * columns + j), source + 4 * (j * rows + i), 4)
            left = right
        top = bottom


def packed(words):
    """An entry: a function whose result is its error. Its words: the function, error, what the function reads."""
    write(words + ERROR, ask(read(words), words + 16))


def in_parts(words):
    """An entry: a kernel on several threads. Its words: a serial row's entry, error, that row's words, then what
    `pool_code.split` takes, the address of which is the first of them."""
    error = split(words + 32)
    if error == -1:
        serial = read(words + 16)
        call(read(words), serial)
        error = read(serial + ERROR)
    write(words + ERROR, error)


def together(words):
    """An entry: rows that may run at once. Its words: unused, error, control of the pool, table, count, helpers."""
    table, count = read(words + 24), read(words + 32)
    if run(read(words + 16), table, count, read(words + 40)) == 0:
        run_rows(table, 0, count)
    error = 0
    for k in range(count):
        if error == 0:
            error = read(read(table + 16 * k + 8) + ERROR)
    write(words + ERROR, error)


def move(moves, end, times):
    """Let words grow by so many times what belongs to each. A move: the address of a word, and a number."""
    while moves < end:
        write(read(moves), read(read(moves)) + times * read(moves + 8))
        moves += 16


def blocks(words):
    """An entry: rows that are run several times, each time on other memory. Its words: unused, error, times, table,
    count, where the moves from one time to the next begin, where they end."""
    times, table, count = read(words + 16), read(words + 24), read(words + 32)
    moves, end = read(words + 40), read(words + 48)
    done, error = 0, 0
    while done < times:
        failed = run_rows(table, 0, count)
        if failed >= 0:
            error = read(read(table + 16 * failed + 8) + ERROR)
            break
        move(moves, end, 1)
        done += 1
    move(moves, end, 0 - done)
    write(words + ERROR, error)


_HELPERS = (
    pool_code.run_job, pool_code.take_first, pool_code.has_jobs, pool_code.sleep, pool_code.wake, pool_code.publish,
    pool_code.wait_for_workers, pool_code.run_table, pool_code.write_array, pool_code.write_arguments,
    pool_code.split, pool_code.run, move,
)  # fmt: skip


@functools.cache
def code() -> dict[str, int]:
    """The addresses of the functions above, by name."""
    functions = [
        bind, overlap, begin, first_changed, run_rows, clear, check, restore, turn, packed, in_parts, together, blocks,
    ]  # fmt: skip
    return compiled_words("program", functions, _HELPERS)


@functools.cache
def functions() -> tuple[Callable[[int, int, int], int], Callable[[int, int, int], int]]:
    """``first_changed`` and ``run_rows`` for Python; the second lets go of the GIL."""
    word, found = ctypes.c_ssize_t, code()
    return (
        ctypes.PYFUNCTYPE(word, word, word, word)(found["first_changed"]),
        ctypes.CFUNCTYPE(word, word, word, word)(found["run_rows"]),
    )
