"""Arrays as PyTorch prints them, character by character.

All elements that are printed share one format. Floats are printed as whole numbers (``1.``) if all are whole,
else with ``precision`` digits; in scientific notation if one is above 1e8, one that is not whole is below 1e-4, or the
largest is more than 1000 times the smallest. Zeros, infinities and NaN count neither for the format nor for its width.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

__all__ = ["format_array", "get_printoptions", "printoptions", "set_printoptions", "tensor_repr",
           "with_suffixes"]  # fmt: skip


class PrintOptions(NamedTuple):
    """The values of `set_printoptions`; the defaults are the profile ``default``."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=float("inf")),
}
_current = PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed. An argument of None leaves its option as it is, except ``sci_mode``.

    Args:
        precision: digits after the point (4).
        threshold: with more elements than this, only the edges are printed (1000).
        edgeitems: how many elements an edge has, in each dimension (3).
        linewidth: characters a line (80).
        profile: sets the four at once: ``"default"``, ``"short"`` (2 digits, edges of 2) or
            ``"full"`` (everything is printed). The other arguments override it.
        sci_mode: scientific notation always (True), never (False), or depending on the values (None).

    >>> set_printoptions(precision=2)
    >>> print(tensor_repr(np.array([1.5, 2.25], np.float32)))
    tensor([1.50, 2.25])
    >>> set_printoptions(profile="default")
    """
    global _current
    base = PROFILES.get(profile or "", _current)
    passed = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {name: value for name, value in passed.items() if value is not None}
    _current = base._replace(sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """Return the options of printing as a dict with the argument names of `set_printoptions`."""
    return _current._asdict()


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Within a ``with`` block, print with these options of `set_printoptions`.

    >>> with printoptions(sci_mode=True):
    ...     print(tensor_repr(np.array([1.0], np.float32)))
    tensor([1.0000e+00])
    """
    global _current
    before = _current
    try:
        set_printoptions(**options)
        yield
    finally:
        _current = before


class _Style:
    """The format of all elements of a real array, and ``width``, the characters that each is padded to.

    values: the elements that are printed, in one dimension.
    """

    def __init__(self, values: np.ndarray, options: PrintOptions):
        self.floating = values.dtype.kind == "f"
        self.spec, self.point, self.width = "", "", 1
        if self.floating:
            values = values.astype(np.float64, copy=False)  # PyTorch decides in float64, whatever the dtype
            values = values[np.isfinite(values) & (values != 0)]
        if values.size == 0:  # only zeros, infinities and NaN: "0.", "inf", "nan"
            self.spec, self.point = ".0f", "."
            return
        if self.floating:
            self._choose(values, options)
        self.width = max(len(self._bare(value)) for value in values.tolist())

    def _choose(self, values: np.ndarray, options: PrintOptions) -> None:
        sizes = np.abs(values)
        least, most = float(sizes.min()), float(sizes.max())
        whole = bool((values == np.ceil(values)).all())
        scientific = options.sci_mode
        if scientific is None:
            extreme = most > 1.0e8 or (not whole and least < 1.0e-4)
            scientific = extreme or most / least > 1000.0
        if scientific:
            self.spec = f".{options.precision}e"
        elif whole:
            self.spec, self.point = ".0f", "."
        else:
            self.spec = f".{options.precision}f"

    def _bare(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        text = format(value, self.spec)
        return text if text[-1] in "fn" else text + self.point  # "inf" and "nan" get no point

    def text(self, value: Any) -> str:
        """The number, padded on the left."""
        return self._bare(value).rjust(self.width)


class _ComplexStyle:
    """A style for the real parts and one for the imaginary parts, which are not padded."""

    def __init__(self, values: np.ndarray, options: PrintOptions):
        self.real, self.imag = _Style(values.real, options), _Style(values.imag, options)
        self.width = self.real.width + self.imag.width + 1

    def text(self, value: complex) -> str:
        imag = self.imag.text(value.imag).lstrip()  # the sign stands between the parts, so padding would tear them
        return self.real.text(value.real) + ("" if imag[0] == "-" else "+") + imag + "j"


_Elements = _Style | _ComplexStyle


def format_array(array: np.ndarray, options: PrintOptions | None = None, indent: int = 0) -> str:
    """Return the brackets and numbers of a tensor's text.

    Args:
        array: of any shape; bool, integer, float or complex.
        options: by default those of `set_printoptions`.
        indent: how many characters stand before the text in its first line.

    >>> format_array(np.eye(2, dtype=np.float32))
    '[[1., 0.],\\n [0., 1.]]'
    """
    options = options or _current
    if array.size == 0:
        return "[]"
    short = array.size > options.threshold
    printed = _edges(array, options.edgeitems) if short else array  # elements left out must not widen the others
    style = (_ComplexStyle if array.dtype.kind == "c" else _Style)(printed.reshape(-1), options)
    return _nested(array, style, options, indent, short)


def _edges(array: np.ndarray, edge: int) -> np.ndarray:
    """An array with only the first and last ``edge`` places of each axis that is longer than both together."""
    for axis, n in enumerate(array.shape):
        if n > 2 * edge:
            array = array.take([*range(edge), *range(n - edge, n)], axis)
    return array


def _nested(
    array: np.ndarray, style: _Elements, options: PrintOptions, indent: int, short: bool
) -> str:
    if array.ndim == 0:
        return style.text(array.item())
    if array.ndim == 1:
        return _vector(array, style, options, indent, short)
    n, edge = len(array), options.edgeitems
    cut = short and n > 2 * edge
    rows = [*range(edge), *range(n - edge, n)] if cut else range(n)
    parts = [_nested(array[k], style, options, indent + 1, short) for k in rows]
    if cut:
        parts.insert(edge, "...")
    # Rows are a line each, matrices a blank line apart, and so on, as PyTorch separates them.
    between = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return f"[{between.join(parts)}]"


def _vector(
    array: np.ndarray, style: _Elements, options: PrintOptions, indent: int, short: bool
) -> str:
    edge = options.edgeitems
    if short and array.size > 2 * edge:
        parts = [style.text(value) for value in _edges(array, edge).tolist()]
        parts.insert(edge, " ..." if edge else "...")  # the extra space is PyTorch's
    else:
        parts = [style.text(value) for value in array.tolist()]
    a_line = max(1, (options.linewidth - indent) // (style.width + 2))
    lines = [", ".join(parts[k : k + a_line]) for k in range(0, len(parts), a_line)]
    return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"


def tensor_repr(
    array: np.ndarray,
    *,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device: str = "cpu",
    default_dtype: str = "float32",
    prefix: str = "tensor(",
    dtype_suffix: str | None = None,
    shape: tuple[int, ...] | None = None,
) -> str:
    """Return a tensor's repr.

    Args:
        array: the values, of any shape; bool, integer, float or complex.
        requires_grad: whether ``requires_grad=True`` is printed, if there is no ``grad_fn_name``.
        grad_fn_name: the name of the node, without brackets; None for a leaf.
        device: printed unless it is ``"cpu"``.
        default_dtype: the floating dtype which is not printed, nor the complex dtype of its precision.
        prefix: the text before the numbers; further lines are indented by its length.
        dtype_suffix: the dtype to print where it is not that of ``array``: ``"torch.bfloat16"`` for a float32 copy.
        shape: the shape to print where it is not that of ``array``, which NumPy lacks for some empty tensors.

    >>> print(tensor_repr(np.array([1.0, 2.5]), requires_grad=True))
    tensor([1.0000, 2.5000], dtype=torch.float64, requires_grad=True)
    """
    indent = len(prefix)
    text = prefix + format_array(array, indent=indent)
    dtype = dtype_suffix or f"torch.{array.dtype.name}"
    usual = {default_dtype}  # the dtypes that are not printed: those that such values have by default
    if array.size:
        usual |= {"int64", "bool", "complex128" if default_dtype == "float64" else "complex64"}
    suffixes = []
    if device != "cpu":
        suffixes.append(f"device='{device}'")
    # Where the brackets don't show the shape: without elements, unless it is (0,), or with none printed.
    if _current.edgeitems == 0 if array.size else array.ndim != 1:
        suffixes.append(f"size={tuple(array.shape) if shape is None else shape}")
    if dtype.removeprefix("torch.") not in usual:
        suffixes.append(f"dtype={dtype}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return with_suffixes(text, suffixes, indent) + ")"


def with_suffixes(text: str, suffixes: list[str], indent: int, new_line: bool = False) -> str:
    """Append each after a comma, on a new line where the last one would grow too long, or for the first anyway."""
    # PyTorch counts 2 characters more in the numbers' last line than there are.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if new_line or column + len(suffix) + 2 > _current.linewidth:
            new_line = False
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text
