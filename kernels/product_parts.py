"""A product of matrices in parts on the pool, by calls of BLAS from compiled code.

To hand NumPy's product of a part to another thread takes 35 us, since it lets go of Python's lock only within BLAS.
Here a job is a call of ``cblas_sgemm`` or ``cblas_dgemm`` by its address, with its arguments as words, and the
hand-over takes 10 us, most of it Python that packs them. The BLAS must take sizes of 64 bits, as that of NumPy's
wheels does.
"""

from __future__ import annotations

import functools
from array import array
from typing import Any

from llvmlite import ir

from jitgrad.kernels import threads
from jitgrad.kernels.blas import product_address
from jitgrad.kernels.machine_words import INT, NOTHING, WORD, new_library

__all__ = ["TURNED", "multiply_in_parts", "product_jobs"]

_ROW_MAJOR, _AS_IT_IS, TURNED = 101, 111, 112  # of the interface of C to BLAS
# The words of a job: function, one that is unused (programs have that for an error there), whether each side is turned,
# rows, columns, inner size, then of both sides and the result address and distance of rows.
_WORDS = 13
_ROWS_OF_A_PART = 64  # from so many on a part is quicker than one of all rows and some columns
_kept: list[Any] = []  # machine code lives as long as its library


@functools.cache
def _product(kind: str) -> tuple[int, int] | None:
    """(address of the function, of an entry ``void(intptr_t words)`` that calls it) for dtype character "f" or "d"."""
    function = product_address(kind)
    if not function:
        return None
    number = ir.FloatType() if kind == "f" else ir.DoubleType()
    sides = [WORD, WORD, WORD, WORD, number, WORD, WORD]
    gemm = ir.FunctionType(NOTHING, [INT, INT, INT, WORD, WORD, WORD, number, *sides]).as_pointer()

    def build(module: ir.Module) -> None:
        target = ir.Function(module, ir.FunctionType(NOTHING, [WORD]), f"{kind}gemm")
        builder = ir.IRBuilder(target.append_basic_block())
        words = builder.inttoptr(target.args[0], WORD.as_pointer())
        address, _, x_turned, y_turned, *rest = [builder.load(builder.gep(words, [INT(k)])) for k in range(_WORDS)]
        turned = [builder.trunc(w, INT) for w in (x_turned, y_turned)]
        given = [INT(_ROW_MAJOR), *turned, *rest[:3], number(1), *rest[3:7], number(0), *rest[7:]]
        builder.call(builder.inttoptr(address, gemm), given)
        builder.ret_void()

    library = new_library(f"{kind}gemm", build)
    _kept.append(library)
    return function, library.get_pointer_to_function(f"{kind}gemm")


def _side(matrix: Any) -> tuple[int, int] | None:
    """(whether it is turned, distance of its rows or columns in elements); None where BLAS can't read it."""
    (rows, columns), (down, across), size = matrix.shape, matrix.strides, matrix.itemsize
    if across == size and down >= columns * size and down % size == 0:
        return _AS_IT_IS, down // size
    if down == size and across >= rows * size and across % size == 0:
        return TURNED, across // size
    return None


def multiply_in_parts(x: Any, y: Any, out: Any, parts: int) -> bool:
    """Compute the product of two matrices of one dtype; False, and nothing done, where this way can't.

    out: contiguous, of shape (rows of x, columns of y). Each of the ``parts`` is some of its rows, or of its columns.
    """
    if 1 in out.shape or (found := product_jobs(x, y, out, parts)) is None:
        return False
    words, bases = array("q"), [a.ctypes.data for a in (x, y, out)]
    for _, head, places in found:
        words.extend(head)
        for base, (offset, distance) in zip(bases, places, strict=True):
            words.extend((base + offset, distance))
    base = words.buffer_info()[0]
    jobs = [w for k, (entry, *_) in enumerate(found) for w in (entry, base + 8 * _WORDS * k)]
    return threads.run_jobs(array("q", jobs))


def product_jobs(x: Any, y: Any, out: Any, parts: int) -> list[tuple[int, list[int], list[tuple[int, int]]]] | None:
    """The parts of a product: (entry, first words, of x, y and out the offset in bytes and the distance of rows).

    None where BLAS has no such product or can't read an array.
    """
    if not x.ndim == y.ndim == 2 or (found := _product(out.dtype.char)) is None:
        return None
    left, right, size, (rows, columns) = _side(x), _side(y), out.itemsize, out.shape
    if left is None or right is None or not out.flags.c_contiguous or not all(a.flags.aligned for a in (x, y, out)):
        return None
    function, entry = found
    # Each thread brings all of the side that is not cut into BLAS's order, better the smaller one: so the longer dim is
    # cut. But threads that write to the same rows disturb one another: a product of 256 x 64 and 64 x 784 takes 175 us
    # as halves of its rows, 310 as halves of its columns, and 255 on one thread.
    by_rows = rows >= columns or (rows >= _ROWS_OF_A_PART * parts and 4 * rows >= columns)
    inner = x.shape[1]
    # By how many bytes the operand that is cut moves from one row, or column, to the next, and the result.
    step = x.strides[0] if by_rows else y.strides[1]
    result_step = out.strides[0] if by_rows else size
    total, jobs = rows if by_rows else columns, []
    for part in range(parts):
        first, last = total * part // parts, total * (part + 1) // parts
        if last == first:
            continue
        shape = (last - first, columns) if by_rows else (rows, last - first)
        x_at, y_at = (first * step, 0) if by_rows else (0, first * step)
        places = [(x_at, left[1]), (y_at, right[1]), (first * result_step, columns)]
        jobs.append((entry, [function, 0, left[0], right[0], *shape, inner], places))
    return jobs
