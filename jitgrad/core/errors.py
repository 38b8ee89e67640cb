"""What errors of several ops have in common: PyTorch's names of dtypes, and its sentences that name an op.

PyTorch writes a dtype in three ways, by which part of it raises: as its ScalarType ("Float", "Long"), as the C++ type
that holds an element ("float", "long int"), and as the name by which C++ code asks for that type ("float", "int64_t").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgrad.core.called_form import as_called
from jitgrad.core.dtypes import dtype
from jitgrad.core.overloads import misfit, no_form
from jitgrad.core.type_names import type_name

__all__ = [
    "LinAlgError", "cpp_name", "cpp_type", "expected_scalar_type", "invalid_combination", "must_be", "must_be_tensor",
    "not_implemented_for", "overflow", "same_device", "scalar_type", "type_name", "type_title",
]  # fmt: skip


class _LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite, or otherwise such that an op of linear algebra has no result."""


LinAlgError = _LinAlgError  # its public name; errors show PyTorch's other one


class _Names(NamedTuple):  # a dtype in the errors of PyTorch's C++: the type, and the name of the type
    cpp_type: str
    cpp_name: str


_NAMES = {
    "bool": _Names("bool", "bool"),
    "uint8": _Names("unsigned char", "uint8_t"),
    "uint16": _Names("short unsigned int", "uint16_t"),
    "uint32": _Names("unsigned int", "uint32_t"),
    "uint64": _Names("long unsigned int", "uint64_t"),
    "int8": _Names("signed char", "int8_t"),
    "int16": _Names("short int", "int16_t"),
    "int32": _Names("int", "int"),
    "int64": _Names("long int", "int64_t"),
    "float16": _Names("c10::Half", "c10::Half"),
    "bfloat16": _Names("c10::BFloat16", "c10::BFloat16"),
    "float32": _Names("float", "float"),
    "float64": _Names("double", "double"),
    "complex64": _Names("c10::complex<float>", "c10::complex<float>"),
    "complex128": _Names("c10::complex<double>", "c10::complex<double>"),
}


def scalar_type(dtype: dtype) -> str:
    """A dtype as PyTorch's ScalarType: ``Float``, ``Long``."""
    return dtype.title


def cpp_type(dtype: dtype) -> str:
    """A dtype as the C++ type of an element: ``float``, ``long int``."""
    return _NAMES[dtype.name].cpp_type


def cpp_name(dtype: dtype) -> str:
    """A dtype as C++ code asks for it: ``float``, ``int64_t``."""
    return _NAMES[dtype.name].cpp_name


def cpp_tensor_type(tensor: Any) -> str:
    """What C++ calls the type of a tensor: "torch.FloatTensor", or "CPUComplexFloatType" for complex dtypes."""
    dtype = tensor.dtype
    return f"{tensor.device.type.upper()}{scalar_type(dtype)}Type" if dtype.is_complex else str(tensor.type())


def type_title(layout: Any) -> str:
    """What ``Tensor.type()`` returns for tensors of a layout: "torch.FloatTensor", "torch.cuda.LongTensor"."""
    place = "" if layout.device == "cpu" else f"{layout.device.type}."
    return f"torch.{place}{scalar_type(layout.dtype)}Tensor"


# The functions below return errors and leave it to the caller to raise them: a traceback then ends in the op.


def not_implemented_for(kernel: str, dtype: dtype) -> NotImplementedError:
    """No kernel for this dtype; ``kernel`` is PyTorch's name of it, as in "exp_vml_cpu"."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_type(dtype)}'")


def must_be(op: str, argument: str, position: int | None, kind: str, value: Any, but: str = "") -> TypeError:
    """An argument that is not of ``kind``, PyTorch's name of a type.

    ``position`` counts from 1 and counts the tensor that a method is called of: whether the error does, the call tells
    (see called_form.py), as whether it was given by its name. None for one that has no position. ``but``: the end, for
    what a sequence holds. Of an op that has several forms the error lists them (see overloads.py).
    """
    of_forms = misfit(op)
    if of_forms is not None:
        return of_forms
    op, position = as_called(op, argument, position)
    place = "" if position is None else f" (position {position})"
    return TypeError(f"{op}(): argument '{argument}'{place} must be {kind}, {but or f'not {type_name(value)}'}")


def must_be_tensor(op: str, argument: str, position: int, value: Any) -> TypeError:
    """An argument that should have been a tensor; ``position`` counts from 1."""
    return must_be(op, argument, position, "Tensor", value)


def invalid_combination(op: str, args: Sequence[Any], *signatures: str, **named: Any) -> TypeError:
    """Arguments that fit none of an op's ``signatures``, "(int high, tuple of ints size)", say.

    Without signatures they are the forms that overloads.py has of the op.
    """
    if not signatures:
        return no_form(op, args, named)
    given = ", ".join([*map(type_name, args), *(f"{name}={type_name(value)}" for name, value in named.items())])
    expected = "".join(f" * {s}\n" for s in signatures)
    return TypeError(
        f"{op}() received an invalid combination of arguments - got ({given}), but expected one of:\n{expected}"
    )


def expected_scalar_type(wanted: dtype, found: dtype) -> RuntimeError:
    """Operands that have to be of one dtype and are not."""
    return RuntimeError(f"expected scalar type {scalar_type(wanted)} but found {scalar_type(found)}")


def overflow(dtype: dtype) -> RuntimeError:
    """A number that lies outside what a dtype holds."""
    return RuntimeError(f"value cannot be converted to type {cpp_name(dtype)} without overflow")


def same_device(op: str, one: Any, other: Any) -> RuntimeError:
    """Operands of an op on two devices."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{one} and {other}! (in {op})"
    )
