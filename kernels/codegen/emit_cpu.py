"""Scalar rules to the text of a CPU loop kernel.

From rules, a compute dtype and a layout follow self-contained source: the words that the rules name
are written out first, then one loop that loads every input, evaluates every rule and only then
stores (LLVM merges calls that rules share only when no store lies between them).

Two layouts suffice. ``flat`` loops over contiguous arrays, long ones in blocks of which results are written past the
caches (words/stream.py). ``strided`` takes the first element of
each array as a one-element array, with the collapsed shape and the strides (in elements) as
``uint64`` arrays: any rank, permutation and broadcast runs through one compiled overload.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import NamedTuple

from jitgrad.kernels.codegen.rule_text import inline, with_divide, words_called, words_text
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.codegen.source import ONE_VECTOR
from jitgrad.kernels.words import WORDS
from jitgrad.kernels.words.syntax import nodes, parse

__all__ = ["TILE", "Argument", "converted", "element", "elementwise_text", "fill", "scalar_type"]

Literal = int | float


class Argument(NamedTuple):
    """One input of a kernel: an array, a run-time scalar, or a number written into the text (a "literal")."""

    name: str
    kind: str  # "array", "scalar" or "literal"
    value: Literal | None = None
    condition: bool = False  # a boolean array, read as it is
    once: bool = False  # an array of one element among longer ones, read before the loop
    half: str = ""  # "float16" or "bfloat16": the array is of their bits, as uint16
    rounded: str = ""  # "float16" or "bfloat16": values of another dtype are rounded to that one before they are used


def element(
    rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], out_dtypes: Sequence[str], dtype: str,
    conjugate: bool,
) -> tuple[list[str], list[str], set[str]]:  # fmt: skip
    """Return (statements computing one element, expressions to store, words called)."""
    literals: dict[str, ast.expr] = {a.name: ast.Constant(a.value) for a in arguments if a.kind == "literal"}
    # Forward rules name no g, and are not conjugated.
    conjugate = conjugate and any(a.name == "g" for a in arguments)
    body = ["g_conj = np.conj(g)"] if conjugate else []
    for (rule, target), out in zip(rules, out_dtypes, strict=True):
        lines = [with_divide(line, dtype) for line in inline(rule, f"{target}_value", literals, conjugate)]
        # The one word whose result depends on the format that is stored: a neighbour in float32 would round back.
        body += [line.replace("nextafter(", f"nextafter_{out}(") for line in lines] if "float16" in out else lines
    stores = []
    for (_, target), out in zip(rules, out_dtypes, strict=True):
        real = dtype.startswith("complex") and out.lstrip("b").startswith("float")
        half = out.endswith("float16")
        value = f"T({target}_value)" if real and half else f"{target}_value"  # it may be a truth, which has no .real
        value += ".real" if real else ""
        single = value if dtype in ("float64", "complex128") else f"np.float32({value})"
        stores.append(f"to_{out}({single})" if half else value)
    return body, stores, words_called(body)


# Templates: a line that is one {name} becomes the lines of that piece; others are formatted. See `fill`.
_FLAT = """\
def {name}({parameters}):
    {scalars}
    for i in range({first}.size):
        {loads}
        {body}
        {stores}
"""
_BLOCK = 1024  # elements that fit in the first-level cache several times over
# Where a word has a faster form for moderate arguments: each block is tested, then runs in one of two loops.
_BLOCKED = """\
def {name}({parameters}):
    {scalars}
    for start in range(0, {first}.size, {block}):
        {cuts}
        near = True
        for i in range({first_block}.size):
            {checks}
        if near:
            for i in range({first_block}.size):
                {loads}
                {near_body}
                {stores}
        else:
            for i in range({first_block}.size):
                {loads}
                {body}
                {stores}
"""
# Results of a block go to a buffer on the stack, in the first-level cache, then to memory by non-temporal stores.
_STREAMED = """\
def {name}({parameters}):
    {scalars}
    {buffers}
    for start in range(0, {first}.size, {block}):
        {cuts}
        for i in range({first_block}.size):
            {loads}
            {body}
            {stores}
        {streams}
    drain()
"""
# A row is what the innermost dimension spans. The row's number in mixed radix gives the other indices. That takes two
# divisions for each dim, so it is done once for all neighbouring rows that differ in the last of these indices only.
_STRIDED = """\
def {name}({parameters}, shape, strides, first_row, last_row):
    {scalars}
    last = shape.size - 1
    longest_run = shape[last - 1] if last else np.uint64(1)
    {inner_strides}
    {row_strides}
    row = np.uint64(first_row)
    while row < np.uint64(last_row):
        rest = row
        {offsets}
        for d in range(last - 1, -1, -1):
            j = rest % shape[d]
            rest //= shape[d]
            {advance}
        run = min(longest_run - row % longest_run, np.uint64(last_row) - row)
        row += run
        for _ in range(run):
            {repeated}
            for i in range(shape[last]):{mark}
                {loads}
                {body}
                {stores}
            {next_row}
"""
_ROW_INDEX, _TILE_INDEX = "{0}_array[{0}_at + i * {0}_step]", "{0}_array[{0}_at + i * {0}_row + j * {0}_step]"
# Rows and columns of a square: as many as two squares, one read and one written, have lines in a set of the first-level
# cache where rows are a power of two apart. That took 9.3 ms in squares of 16 for 2048 x 2048 of float32, in those 6.4.
TILE = 8
# Where an input's memory runs along another dim than the results': squares over both dims, the last two here, so that
# each cache line is read and written once while it is in cache. Loops of a fixed length are unrolled, which is worth
# another factor of 2. ``first_row`` and ``last_row`` count rows of squares.
_TILED = """\
def {name}({parameters}, shape, strides, first_row, last_row):
    {scalars}
    last, tile = shape.size - 1, np.uint64({tile})
    {inner_strides}
    {row_strides}
    row_tiles = (shape[last - 1] + tile - np.uint64(1)) // tile
    for tile_row in range(np.uint64(first_row), np.uint64(last_row)):
        rest = tile_row // row_tiles
        top = tile_row % row_tiles * tile
        {tops}
        for d in range(last - 2, -1, -1):
            j = rest % shape[d]
            rest //= shape[d]
            {advance}
        height = min(shape[last - 1] - top, tile)
        for left in range(np.uint64(0), shape[last], tile):
            if height == tile and left + tile <= shape[last]:
                for i in range(tile):
                    for j in range(tile):
                        {loads}
                        {body}
                        {stores}
            else:
                for i in range(height):
                    for j in range(min(shape[last] - left, tile)):
                        {loads}
                        {body}
                        {stores}
            {next_tile}
"""


def elementwise_text(
    name: str, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], out_dtypes: Sequence[str],
    dtype: str, strided: bool, conjugate: bool, row_steps: tuple[int, ...] = (), tiled: bool = False,
    inplace: bool = False, streamed: bool = False,
) -> str:  # fmt: skip
    """Return the text of the kernel ``name(input arrays..., outputs..., scalars...[, shape, strides])``.

    ``rules`` pairs each rule with the name of what it computes; ``dtype`` is the compute dtype. ``row_steps``: for a
    strided kernel the innermost stride of each array, inputs and then outputs, where all are 0 or 1: LLVM then makes
    vector loops of the rows. ``tiled``: the form of a strided kernel that visits squares of the last two dims.
    ``inplace``: the output is the first input's array. One name for both lets LLVM make a vector loop; where two names
    turn out to overlap, the loop runs element by element. ``streamed``: the form of a flat kernel that writes past the
    caches.
    """
    arrays = [a.name for a in arguments if a.kind == "array"]
    casts = {a.name: _load(a, dtype) for a in arguments}
    scalars = [a.name for a in arguments if a.kind == "scalar"]
    outputs = [target for _, target in rules]
    targets = arrays[:1] if inplace else outputs
    body, values, words = element(rules, arguments, out_dtypes, dtype, conjugate)
    every = [f"{a}_array" for a in [*arrays, *outputs]]
    once = [a.name for a in arguments if a.once]
    repeated = [a for a, step in zip(arrays, row_steps, strict=False) if not step]
    walked = [a for a in arrays if a not in once and a not in repeated]
    # Strided loops have no block to test beforehand.
    near_body, limits, tests = ([], {}, []) if strided else near(body, walked, [*scalars, *once], dtype)
    blocked = bool(limits or tests)
    index = "{0}_block[i]" if blocked or streamed else "{0}_array[i]"
    if strided:
        index = _TILE_INDEX if tiled else "{0}_array[{0}_at + i]" if row_steps else _ROW_INDEX
    stored = "{0}_buffer[i]" if streamed else index
    pieces = {
        "scalars": [f"{s} = {casts[s].format(f'{s}_scalar')}" for s in scalars]
        + [f"{a} = {casts[a].format(f'{a}_array[0]')}" for a in once],
        "repeated": [f"{a} = {casts[a].format(f'{a}_array[{a}_at]')}" for a in repeated],
        "loads": [f"{a} = {casts[a].format(index.format(a))}" for a in walked],
        "body": body,
        "stores": [f"{stored.format(o)} = {v}" for o, v in zip(targets, values, strict=True)],
        "inner_strides": [f"{a[:-6]}_step = strides[{k}, last]" for k, a in enumerate(every)],
        "row_strides": [f"{a[:-6]}_row = strides[{k}, last - 1]" for k, a in enumerate(every)],
        "next_row": [f"{a[:-6]}_at += {a[:-6]}_row" for a in every],
        "tops": [f"{a[:-6]}_at = top * {a[:-6]}_row" for a in every],
        "next_tile": [f"{a[:-6]}_at += tile * {a[:-6]}_step" for a in every],
        "offsets": [f"{a[:-6]}_at = np.uint64(0)" for a in every],
        "advance": [f"{a[:-6]}_at += j * strides[{k}, d]" for k, a in enumerate(every)],
        "near_body": near_body,
        "checks": [
            f"near &= (T({low}) <= {load}) & ({load} <= T({high}))"
            for a, (low, high) in limits.items()
            for load in [casts[a].format(index.format(a)) if "float16" in casts[a] else index.format(a)]
        ]
        + [
            f"near &= {test}({', '.join(casts[a].format(index.format(a)) if a in walked else a for a in given)})"
            for test, given in tests
        ],
        "cuts": [f"{a}_block = {a}_array[start : start + {_BLOCK}]" for a in [*walked, *outputs]],
        "buffers": [
            f"{o}_buffer = scratch({_BLOCK}, np.{_stored_type(d)})" for o, d in zip(outputs, out_dtypes, strict=True)
        ],
        "streams": [f"stream({o}_block, {o}_buffer)" for o in outputs],
    }
    words |= words_called(near_body) | {test for test, _ in tests}
    head = f"T = np.{scalar_type(dtype)}\n{words_text(words, dtype)}\n"
    parameters = ", ".join([*every, *(f"{s}_scalar" for s in scalars)])
    template = _TILED if tiled else _STRIDED if strided else _STREAMED if streamed else _BLOCKED if blocked else _FLAT
    return head + fill(
        template, pieces, name=name, parameters=parameters, block=str(_BLOCK), tile=str(TILE),
        first=f"{outputs[0]}_array", first_block=f"{outputs[0]}_block", mark=ONE_VECTOR,
    )  # fmt: skip


# Machines convert floats to integers of 32 bits or more. What LLVM does for shorter ones, and for uint32, where the
# number does not fit depends on whether it makes a vector loop: -2.0 as uint8 was 0 there, and 254 elsewhere. By way of
# a longer integer, whose upper bits are cut off, it is the same number everywhere, and PyTorch's.
_BY_WAY_OF = dict.fromkeys(("uint8", "int8", "uint16", "int16"), "int32") | {"uint32": "int64"}


def converted(value: str, dtype: str) -> str:
    """The form of an expression in the compute dtype."""
    return f"T(np.{_BY_WAY_OF[dtype]}({value}))" if dtype in _BY_WAY_OF else f"T({value})"


def _load(argument: Argument, dtype: str) -> str:
    """The form of an expression that reads an argument's element, in the compute dtype."""
    value = f"from_{argument.half}({{}})" if argument.half else "{}"
    if argument.rounded:
        value = f"from_{argument.rounded}(to_{argument.rounded}({value}))"
    return f"bool({value})" if argument.condition else converted(value, dtype)


_Tests = list[tuple[str, tuple[str, ...]]]


def near(
    body: list[str], arrays: Sequence[str], numbers: Sequence[str], dtype: str
) -> tuple[list[str], dict[str, tuple[float, float]], _Tests]:
    """The body with words' forms for common arguments, and for which it holds.

    These are the intervals of inputs, and words that are to be true with their arguments. All empty unless every such
    word is applied to inputs themselves, elements of ``arrays`` or ``numbers``.
    """
    tree = parse("\n".join(body))
    limits: dict[str, tuple[float, float]] = {}
    tests: _Tests = []
    for call in [n for n in nodes(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]:
        form = WORDS[call.func.id].near if call.func.id in WORDS else None  # type: ignore[attr-defined]
        if form is None or dtype not in form[1]:
            continue
        where, given = form[1][dtype], [a.id if isinstance(a, ast.Name) else "" for a in call.args]
        # Arguments are known only where they are inputs as they were loaded.
        if isinstance(where, str):
            if not {*arrays, *numbers}.issuperset(given):
                return [], {}, []
            tests.append((where, tuple(given)))
        else:
            if given[0] not in arrays:
                return [], {}, []
            low, high = limits.get(given[0], (-math.inf, math.inf))
            limits[given[0]] = max(low, where[0]), min(high, where[1])
        call.func.id = form[0]  # type: ignore[attr-defined]
    return (ast.unparse(tree).splitlines(), limits, tests) if limits or tests else ([], {}, [])


def scalar_type(dtype: str) -> str:
    """NumPy's name for the scalar type of a dtype."""
    return "bool_" if dtype == "bool" else dtype


def _stored_type(dtype: str) -> str:
    """NumPy's name for the dtype of an array of results; those of float16 and bfloat16 hold their bits."""
    return "uint16" if dtype.endswith("float16") else scalar_type(dtype)


def fill(template: str, pieces: dict[str, list[str]], **words: str) -> str:
    """Fill a text template: lists become lines at their placeholder's indentation."""
    lines = []
    for line in template.splitlines():
        key = line.strip()[1:-1]
        if line.strip() == f"{{{key}}}" and key in pieces:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + piece for piece in pieces[key]]
        else:
            lines.append(line.format(**words) if "{" in line else line)
    return "\n".join(lines) + "\n"
