"""dtypes under PyTorch's names, and PyTorch's rules for combining them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

__all__ = [
    "all_dtypes", "by_name", "dtype", "from_argument", "from_numpy_dtype", "get_default_dtype", "promote",
    "set_default_dtype",
]  # fmt: skip

# NumPy's kind of a dtype -> its category. Promotion compares categories before sizes: an int64 tensor and a float32
# tensor give float32, where NumPy gives float64.
_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
# Dtypes of 16 bits that kernels compute with in float32. NumPy has no bfloat16: ml_dtypes brings it, which is imported
# when a tensor of it is first made, since most programs have none.
HALVES = ("float16", "bfloat16")


class dtype:
    """An element type, such as ``jitgrad.float32``; printed as PyTorch prints it.

    There is one object for each type, so that ``is`` compares. ``category``: 0 bool, 1 integer, 2 floating, 3 complex;
    what is 2 or more can require grad. ``title``: its name in errors, as "Float".
    """

    __slots__ = (
        "category", "is_complex", "is_floating_point", "is_half", "is_signed", "itemsize", "name", "numpy", "title",
    )  # fmt: skip

    numpy: np.dtype[Any]

    def __init__(self, name: str, title: str):
        self.name, self.title = name, title
        like = np.dtype("float16" if name == "bfloat16" else name)
        if name != "bfloat16":
            self.numpy = like
        self.category = _CATEGORY[like.kind]
        self.is_floating_point, self.is_complex = self.category == 2, self.category == 3
        self.is_signed = like.kind in "ifc"
        self.itemsize = like.itemsize
        self.is_half = name in HALVES

    def __getattr__(self, name: str) -> Any:
        """``numpy`` of bfloat16, when it is first asked for."""
        if name != "numpy":
            raise AttributeError(f"'torch.dtype' object has no attribute {name!r}", name=name, obj=self)
        from ml_dtypes import bfloat16

        self.numpy = np.dtype(bfloat16)
        _BY_NUMPY[self.numpy] = self
        return self.numpy

    @property
    def compute(self) -> dtype:
        """The dtype that kernels compute in: float32 for float16 and bfloat16."""
        return float32 if self.is_half else self

    @property
    def limits(self) -> Any:
        """NumPy's ``finfo`` of a floating dtype, that of the real part of a complex one."""
        return _limits(self)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return (by_name, (self.name,))  # copies and pickles must be the same object

    def to_real(self) -> dtype:
        """The dtype of the real part."""
        return {"complex64": by_name("float32"), "complex128": by_name("float64")}.get(self.name, self)

    def to_complex(self) -> dtype:
        """The complex dtype of the same precision."""
        return _COMPLEX.get(self.name, self)


@functools.cache
def _limits(of: dtype) -> Any:
    if of.name == "bfloat16":
        from ml_dtypes import finfo

        return finfo(of.numpy)
    return np.finfo(of.to_real().numpy)


_TITLES = {
    "bool": "Bool", "uint8": "Byte", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "int8": "Char",
    "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip
_ALL = {name: dtype(name, title) for name, title in _TITLES.items()}
_BY_NUMPY = {d.numpy: d for d in _ALL.values() if d.name != "bfloat16"}
# There is no complex dtype of 16 bits: NumPy and Numba lack one, and PyTorch's has few ops.
_COMPLEX = {**dict.fromkeys((*HALVES, "float32"), _ALL["complex64"]), "float64": _ALL["complex128"]}
_WIDE_UNSIGNED = frozenset(_ALL[name] for name in ("uint16", "uint32", "uint64"))
ALIASES = {
    "float": "float32", "double": "float64", "int": "int32", "long": "int64", "short": "int16",
    "cfloat": "complex64", "cdouble": "complex128", "half": "float16",
}  # fmt: skip
_default = _ALL["float32"]


def all_dtypes() -> tuple[dtype, ...]:
    """Every dtype, in the order bool, integers, floating, complex."""
    return tuple(_ALL.values())


def by_name(name: str) -> dtype:
    """Return the dtype called ``name``, e.g. "float32" or PyTorch's alias "float"."""
    return _ALL[ALIASES.get(name, name)]


def from_argument(value: Any) -> dtype | None:
    """A dtype as programs may write it, also as Python's float, int, bool or complex; None for what is none."""
    if isinstance(value, dtype):
        return value
    return _ALL[_PYTHON_TYPES[value]] if isinstance(value, type) and value in _PYTHON_TYPES else None


_PYTHON_TYPES = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}


def from_numpy_dtype(numpy_dtype: Any) -> dtype:
    """Return the dtype of a NumPy dtype; TypeError where PyTorch has none, ValueError for swapped bytes."""
    try:
        return _BY_NUMPY[np.dtype(numpy_dtype)]
    except KeyError:
        if not np.dtype(numpy_dtype).isnative:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. Conversion between byte orders "
                "is currently not supported."
            ) from None
        raise TypeError(
            f"can't convert np.ndarray of type {type_of_array(numpy_dtype)}. The only supported types are: float64, "
            "float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and "
            "bool."
        ) from None


def type_of_array(numpy_dtype: Any) -> str:
    """The type of an array's elements as errors name it: ``numpy.object_``."""
    kind = np.dtype(numpy_dtype).type
    return f"{kind.__module__}.{kind.__name__}"


def has_dtype(array: Any) -> bool:
    """Whether PyTorch has the dtype of a NumPy array."""
    return array.dtype in _BY_NUMPY


def get_default_dtype() -> dtype:
    """The dtype of new floating-point tensors: float32 unless ``set_default_dtype`` changed it."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Make ``d`` (float32 or float64) the dtype of new floating-point tensors."""
    global _default
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _default = d


def default_for(category: int) -> dtype:
    """The dtype of a tensor made of Python numbers of this category: bool, int64, the default, or its complex one."""
    if category == 3:
        return _default.to_complex()
    return _default if category == 2 else _ALL["int64" if category else "bool"]


def category_of(value: Any) -> int:
    """The category of a Python or NumPy number: 0 bool, 1 int, 2 float, 3 complex."""
    if isinstance(value, (bool, np.bool_)):  # before int, of which bool is a subclass
        return 0
    if isinstance(value, (int, np.integer)):
        return 1
    return 3 if isinstance(value, (complex, np.complexfloating)) else 2


def _combine(a: dtype | None, b: dtype | None) -> dtype | None:
    """The common dtype of two operands of one priority; None stands for no operand."""
    if a is None or b is None or a is b:
        return a or b
    # A floating dtype wins over an integer of any size; within floating or integer dtypes NumPy's rules are PyTorch's.
    unsigned = a in _WIDE_UNSIGNED or b in _WIDE_UNSIGNED
    if a.category >= 2 and b.category < 2 and not (unsigned and a.is_complex):
        return a
    if b.category >= 2 and a.category < 2 and not (unsigned and b.is_complex):
        return b
    if unsigned:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{a.title} and {b.title}"
        )
    if a.is_half and b.category == 2:
        return _ALL["float32"] if b.is_half else b
    if b.is_half and a.category == 2:
        return a
    return _BY_NUMPY[np.promote_types(a.compute.numpy, b.compute.numpy)]


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that both can be cast to, by PyTorch's rules."""
    return _combine(a, b)  # type: ignore[return-value]


def promote(dimensioned: list[dtype], zero_dim: list[dtype], numbers: list[int]) -> dtype:
    """The common dtype of an op's operands, by PyTorch's type promotion.

    dimensioned, zero_dim: the dtypes of tensors with and without dimensions. numbers: the categories of Python numbers.
    The three are priorities, highest first. Operands of a lower priority are weak: they count only if their category
    is higher than that of all before, so float32 tensors stay float32 beside a float64 tensor without dimensions, and
    become floating beside the number 0.5 only if they are integers.
    """
    result: dtype | None = None
    for d in dimensioned:
        result = _combine(result, d)
    zero: dtype | None = None
    for d in zero_dim:
        zero = _combine(zero, d)
    wrapped = default_for(max(numbers)) if numbers else None
    for lower in (zero, wrapped):
        if lower is not None and (result is None or lower.category > result.category):
            result = _raised(result, lower)
    assert result is not None, "promote needs at least one operand"
    return result


def _raised(result: dtype | None, lower: dtype) -> dtype:
    """``result`` beside a weak operand of dtype ``lower``, of higher category: that one's dtype.

    Except that a floating dtype beside a complex one keeps its precision: float32 and a complex number give complex64.
    """
    if result is not None and lower.category == 3 and result.category == 2:
        return result.to_complex()
    return _combine(result, lower) if result is not None and result.category == 0 else lower  # type: ignore


float32, float64 = _ALL["float32"], _ALL["float64"]
int64, int32, uint8, bool_ = _ALL["int64"], _ALL["int32"], _ALL["uint8"], _ALL["bool"]
int16, int8 = _ALL["int16"], _ALL["int8"]
complex64, complex128 = _ALL["complex64"], _ALL["complex128"]
float16, bfloat16 = _ALL["float16"], _ALL["bfloat16"]
uint16, uint32, uint64 = _ALL["uint16"], _ALL["uint32"], _ALL["uint64"]
