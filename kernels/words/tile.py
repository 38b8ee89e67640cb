"""Small blocks of products of matrices that are kept in registers while the sums run.

LLVM does not keep a block of sums in registers when it vectorises loops by itself; here each row of a block is one or
more vectors from the start. Matrices are named by where they begin in an array, counted in elements as the array lies
in memory, which must be contiguous; so any part of it can be a matrix. Of other dtypes than float32 and float64
nothing is computed.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from jitgrad.kernels.words.registers import BYTES

__all__ = ["Vectors", "product_tile", "squares_tile", "sum_tile"]

_WORD = ir.IntType(64)
_UNROLLED, _HIGH = 4, 4  # times that the loop of a tile is unrolled, and from how many rows on it is


class Vectors:
    """Emits loads, stores and products of vectors of an array's dtype; of_squares: squared differences instead."""

    def __init__(self, context: Any, builder: Any, dtype: Any, size: int = BYTES, of_squares: bool = False):
        self.of_squares = of_squares
        self.context, self.builder, self.item = context, builder, dtype.bitwidth // 8
        self.number = ir.FloatType() if dtype == types.float32 else ir.DoubleType()
        self.lanes = size // self.item
        self.kind = ir.VectorType(self.number, self.lanes)
        name = f"llvm.fmuladd.v{self.lanes}f{dtype.bitwidth}"
        self._fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(self.kind, [self.kind] * 3), name)

    def data(self, array_type: Any, array: Any, first: Any) -> Any:
        """The address of an array's element."""
        data = self.context.make_array(array_type)(self.context, self.builder, array).data
        return self.builder.gep(data, [first])

    def _vector(self, place: Any, offset: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(place, [offset]), self.kind.as_pointer())

    def load(self, place: Any, offset: Any) -> Any:
        return self.builder.load(self._vector(place, offset), align=self.item)

    def store(self, value: Any, place: Any, offset: Any) -> None:
        self.builder.store(value, self._vector(place, offset), align=self.item)

    def spread(self, place: Any) -> Any:
        """A vector of one number."""
        one = self.builder.insert_element(
            ir.Constant(self.kind, ir.Undefined), self.builder.load(place), ir.IntType(32)(0)
        )
        return self.builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None))

    def sums(self, *shape: int) -> Any:
        """Vectors of sums, which LLVM takes into registers."""
        rows, columns = shape
        return [[cgutils.alloca_once(self.builder, self.kind) for _ in range(columns)] for _ in range(rows)]

    def begin(self, sums: Any, keep: Any, place: Any, row: Any) -> None:
        """Set sums to the vectors at ``place``, or to zero without ``keep``."""
        with self.builder.if_else(keep) as (then, otherwise):
            with then:
                for vector, offset in self.offsets(sums, row):
                    self.builder.store(self.load(place, offset), vector)
            with otherwise:
                for vector, _ in self.offsets(sums, row):
                    self.builder.store(ir.Constant(self.kind, None), vector)

    def end(self, sums: Any, place: Any, row: Any) -> None:
        """Write sums to the vectors at ``place``."""
        for vector, offset in self.offsets(sums, row):
            self.store(self.builder.load(vector), place, offset)

    def offsets(self, sums: Any, row: Any) -> Any:
        """(vector, its distance in elements) of vectors in rows ``row`` apart."""
        for r, vectors in enumerate(sums):
            start = self.builder.mul(row, _WORD(r))
            for v, vector in enumerate(vectors):
                yield vector, self.builder.add(start, _WORD(v * self.lanes))

    def add_product(self, vector: Any, a: Any, b: Any) -> None:
        if self.of_squares:
            a = b = self.builder.fsub(a, b)
        self.builder.store(self.builder.call(self._fma, [a, b, self.builder.load(vector)]), vector)

    def add_products(self, sums: Any, column: _Column, rows: _Rows, inner: Any) -> None:
        """Add to sums the products of ``inner`` columns' numbers, each with the row that belongs to its column.

        The loop of high tiles is unrolled: of its counter, jump and pointer it then executes a quarter, which counts
        where two hardware threads share a core's instruction slots. A product on two threads takes 0.9 of the time.
        """
        at_once = _UNROLLED if len(sums) >= _HIGH else 1
        self._repeat(self.builder.udiv(inner, _WORD(at_once)), at_once, sums, column, rows)
        if at_once > 1:
            self._repeat(self.builder.urem(inner, _WORD(at_once)), 1, sums, column, rows)

    def _repeat(self, times: Any, count: int, sums: Any, column: _Column, rows: _Rows) -> None:
        with cgutils.for_range(self.builder, times):
            for k in range(count):
                row = rows.ahead(k)
                parts = [self.load(row, _WORD(v * self.lanes)) for v in range(len(sums[0]))]
                for r, totals in enumerate(sums):
                    factor = column.spread(r)
                    for total, part in zip(totals, parts, strict=True):
                        self.add_product(total, factor, part)
                column.move()
            rows.move(count)

    def column(self, place: Any, row: Any, step: Any, count: int) -> _Column:
        """The column that begins at ``place`` of a matrix of ``count`` rows; distances in bytes."""
        return _Column(self, place, row, step, count)

    def rows(self, place: Any, step: Any) -> _Rows:
        """The row that begins at ``place``, and then those that are ``step`` bytes apart."""
        return _Rows(self, place, step)


class _Column:
    """Numbers of a column of a matrix, one of each row, and then those of the next column.

    Instructions reach three rows from one address. LLVM, which would add up the address of each row from that of the
    row before, an instruction more for every row, isn't told that the addresses depend on one another.
    """

    def __init__(self, emit: Vectors, place: Any, row: Any, step: Any, count: int):
        self.emit, self.builder, self.step = emit, emit.builder, step
        self.distances = [_WORD(0), row, self.builder.shl(row, _WORD(1))]
        self.places = [cgutils.alloca_once(self.builder, _WORD) for _ in range(0, count, 3)]
        for k, target in enumerate(self.places):
            start = self.builder.add(place, self.builder.mul(row, _WORD(3 * k)))
            self.builder.store(start, target)

    def spread(self, r: int) -> Any:
        """A vector of the number of row ``r``."""
        place = self.builder.add(self.builder.load(self.places[r // 3]), self.distances[r % 3])
        return self.emit.spread(self.builder.inttoptr(place, self.emit.number.as_pointer()))

    def move(self) -> None:
        """Go to the next column."""
        for place in self.places:
            self.builder.store(_hidden(self.builder, self.builder.add(self.builder.load(place), self.step)), place)


class _Rows:
    """Rows of a matrix, one after another; distances in bytes."""

    def __init__(self, emit: Vectors, place: Any, step: Any):
        self.emit, self.builder, self.step = emit, emit.builder, step
        self.place = cgutils.alloca_once(self.builder, _WORD)
        self.builder.store(place, self.place)

    def _behind(self, count: int) -> Any:
        return self.builder.add(self.builder.load(self.place), self.builder.mul(self.step, _WORD(count)))

    def ahead(self, count: int) -> Any:
        """The address of the row ``count`` behind this one."""
        return self.builder.inttoptr(self._behind(count), self.emit.number.as_pointer())

    def move(self, count: int) -> None:
        """Go on by so many rows."""
        self.builder.store(_hidden(self.builder, self._behind(count)), self.place)


class _ListedRows(_Rows):
    """Rows whose distances from ``start``, in elements, are listed one behind the other from ``place`` on."""

    def __init__(self, emit: Vectors, place: Any, start: Any):
        super().__init__(emit, place, _WORD(_WORD.width // 8))
        self.start = start

    def ahead(self, count: int) -> Any:
        listed = self.builder.inttoptr(self._behind(count), _WORD.as_pointer())
        return self.builder.gep(self.start, [self.builder.load(listed)])


def _hidden(builder: Any, word: Any) -> Any:
    """The same word from an empty assembly statement, through which LLVM does not optimise."""
    return builder.call(ir.InlineAsm(ir.FunctionType(_WORD, [_WORD]), "", "=r,0"), [word])


def _constants(*numbers: Any) -> bool:
    return all(isinstance(n, types.IntegerLiteral) for n in numbers)


@intrinsic
def product_tile(
    typing_context: Any, rows: Any, vectors: Any, x: Any, x_first: Any, x_row: Any, x_step: Any, y: Any, y_first: Any,
    places: Any, inner: Any, out: Any, out_first: Any, out_row: Any, keep: Any,
) -> Any:  # fmt: skip
    """out = x @ y, or out + x @ y with ``keep``, for ``rows`` rows and ``vectors`` vectors of 64 bytes: constants.

    Rows of x are ``x_row`` elements apart, its ``inner`` columns ``x_step``: so x may be transposed. Row k of y begins
    ``places[k]`` elements behind ``y_first``, or ``k * places``. Rows of out are ``out_row`` elements apart.
    """
    return _tile(rows, vectors, x, y, places, out, of_squares=False)


@intrinsic
def squares_tile(
    typing_context: Any, rows: Any, vectors: Any, x: Any, x_first: Any, x_row: Any, x_step: Any, y: Any, y_first: Any,
    places: Any, inner: Any, out: Any, out_first: Any, out_row: Any, keep: Any,
) -> Any:  # fmt: skip
    """`product_tile` with squared differences of the factors in the place of their products."""
    return _tile(rows, vectors, x, y, places, out, of_squares=True)


def _tile(rows: Any, vectors: Any, x: Any, y: Any, places: Any, out: Any, of_squares: bool) -> Any:
    """What `product_tile` and `squares_tile` are for arguments of these types."""
    if not _constants(rows, vectors):
        return None
    number = types.int64
    table = places if isinstance(places, types.Array) else number
    signature = types.void(rows, vectors, x, number, number, number, y, number, table, number, out, number, number,
                           types.boolean)  # fmt: skip
    if out.dtype not in (types.float32, types.float64):
        return signature, lambda context, *_: context.get_dummy_value()

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Vectors(context, builder, out.dtype, of_squares=of_squares)
        left, right = emit.data(x, args[2], args[3]), emit.data(y, args[6], args[7])
        target = emit.data(out, args[10], args[11])
        row, step = (builder.mul(a, _WORD(emit.item)) for a in (args[4], args[5]))
        column = emit.column(builder.ptrtoint(left, _WORD), row, step, rows.literal_value)
        sums = emit.sums(rows.literal_value, vectors.literal_value)
        emit.begin(sums, args[13], target, args[12])
        if isinstance(table, types.Array):
            listed = builder.ptrtoint(emit.data(table, args[8], _WORD(0)), _WORD)
            walk: _Rows = _ListedRows(emit, listed, right)
        else:
            walk = emit.rows(builder.ptrtoint(right, _WORD), builder.mul(args[8], _WORD(emit.item)))
        emit.add_products(sums, column, walk, args[9])
        emit.end(sums, target, args[12])
        return context.get_dummy_value()

    return signature, build


@intrinsic
def sum_tile(
    typing_context: Any, rows: Any, columns: Any, x: Any, x_first: Any, x_row: Any, y: Any, y_first: Any, places: Any,
    first: Any, count: Any, out: Any, out_first: Any, out_row: Any, keep: Any,
) -> Any:  # fmt: skip
    """Sums of products of rows of x and rows of y, element by element, as vectors of 64 bytes whose lanes make a sum.

    out: of each of ``rows`` rows of x and ``columns`` rows of y a vector, plus what stands there with ``keep``; vectors
    of a row of x lie side by side. Row j of y begins ``places[first + j]`` elements behind ``y_first``. count: of
    elements, in vectors. rows and columns are constants.
    """
    if not _constants(rows, columns):
        return None
    number = types.int64
    signature = types.void(rows, columns, x, number, number, y, number, places, number, number, out, number, number,
                           types.boolean)  # fmt: skip
    if out.dtype not in (types.float32, types.float64):
        return signature, lambda context, *_: context.get_dummy_value()

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        emit = Vectors(context, builder, out.dtype)
        left, right = emit.data(x, args[2], args[3]), emit.data(y, args[5], args[6])
        target, listed = emit.data(out, args[10], args[11]), emit.data(places, args[7], args[8])
        lefts = [builder.gep(left, [builder.mul(args[4], _WORD(r))]) for r in range(rows.literal_value)]
        rights = [
            builder.gep(right, [builder.load(builder.gep(listed, [_WORD(c)]))]) for c in range(columns.literal_value)
        ]
        sums = emit.sums(rows.literal_value, columns.literal_value)
        emit.begin(sums, args[13], target, args[12])
        with cgutils.for_range(builder, args[9]) as loop:
            at = builder.mul(loop.index, _WORD(emit.lanes))
            factors = [emit.load(start, at) for start in rights]
            for start, totals in zip(lefts, sums, strict=True):
                part = emit.load(start, at)
                for total, factor in zip(totals, factors, strict=True):
                    emit.add_product(total, part, factor)
        emit.end(sums, target, args[12])
        return context.get_dummy_value()

    return signature, build
