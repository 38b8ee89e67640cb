"""dtypes under PyTorch's names, and PyTorch's rules for combining them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["all_dtypes", "by_name", "dtype", "from_numpy_dtype", "get_default_dtype", "promote", "set_default_dtype"]

# NumPy's kind of a dtype -> its category. Promotion compares categories before sizes: an int64 tensor and a float32
# tensor give float32, where NumPy gives float64.
_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


class dtype:
    """An element type, such as ``jitgrad.float32``; printed as PyTorch prints it.

    There is one object for each type, so that ``is`` compares. ``category``: 0 bool, 1 integer, 2 floating, 3 complex;
    what is 2 or more can require grad.
    """

    __slots__ = ("category", "is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy")

    def __init__(self, name: str):
        self.name, self.numpy = name, np.dtype(name)
        self.category = _CATEGORY[self.numpy.kind]
        self.is_floating_point, self.is_complex = self.category == 2, self.category == 3
        self.is_signed = self.numpy.kind in "ifc"
        self.itemsize = self.numpy.itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return (by_name, (self.name,))  # copies and pickles must be the same object

    def to_real(self) -> dtype:
        """The dtype of the real part."""
        return {"complex64": by_name("float32"), "complex128": by_name("float64")}.get(self.name, self)

    def to_complex(self) -> dtype:
        """The complex dtype of the same precision."""
        return {"float32": by_name("complex64"), "float64": by_name("complex128")}.get(self.name, self)


_NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "complex64", "complex128")
_ALL = {name: dtype(name) for name in _NAMES}
_BY_NUMPY = {d.numpy: d for d in _ALL.values()}
ALIASES = {
    "float": "float32", "double": "float64", "int": "int32", "long": "int64", "short": "int16",
    "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip
_default = _ALL["float32"]


def all_dtypes() -> tuple[dtype, ...]:
    """Every dtype, in the order bool, integers, floating, complex."""
    return tuple(_ALL.values())


def by_name(name: str) -> dtype:
    """Return the dtype called ``name``, e.g. "float32" or PyTorch's alias "float"."""
    return _ALL[ALIASES.get(name, name)]


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
        raise TypeError(  # float16 and unsigned types above 8 bits; the words are PyTorch's
            f"can't convert np.ndarray of type numpy.{np.dtype(numpy_dtype).type.__name__}. The only supported types "
            "are: float64, float32, complex64, complex128, int64, int32, int16, int8, uint8, and bool."
        ) from None


def has_dtype(array: Any) -> bool:
    """Whether PyTorch has the dtype of a NumPy array."""
    return array.dtype in _BY_NUMPY


def get_default_dtype() -> dtype:
    """The dtype of new floating-point tensors: float32 unless ``set_default_dtype`` changed it."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Make ``d`` (float32 or float64) the dtype of new floating-point tensors."""
    global _default
    if not (isinstance(d, dtype) and d.is_floating_point):
        raise TypeError("only floating-point types are supported as the default type")
    _default = d


def default_for(category: int) -> dtype:
    """The dtype of a tensor made of Python numbers of this category: bool, int64, the default, or its complex one."""
    return (_ALL["bool"], _ALL["int64"], _default, _default.to_complex())[category]


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
    if a.category >= 2 and b.category < 2:
        return a
    if b.category >= 2 and a.category < 2:
        return b
    return _BY_NUMPY[np.promote_types(a.numpy, b.numpy)]


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
    return lower


float32, float64 = _ALL["float32"], _ALL["float64"]
int64, int32, uint8, bool_ = _ALL["int64"], _ALL["int32"], _ALL["uint8"], _ALL["bool"]
int16, int8 = _ALL["int16"], _ALL["int8"]
complex64, complex128 = _ALL["complex64"], _ALL["complex128"]
