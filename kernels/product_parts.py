"""A product of matrices by its address, whole or in parts on the pool: by tiles of our own, or by calls of BLAS.

To hand NumPy's product of a part to another thread takes 35 us, since it lets go of Python's lock only within BLAS.
Here a job is an entry, a C function ``void(intptr_t words)``, with its arguments as words, and the hand-over takes
10 us, most of it Python that packs them. The BLAS must take sizes of 64 bits, as that of NumPy's wheels does.

The words of an entry: one that it doesn't use, one for an error (there is none), whether each side is turned, rows,
columns, inner size, whether the product is added to what is there, then of both sides and the result the address and
the distance of rows in elements.
"""

from __future__ import annotations

import functools
from array import array
from typing import Any

from llvmlite import binding, ir

from jitgrad.kernels import threads
from jitgrad.kernels.blas import product_address
from jitgrad.kernels.machine_words import INT, NOTHING, WORD
from jitgrad.kernels.native_library import new_library
from jitgrad.kernels.tile_products import PANEL, TURNED, WIDE_REGISTERS, tiles_address

__all__ = ["INNER_BY_BLAS", "by_tiles", "inner_product_entry", "multiply_in_parts", "product_entry", "product_jobs"]

_ROW_MAJOR, _AS_IT_IS = 101, 111  # of the interface of C to BLAS
_WORDS = 14  # of an entry
_ROWS_OF_A_PART = 64  # from so many on a part is quicker than one of all rows and some columns
# Multiplications up to which tiles of our own were measured to be quicker than BLAS. They take 0.8 to 0.95 of the time
# of OpenBLAS; with registers of 64 bytes 0.5 where that turns a matrix, and beyond they leave the second cache; with
# those of 32 bytes (AMD Zen 3) 0.9 to 1.05 near the limit, 0.95 to 1.3 beyond.
_BY_TILES = 1 << 28 if WIDE_REGISTERS else 1 << 24
_INNER = 1 << 20  # about the multiplications of a product within a loop
_kept: list[Any] = []  # machine code lives as long as its library


def by_tiles(kind: str, work: int) -> bool:
    """Whether a product of matrices of dtype character ``kind``, of ``work`` multiplications, is one of tiles."""
    return kind in "fd" and work <= _BY_TILES


# Whether BLAS has to be kept to one thread where loops multiply.
INNER_BY_BLAS = not by_tiles("f", _INNER)


def inner_product_entry(kind: str) -> int:
    """The address of the entry for products within compiled loops, of blocks that stay in a cache; 0: there is none.

    Tiles where BLAS can't be called by address: a loop has no other way to it.
    """
    return product_entry(kind, _INNER) or (tiles_address(kind) if kind in "fd" else 0)


def product_entry(kind: str, work: int) -> int:
    """The address of the entry for a product of ``work`` multiplications of a dtype; 0: NumPy has to be called."""
    return tiles_address(kind) if by_tiles(kind, work) else _blas_entry(kind)


@functools.cache
def _blas_entry(kind: str) -> int:
    """The address of an entry that calls BLAS's product of dtype character ``kind``; 0: BLAS has none."""
    function = product_address(kind)
    if not function:
        return 0
    # By a symbol: its address, another one in each process, would let no machine code be kept.
    binding.add_symbol(symbol := f"jitgrad.blas_{kind}gemm", function)
    number = ir.FloatType() if kind == "f" else ir.DoubleType()
    sides = [WORD, WORD, WORD, WORD, number, WORD, WORD]

    def build(module: ir.Module) -> None:
        target = ir.Function(module, ir.FunctionType(NOTHING, [WORD]), f"{kind}gemm")
        builder = ir.IRBuilder(target.append_basic_block())
        words = builder.inttoptr(target.args[0], WORD.as_pointer())
        _, _, x_turned, y_turned, *rest = [builder.load(builder.gep(words, [INT(k)])) for k in range(_WORDS)]
        turned = [builder.trunc(w, INT) for w in (x_turned, y_turned)]
        (*sizes, keep), (*factors, out, out_row) = rest[:4], rest[4:]
        kept = builder.uitofp(keep, number)
        given = [INT(_ROW_MAJOR), *turned, *sizes, number(1), *factors, kept, out, out_row]
        gemm = ir.FunctionType(NOTHING, [INT, INT, INT, WORD, WORD, WORD, number, *sides])
        builder.call(ir.Function(module, gemm, symbol), given)
        builder.ret_void()

    library = new_library(f"{kind}gemm", build)
    _kept.append(library)
    return library.get_pointer_to_function(f"{kind}gemm")


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

    None where there is no such product, or one of the arrays can't be read.
    """
    if not x.ndim == y.ndim == 2:
        return None
    (rows, columns), inner = out.shape, x.shape[1]
    kind, work = out.dtype.char, out.size * inner
    tiles, entry = by_tiles(kind, work), product_entry(kind, work)
    left, right, size = _side(x), _side(y), out.itemsize
    if not entry or left is None or right is None or not out.flags.c_contiguous:
        return None
    if not all(a.flags.aligned for a in (x, y, out)):
        return None
    by_rows = _by_rows(rows, columns * size, parts) if tiles else _by_rows_of_blas(rows, columns, parts)
    # By how many bytes the operand that is cut moves from one row, or column, to the next, and the result.
    step = x.strides[0] if by_rows else y.strides[1]
    result_step = out.strides[0] if by_rows else size
    total, multiple, jobs = rows if by_rows else columns, PANEL // size if tiles and not by_rows else 1, []
    for part in range(parts):
        first, last = (total * k // parts // multiple * multiple if k < parts else total for k in (part, part + 1))
        if last == first:
            continue
        shape = (last - first, columns) if by_rows else (rows, last - first)
        x_at, y_at = (first * step, 0) if by_rows else (0, first * step)
        places = [(x_at, left[1]), (y_at, right[1]), (first * result_step, columns)]
        jobs.append((entry, [0, 0, left[0], right[0], *shape, inner, 0], places))
    return jobs


def _by_rows_of_blas(rows: int, columns: int, parts: int) -> bool:
    """Whether parts have some rows of the result each, or some columns.

    Each thread brings all of the side that is not cut into BLAS's order, better the smaller one: so the longer dim is
    cut. But threads that write to the same rows disturb one another: a product of 256 x 64 and 64 x 784 takes 175 us
    as halves of its rows, 310 as halves of its columns, and 255 on one thread.
    """
    return rows >= columns or (rows >= _ROWS_OF_A_PART * parts and 4 * rows >= columns)


def _by_rows(rows: int, row: int, parts: int) -> bool:
    """The same for tiles, which copy the right side only: columns are cut where each part gets panels of its own."""
    return row < 2 * parts * PANEL and rows > parts
