"""dtypes under PyTorch's names, and PyTorch's rules for combining them."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["by_name", "dtype", "from_numpy_dtype", "get_default_dtype", "promote", "set_default_dtype"]

_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


class dtype:
    """An element type, such as ``jitgrad.float32``; printed as PyTorch prints it."""

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
        return (by_name, (self.name,))

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


def every() -> tuple[dtype, ...]:
    """All dtypes there are."""
    return tuple(_ALL.values())


def by_name(name: str) -> dtype:
    """Return the dtype called ``name``, e.g. "float32" or PyTorch's alias "float"."""
    return _ALL[ALIASES.get(name, name)]


def from_numpy_dtype(numpy_dtype: Any) -> dtype:
    """Return the dtype of a NumPy dtype; TypeError where PyTorch has none."""
    try:
        return _BY_NUMPY[np.dtype(numpy_dtype)]
    except KeyError:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{np.dtype(numpy_dtype).type.__name__}. The only supported types "
            "are: float64, float32, complex64, complex128, int64, int32, int16, int8, uint8, and bool."
        ) from None


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
    """The dtype that a Python number of this category (0 bool .. 3 complex) becomes."""
    return (_ALL["bool"], _ALL["int64"], _default, _default.to_complex())[category]


def category_of(value: Any) -> int:
    """The category of a Python or NumPy number: 0 bool, 1 int, 2 float, 3 complex."""
    if isinstance(value, (bool, np.bool_)):
        return 0
    if isinstance(value, (int, np.integer)):
        return 1
    return 3 if isinstance(value, (complex, np.complexfloating)) else 2


def _combine(a: dtype | None, b: dtype | None) -> dtype | None:
    if a is None or b is None or a is b:
        return a or b
    if a.category >= 2 and b.category < 2:
        return a
    if b.category >= 2 and a.category < 2:
        return b
    return _BY_NUMPY[np.promote_types(a.numpy, b.numpy)]


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that both can be cast to, by PyTorch's rules."""
    return _combine(a, b)  # type: ignore[return-value]


def promote(dimensioned: list[dtype], zero_dim: list[dtype], numbers: list[int]) -> dtype:
    """PyTorch's type promotion.

    ``dimensioned`` and ``zero_dim`` hold the dtypes of tensors with and without dimensions,
    ``numbers`` the categories of Python numbers. A lower priority group counts only if its
    category is higher.
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
            result = _lift(result, lower)
    assert result is not None, "promote needs at least one operand"
    return result


def _lift(result: dtype | None, lower: dtype) -> dtype:
    """A weaker operand of a higher category: float32 with a complex number becomes complex64."""
    if result is not None and lower.category == 3 and result.category == 2:
        return result.to_complex()
    return lower


float32, float64 = _ALL["float32"], _ALL["float64"]
int64, int32, uint8, bool_ = _ALL["int64"], _ALL["int32"], _ALL["uint8"], _ALL["bool"]
int16, int8 = _ALL["int16"], _ALL["int8"]
complex64, complex128 = _ALL["complex64"], _ALL["complex128"]
