"""Scalar rules and loops to the text of CUDA kernels: the counterpart of `codegen.emit_cpu` for numba.cuda.

The same rules and words, with two differences. One thread computes every so many-th element, over
a grid of any size ("grid-stride loop"). And no number may be wider than the kernel's dtype: GPUs for
games and graphics compute float64 at a thirtieth of their speed, so scalars and literals are typed.

``flat`` kernels take contiguous arrays and the number of elements ``n``. ``strided`` kernels take
each array from its first element on, and before ``n`` one array on the device, ``geometry``: the number
of dimensions, the sizes, then the strides of every array in turn. One kernel serves any rank.
"""

from __future__ import annotations

import ast
import functools
import inspect
import struct
from collections.abc import Iterable, Sequence

from jitgrad.kernels.codegen.emit_cpu import Argument, element, fill
from jitgrad.kernels.codegen.rule_text import retype
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.cuda import math as cuda_math
from jitgrad.kernels.cuda.math import Complex, Integer, Real
from jitgrad.kernels.words import WORDS
from jitgrad.kernels.words.syntax import expression, parse

__all__ = ["DEVICE", "device_words", "elementwise_text", "scalar_names", "self_contained"]

# What decorates helpers in device text, as INLINE does in the CPU's.
DEVICE = "@cuda.jit(device=True)"
_REAL_OF = {"complex64": "float32", "complex128": "float64"}
# Where a word's own replacement for device code goes through integers or float64, or uses bits.
_BETTER = {"round": "libdevice.rint", "trunc": "libdevice.trunc", "nextafter": "math.nextafter",
           "exp2": "libdevice.exp2"}  # fmt: skip


def scalar_names(dtype: str) -> str:
    """Definitions of T, the kernel's dtype, and R, the same or the dtype of its real part."""
    scalar = {"bool": "bool_"}.get(dtype, dtype)
    return f"T = np.{scalar}\nR = np.{_REAL_OF.get(dtype, scalar)}\n"


class _Device(ast.NodeTransformer):
    """Rewrites what device code lacks, and notes the functions that must be written before it."""

    def __init__(self, dtype: str):
        # ``needed`` is an ordered set of keys of `_Writer._need`.
        self.dtype, self.needed = dtype, dict[str, None]()
        self.real: set[str] = set()  # variables known to be real in a complex kernel
        self.kind: type = Complex if dtype.startswith("complex") else Real if dtype.startswith("float") else Integer

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Note which variables are complex, before what they are made of is rewritten."""
        targets, values = [node.targets[0]], [node.value]
        if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            targets, values = targets[0].elts, node.value.elts
        for target, value in zip(targets, values, strict=True):
            if isinstance(target, ast.Name) and not self.is_complex(value):
                self.real.add(target.id)
        return self.generic_visit(node)

    def is_complex(self, node: ast.expr) -> bool:
        """Whether an expression in a complex kernel is complex: it names something that is."""
        if isinstance(node, ast.Name):
            return node.id not in self.real
        if isinstance(node, (ast.Constant, ast.Compare)) or (isinstance(node, ast.Attribute)):
            return False  # of attributes there are real and imag
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("np.abs", "np.arctan2", "math.hypot", "math.atan2", "R"):
                return False
            return not name.startswith(("np.", "math.")) or any(map(self.is_complex, node.args))
        return any(self.is_complex(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not (isinstance(node.value, ast.Name) and node.value.id in ("np", "libdevice")):
            return self.generic_visit(node)
        if node.value.id == "libdevice":  # its names end in f for float32
            return _name(f"libdevice.{node.attr}{'f' if self.dtype in ('float32', 'complex64') else ''}")
        return _call("R", node) if node.attr in ("inf", "nan", "pi") else node

    def numpys(self, name: str, args: list[ast.expr]) -> ast.expr | None:
        """The device's form of the function ``np.NAME`` for these arguments; None where NumPy's will do."""
        kind = self.kind
        if kind is Complex and not any(map(self.is_complex, args)):
            kind = Real
        found = getattr(kind, name, None)
        if found is None:
            return None
        # A string names CUDA's own function, a function here is written out before.
        if isinstance(found, str):
            return self.visit(_name(found))
        self.needed[f"{kind.__name__} {name}"] = None
        return _name(f"{kind.__name__.lower()}_{name}")

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """float64 constants travel as bits, safe from being read as T; here they become numbers again."""
        text = ast.unparse(node)
        if text.endswith(".view(np.float64)") and text.startswith("np.int64("):
            try:
                bits = int(text[len("np.int64(") : -len(").view(np.float64)")])
            except ValueError:
                return self.generic_visit(node)
            return _call("np.float64", ast.Constant(struct.unpack("<d", struct.pack("<q", bits))[0]))
        function = node.func
        if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "np":
            found = self.numpys(function.attr, node.args)
            if found is not None:
                return ast.Call(found, [self.visit(a) for a in node.args], [])
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Whole powers multiply: numba.cuda's are float64 for complex64."""
        self.generic_visit(node)
        exponent = _whole(node.right) if isinstance(node.op, ast.Pow) else None
        if exponent is None:
            return node
        self.needed[f"power {exponent}"] = None
        return _call(_power_name(exponent), node.left)


def _name(dotted: str) -> ast.expr:
    return expression(dotted)


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_name(name), list(args), [])


def _whole(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) and abs(value) <= 64 else None


def _power_name(exponent: int) -> str:
    return f"power_{exponent}".replace("-", "minus_")


def _power_text(exponent: int) -> str:
    """x to a whole power, by squaring."""
    lines, n = ["result = T(1)"] if exponent <= 0 else [], abs(exponent)
    started = exponent <= 0
    while n:
        if n & 1:
            lines.append("result = result * x" if started else "result = x")
            started = True
        n >>= 1
        lines += ["x = x * x"] * (n > 0)
    last = "T(1) / result" if exponent < 0 else "result"
    return f"def {_power_name(exponent)}(x):\n    " + "\n    ".join([*lines, f"return {last}"]) + "\n"


@functools.cache
def _numpy_bodies() -> dict[tuple[str, str], ast.FunctionDef]:
    """The functions of `cuda_math`, by class and name."""
    tree = parse(inspect.getsource(cuda_math))
    blocks = [block for block in tree.body if isinstance(block, ast.ClassDef)]
    return {(c.name, f.name): f for c in blocks for f in c.body if isinstance(f, ast.FunctionDef)}


class _RealLiterals(ast.NodeTransformer):
    """Reads retyped literals in the real dtype: ``T(0.5)`` becomes ``R(0.5)``."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("R", node.ctx) if node.id == "T" else node


def _numpy_text(kind: str, name: str) -> str:
    body = ast.unparse(_numpy_bodies()[kind, name])
    tree = _RealLiterals().visit(parse(retype(body.replace(f"def {name}(", f"def {kind.lower()}_{name}(", 1))))
    return ast.unparse(tree) + "\n"


class _Writer:
    """Collects the definitions that device code needs, each after those that it uses."""

    def __init__(self, dtype: str):
        self.dtype, self.done = dtype, dict[str, str]()

    def device(self, text: str) -> str:
        """Return ``text`` for the device, its needs written."""
        device = _Device(self.dtype)
        tree = ast.fix_missing_locations(device.visit(parse(text)))
        for need in device.needed:
            self._need(need)
        return ast.unparse(tree)

    def _need(self, key: str) -> None:
        """Write a function of `cuda_math` ("Complex exp"), or a whole power ("power 3")."""
        if key in self.done:
            return
        kind, name = key.split()
        text = _power_text(int(name)) if kind == "power" else _numpy_text(kind, name)
        # `cuda.math` calls its own functions as complex_NAME: those come first.
        for other in [n.id for n in ast.walk(parse(text)) if isinstance(n, ast.Name)]:
            if other.startswith("complex_"):
                self._need(f"Complex {other.removeprefix('complex_')}")
        self.done[key] = f"{DEVICE}\n{text}"

    def word(self, name: str) -> None:
        """Write a word and the words that it uses."""
        if name in self.done:
            return
        word = WORDS[name]
        better = _BETTER.get(name) if self.dtype.startswith("float") else None
        if better:
            args = ", ".join(word.parameters)
            source = f"def {name}({args}):\n    return {better}({args})\n"
        else:
            source = word.cuda_source(self.dtype)
            for other in word.cuda_uses(self.dtype):
                self.word(other)
        self.done[name] = f"{DEVICE}\n{self.device(retype(source))}\n"

    def text(self) -> str:
        return "\n".join(self.done.values())


def device_words(names: Iterable[str], dtype: str) -> str:
    """Return definitions of the words ``names`` for the device, and of all that they use."""
    writer = _Writer(dtype)
    for name in sorted(names):
        writer.word(name)
    return writer.text()


def self_contained(text: str, words: Iterable[str], dtype: str) -> str:
    """Return ``text``, a kernel's definition, after all that it names in dtype ``dtype``."""
    writer = _Writer(dtype)
    for name in sorted(words):
        writer.word(name)
    body = writer.device(text)
    return f"{scalar_names(dtype)}\n{writer.text()}\n{body}\n"


# Names that end in an underscore are the template's: rules do not use them.
_FLAT = """\
def {name}({parameters}, n_):
    {scalars}
    for i_ in range(cuda.grid(1), n_, cuda.gridsize(1)):
        {loads}
        {body}
        {stores}
"""
_STRIDED = """\
def {name}({parameters}, geometry_, n_):
    {scalars}
    ndim_ = int(geometry_[0])
    for i_ in range(cuda.grid(1), n_, cuda.gridsize(1)):
        rest_ = {index}(i_)
        {offsets}
        for d_ in range(ndim_, 0, -1):
            size_ = geometry_[d_]
            j_ = {index}(rest_ % size_)
            rest_ = {index}(rest_ // size_)
            {advance}
        {loads}
        {body}
        {stores}
"""


def elementwise_text(
    name: str, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], out_dtypes: Sequence[str],
    dtype: str, strided: bool, conjugate: bool, index: str,
) -> str:  # fmt: skip
    """Return the text of the kernel ``name(input arrays..., outputs..., scalars...[, geometry], n)``.

    ``dtype`` is the compute dtype, ``index`` that of strided kernels' arithmetic on places, "uint32"
    where it suffices: 64-bit division takes a GPU several times as long.
    """
    arrays = [a.name for a in arguments if a.kind == "array"]
    casts = {a.name: "bool" if a.condition else "T" for a in arguments}
    scalars = [a.name for a in arguments if a.kind == "scalar"]
    outputs = [target for _, target in rules]
    body, values, words = element(rules, arguments, out_dtypes, dtype, conjugate)
    place = (lambda a: f"{a}_array[{a}_at]") if strided else (lambda a: f"{a}_array[i_]")
    every = [*arrays, *outputs]
    pieces = {
        "scalars": [f"{s} = T({s}_scalar)" for s in scalars] or ["pass"],
        "loads": [f"{a} = {casts[a]}({place(a)})" for a in arrays] or ["pass"],
        "body": body,
        "stores": [f"{place(o)} = {v}" for o, v in zip(outputs, values, strict=True)],
        "offsets": [f"{a}_at = np.{index}(0)" for a in every],
        "advance": [f"{a}_at = np.{index}({a}_at + j_ * geometry_[{k + 1} * ndim_ + d_])" for k, a in enumerate(every)],
    }
    parameters = ", ".join([*(f"{a}_array" for a in every), *(f"{s}_scalar" for s in scalars)])
    template = _STRIDED if strided else _FLAT
    text = fill(template, pieces, name=name, parameters=parameters, index=f"np.{index}")
    return self_contained(text, words, dtype)
