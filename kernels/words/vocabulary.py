"""What a word is, and how one is declared.

A *word* is a scalar function that rules and loop kernels call by its bare name. It is declared
once, as a class block that holds one body per kind of number:

    @word(np.exp, ulp={"float32": 1, "float64": 1}, cuda="math.exp")
    class exp:
        \"\"\"e to the power x.\"\"\"
        def float32(x): ...
        def float64(x): ...
        def complex(x): return np.exp(x)

A body is found under the exact name of the dtype, else under the names of its kinds (`KINDS`). It
is never called as it stands: its text goes into a kernel. There, ``T`` is the type of the kernel's
compute dtype (``np.float32`` in a float32 kernel), which converts a number as ``T(0.5)``, and ``D``
(double) is float64 whatever the kernel's dtype. A body may name ``np``, ``math``, these two and other
words, and it must follow four rules.

* No branches that LLVM could not turn into selects, no calls, no tables: then loops vectorise.
* Float literals are written plainly; the emitter retypes them as ``T(...)``, but not those inside
  ``np.int32(...)``, ``np.float64(...)`` and their like. A number that must stay float64 in a
  float32 body is written ``D(...)`` and travels as its bit pattern.
* ``horner(t, a, b, c)`` is written out as ``(a * t + b) * t + c``, for polynomials of many terms.
* Numba adds two int32 as int64 and makes float64 of int32 * float32: cast integers at once.
* Compiled with ``fastmath={"contract"}`` only. Error-free sums and the "magic" rounding constants
  rely on the order of operations, so a word keeps its own flags where it is inlined into a kernel
  that allows reassociation.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import struct
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np

from jitgrad.kernels.words.syntax import Transformer, definition, expression, nodes, parameters, parse

__all__ = [
    "KINDS", "WORDS", "D", "T", "Word", "by_scipy", "copy_numbers", "drain", "draw", "fma", "gemm", "gemm_part",
    "gradient_places", "horner", "matrix_in", "prefetch", "product_tile", "scratch", "squares_tile", "stream",
    "sum_tile", "tile_places", "tile_results", "vectorized", "word",
]  # fmt: skip

# Bodies import these names so that linters know them. Only the bodies' text is used, in which the
# emitter gives T its type and replaces D(0.1) by the number's bits, horner(...) by sums of products, and which imports
# scratch.py where it calls that: with it comes much of Numba.
T = D = np.float64
horner: Any = None
scratch: Any = None
draw: Any = None  # likewise, of random_draw.py
gemm: Any = None  # likewise, of gemm.py
gemm_part: Any = None  # likewise
matrix_in: Any = None  # and of memory.py
prefetch: Any = None  # and of prefetch.py
fma: Any = None  # and of fma.py
drain: Any = None  # and of stream.py
stream: Any = None
product_tile: Any = None  # and of tile.py
squares_tile: Any = None
sum_tile: Any = None
tile_places: Any = None  # and of winograd.py
copy_numbers: Any = None
gradient_places: Any = None
tile_results: Any = None

_INT = ("int", "any")
# Under which names a word's body for a dtype is looked for, the most particular first. 16-bit floats are computed in
# float32: they are conversions in the emitter's loads and stores.
KINDS: dict[str, tuple[str, ...]] = {
    "float16": ("float32", "real", "any"),
    "bfloat16": ("float32", "real", "any"),
    "float32": ("float32", "real", "any"),
    "float64": ("float64", "real", "any"),
    "complex64": ("complex64", "complex", "any"),
    "complex128": ("complex128", "complex", "any"),
    "bool": ("bool", *_INT),
    **{f"{sign}int{bits}": _INT for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_REAL = frozenset({"float16", "bfloat16", "float32", "float64"})

WORDS: dict[str, Word] = {}


class Word:
    """A scalar function with a body per dtype; calling it runs it on Tensors or NumPy values.

    ``ulp`` maps a dtype's name to the largest error, in units in the last place, over all inputs.
    ``internal`` marks a piece of other words that rules may not use. ``near``, where there is one,
    is a name and, by dtype, for which arguments the word of that name does the same, faster, while it is wrong for
    others: a closed interval, or the name of a word of all arguments that tells. ``rare`` words are long and seldom
    reached: they are called, not inlined.
    """

    def __init__(
        self,
        block: type,
        reference: Callable[..., Any] | None,
        ulp: Mapping[str, float],
        cuda: str | None,
        internal: bool,
        near: tuple[str, Mapping[str, tuple[float, float] | str]] | None = None,
        rare: bool = False,
    ):
        self.name: str = block.__name__
        self.__doc__ = block.__doc__
        self.reference = reference
        self.ulp = dict(ulp)
        self.internal = internal
        self.near = near
        self.rare = rare
        self._cuda = cuda
        self._bodies = {k: v for k, v in vars(block).items() if isinstance(v, FunctionType)}
        self.parameters: tuple[str, ...] = parameters(next(iter(self._bodies.values())))
        self._texts: dict[str, str] = {}  # of the bodies that were asked for

    @property
    def doc(self) -> str:
        """What the word computes, without indentation."""
        return inspect.cleandoc(self.__doc__ or "")

    @property
    def arity(self) -> int:
        """How many arguments the word takes."""
        return len(self.parameters)

    def __repr__(self) -> str:
        return f"<word {self.name}({', '.join(self.parameters)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)

    def supports(self, dtype_name: str) -> bool:
        """Whether the word has a body for that dtype."""
        return any(kind in self._bodies for kind in KINDS.get(dtype_name, ()))

    def source(self, dtype_name: str) -> str:
        """The text of a function of the word's name, for Numba's CPU target.

        Raises TypeError where the word has no body for that dtype.
        """
        for kind in KINDS.get(dtype_name, ()):
            if kind in self._bodies:
                return self._text(kind)
        raise TypeError(
            f"{self.name}: there is no body for {dtype_name!r}, only for {', '.join(self._bodies)}; "
            "convert the arguments first"
        )

    def cuda_source(self, dtype_name: str) -> str:
        """The text of a function of the word's name, for numba.cuda: libdevice where it has one."""
        if dtype_name not in _REAL:
            return self.source(dtype_name)
        if "cuda" in self._bodies:
            return self._text("cuda")
        if self._cuda:
            args = ", ".join(self.parameters)
            return f"def {self.name}({args}):\n    return {self._cuda}({args})\n"
        return self.source(dtype_name)

    def uses(self, dtype_name: str) -> tuple[str, ...]:
        """The other words that ``source(dtype_name)`` names, in order of appearance."""
        return self._named(self.source(dtype_name))

    @functools.cached_property
    def approximates(self) -> bool:
        """Whether polynomials compute it, here or in the words that it calls, so that it takes many instructions.

        Words that are exact to half a unit in the last place, such as sqrt, take one or two.
        """
        if any(ulp > 0.5 for ulp in self.ulp.values()):
            return True
        return self.supports("float64") and any(WORDS[name].approximates for name in self.uses("float64"))

    def cuda_uses(self, dtype_name: str) -> tuple[str, ...]:
        """The other words that ``cuda_source(dtype_name)`` names, in order of appearance."""
        return self._named(self.cuda_source(dtype_name))

    def __call__(self, *args: Any) -> Any:
        """Apply the word to the first argument that has ``_word``, else to NumPy values."""
        for arg in args:
            # A Tensor: its method finds the op of the word's name, so a rule runs as a differentiable backward, too.
            if hasattr(arg, "_word"):
                return arg._word(self.name, args)
        with np.errstate(all="ignore"):
            return (self.reference or self.interpreted)(*args)

    def interpreted(self, *args: Any) -> Any:
        """Run the body itself, element by element, in the Python interpreter.

        The arguments are broadcast and converted to their common dtype, at least float32.
        """
        dtype = np.result_type(*args, np.float32)
        given = np.broadcast_arrays(*(np.asarray(a, dtype) for a in args))
        body = _scalar(self, dtype.name)
        with np.errstate(all="ignore"):
            result = [body(*at) for at in zip(*(a.ravel() for a in given), strict=True)]
        return np.array(result).reshape(given[0].shape)[()]

    def _text(self, kind: str) -> str:
        """The body of that kind as a function of the word's name; `ast.unparse` leaves comments out."""
        if kind not in self._texts:
            body = definition(self._bodies[kind], "word")
            body.name = self.name
            self._texts[kind] = ast.unparse(_WrittenOut().visit(body)) + "\n"
        return self._texts[kind]

    def _named(self, text: str) -> tuple[str, ...]:
        names = [n.id for n in nodes(parse(text)) if isinstance(n, ast.Name)]
        return tuple(dict.fromkeys(n for n in names if n in WORDS and n != self.name))


def word(
    reference: Callable[..., Any] | None = None,
    *,
    ulp: Mapping[str, float] | None = None,
    cuda: str | None = None,
    internal: bool = False,
    near: tuple[str, Mapping[str, tuple[float, float] | str]] | None = None,
    rare: bool = False,
) -> Callable[[type], Word]:
    """Declare the decorated class block as a word; see this module's text.

    ``cuda`` names the function that replaces the bodies for real numbers in device code; a body
    called ``cuda`` does the same.
    """

    def declare(block: type) -> Word:
        made = Word(block, reference, ulp or {}, cuda, internal, near, rare)
        WORDS[made.name] = made
        return made

    return declare


def vectorized(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Return ``function``, such as `math.erf`, element by element over an array of floats, in the array's dtype.

    A reference for words that NumPy lacks. Where the function raises (a pole, an overflow) the result is infinite.
    """

    def at(x: float) -> float:
        try:
            return function(x)
        except (ValueError, OverflowError):
            return math.inf

    def applied(x: Any) -> Any:
        x = np.asarray(x, np.result_type(x, np.float32))
        return np.vectorize(at, otypes=[x.dtype])(x)[()]

    return applied


def by_scipy(name: str) -> Callable[..., Any]:
    """SciPy's special function of that name as a reference, looked up when it is called: only the tests have SciPy."""

    def reference(*args: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return reference


def _named(name: str) -> Word:
    return WORDS[name]


class _WrittenOut(Transformer):
    """Replaces ``D(0.1)`` by an expression without float literals that has that float64 value, and ``horner(...)``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "horner":
            return _horner(*node.args)
        if name != "D":
            return node
        value = float(ast.literal_eval(node.args[0]))
        (bits,) = struct.unpack("<q", struct.pack("<d", value))
        return expression(f"np.int64({bits}).view(np.float64)")


def _horner(variable: ast.expr, first: ast.expr, *rest: ast.expr) -> ast.expr:
    """The polynomial of a name, its coefficients given from the highest power to the lowest."""
    for coefficient in rest:
        first = ast.BinOp(ast.BinOp(first, ast.Mult(), variable), ast.Add(), coefficient)
    return first


@functools.cache
def _scalar(made: Word, dtype_name: str) -> Callable[..., Any]:
    """The word as a plain Python function of scalars, made of the text that kernels get."""
    names: dict[str, Any] = {"np": np, "math": math, "T": np.dtype(dtype_name).type}
    pending = [made]
    while pending:
        text = (current := pending.pop()).source(dtype_name)
        exec(compile(text, f"<word {current.name}>", "exec"), names)
        pending += [WORDS[n] for n in current.uses(dtype_name) if n not in names]
    return names[made.name]
