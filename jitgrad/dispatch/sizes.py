"""Arguments that are shapes, as users write them: ``zeros(2, 3)``, ``zeros((2, 3))``, ``x.view(-1, 4)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgrad.core.errors import must_be, type_name
from jitgrad.core.layout import as_int, check_sizes
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import NUMBERS

__all__ = [
    "after_tensor", "as_flag", "as_ints", "check_dims", "check_no_negative", "dims_argument", "float_argument",
    "infer_size", "int_argument", "ints_argument", "is_int", "is_real", "number_argument", "size_argument",
]  # fmt: skip


def is_int(value: Any) -> bool:
    """Whether ``value`` may stand for a size or an index: an int, no bool, or an integer tensor of one element."""
    if isinstance(value, (int, np.integer)):
        return not isinstance(value, bool)
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iu"
    return isinstance(value, Tensor) and value._layout.numel == 1 and value._layout.dtype.category == 1


# Compared as sets of types, which takes no loop in Python: sizes are parsed in every call of a view or creation.
_INTS = frozenset({int})


def size_argument(op: str, args: Sequence[Any], name: str = "size", named: Any = None) -> tuple[int, ...]:
    """The shape that an op's positional arguments are: several ints, or one sequence of them; TypeError otherwise.

    ``named`` is what was given under the keyword ``name``, which PyTorch's functions take as well.
    """
    if named is not None:
        if args:
            raise TypeError(f"{op}() got multiple values for argument '{name}'")
        return ints_argument(op, name, None, named)  # no single int, which PyTorch reads by its position only
    if args and args[0].__class__ is int and args[-1].__class__ is int:  # two are so known without a loop
        if len(args) < 3 or _INTS.issuperset(map(type, args)):
            return tuple(args)
    if not args:
        raise TypeError(f'{op}() missing 1 required positional arguments: "{name}"')
    if len(args) == 1 and not is_int(args[0]):
        values = args[0]
        if not isinstance(values, (tuple, list)):
            raise must_be(op, name, after_tensor(op), "tuple of ints", values)
        return as_ints(op, values, name)
    if len(args) > 1 and not is_int(args[0]):  # PyTorch then reads a sequence and further arguments
        raise TypeError(f"{op}() takes 1 positional argument but {len(args)} were given")
    return as_ints(op, args, name)


def after_tensor(op: str) -> int:
    """The position of an op's first argument that is no tensor."""
    return 2 if hasattr(Tensor, op) else 1


def as_ints(op: str, values: Sequence[Any], name: str = "size", position: int | None = 0) -> tuple[int, ...]:
    """The values as ints; TypeError, with its place, for one that is none.

    position: that of the argument, from 1; by default it is the first, or follows the tensor. None if it has none.
    """
    if _INTS.issuperset(map(type, values)):
        return tuple(values)
    for place, value in enumerate(values):
        # PyTorch looks at the type of the first one, and takes a bool for an int behind it.
        if not is_int(value) and not (place and isinstance(value, bool)):
            if not place:
                found = f"but found element of type {type_name(value)} at pos 0"
                raise must_be(op, name, after_tensor(op) if position == 0 else position, "tuple of ints", value, found)
            raise TypeError(
                f"{op}(): argument '{name}' failed to unpack the object at pos {place + 1} with error "
                f'"type must be tuple of ints,but got {type_name(value)}"'
            )
    return tuple([int(v) for v in values])


def ints_argument(op: str, name: str, position: int | None, values: Any) -> tuple[int, ...]:
    """An argument that is a tuple or list of ints; TypeError for anything else."""
    if not isinstance(values, (tuple, list)):
        raise must_be(op, name, position, "tuple of ints", values)
    return as_ints(op, values, name, position)


def int_argument(op: str, name: str, position: int, value: Any) -> int:
    """An argument that is one int, of Python, NumPy or a tensor; TypeError for anything else, also bools and floats."""
    try:
        return as_int(value)
    except TypeError:
        raise must_be(op, name, position, "int", value) from None


def is_real(value: Any) -> bool:
    """Whether ``value`` may stand for a float: a number of Python, NumPy or a 0-d tensor that isn't complex.

    A tensor that requires grad is refused, as in PyTorch: its gradient would be lost.
    """
    if isinstance(value, Tensor):
        return not value._layout.ndim and value._layout.dtype.category < 3 and not value._requires_grad
    return isinstance(value, (int, float, np.integer, np.floating, np.bool_))


def float_argument(op: str, name: str, position: int | None, value: Any) -> float:
    """An argument that is one real number, of Python, NumPy or a tensor; TypeError for anything else."""
    if not is_real(value):
        raise must_be(op, name, position, "float", value)
    return float(value)


def number_argument(op: str, name: str, position: int | None, value: Any) -> Any:
    """An argument that is one number of Python or NumPy, or a tensor without dims, as which a number is returned.

    TypeError for anything else, also for a tensor that requires grad, whose gradient would be lost.
    """
    if isinstance(value, Tensor) and not value._layout.ndim and not value._requires_grad:
        value = value.item()
    if not isinstance(value, NUMBERS):
        raise must_be(op, name, position, "Number", value)
    return value


def as_flag(value: Any) -> bool:
    """A flag as Python's bool; TypeError for what is no bool: PyTorch does not ask whether other values are true.

    The error names neither op nor argument: where it leaves a public function, that one does (see parameter_types.py).
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"must be bool, not {type_name(value)}")


def dims_argument(dim: Any) -> int | tuple[int, ...] | None:
    """The dims of a reduction, an int, several, or None, as Python's ints; TypeError for anything else."""
    if dim is None:
        return None
    return tuple([as_int(d) for d in dim]) if isinstance(dim, (tuple, list)) else as_int(dim)


def check_no_negative(op: str, shape: Sequence[int]) -> None:
    """RuntimeError, in the words of ``op``, if a size is negative: ``zeros`` has its own, others those of empty."""
    if op != "zeros":
        check_dims(shape)
    elif shape and min(shape) < 0:
        raise RuntimeError(f"{op}: Dimension size must be non-negative.")


def check_dims(shape: Sequence[int]) -> None:
    """RuntimeError if a size is negative, in the words of functions that make a tensor of any shape."""
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")


def infer_size(shape: Sequence[int], numel: int) -> tuple[int, ...]:
    """``shape`` with its -1 replaced so that it has ``numel`` elements; RuntimeError if that is not possible."""
    unknown = [d for d, n in enumerate(shape) if n == -1]
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for d, n in enumerate(shape):
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n} at index {d} of shape {list(shape)}")
    product = 1
    for n in shape:
        product *= n if n != -1 else 1
    if unknown and product == 0 and numel == 0:  # 0 * anything is 0
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    if not unknown and product == numel:
        return tuple(shape)
    check_sizes(shape)
    if not unknown or product == 0 or numel % product:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // product if n == -1 else n for n in shape)
