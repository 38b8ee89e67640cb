"""The types of ops' parameters: what the stubs show, and what a call that has failed is compared with.

Ops do not look at the types of their arguments before they run, which would cost every call. A wrong argument mostly
makes some step fail, with an error that speaks of this step. Where an error leaves a public function, ``explain``
compares the arguments with their types and, if one does not fit, raises PyTorch's TypeError in its place.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from inspect import Parameter
from typing import Any, TypeVar

import numpy as np

from jitgrad.core.dtypes import dtype
from jitgrad.core.errors import must_be
from jitgrad.core.overloads import misfit
from jitgrad.core.sparse import SparseOperand
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import NUMBERS
from jitgrad.dispatch.overriding import is_overriding, retried
from jitgrad.dispatch.sizes import as_ints, is_int, is_real
from jitgrad.dispatch.sparse_calls import form_after

__all__ = [
    "NUMPY_NAMES", "PUBLIC_NAMES", "explain", "explained", "explains", "keywords_again", "mark_explaining",
    "parameter_type", "second_call",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def _by_name(types: dict[str, str]) -> dict[str, str]:
    """From names, several in one string, to types."""
    return {name: type_ for names, type_ in types.items() for name in names.split()}


# The type of a parameter that has no annotation, or ``Any``; "FUNCTION.PARAMETER" goes before "PARAMETER".
# None is added where it is the default. Names that are not here stay ``Any``.
TYPES = _by_name({
    "batch1 batch2 imag index indices input mat mat1 mat2 self source src tensor vec weight x embedding.weight":
        "Tensor",
    "other exponent min max value fill_value element elements test_elements start end mean std tensor1 tensor2":
        "Tensor | _Number",
    "condition where.input xlogy.input pow.input lerp.weight lerp_.weight scatter.src scatter_.src": "Tensor | _Number",
    "alpha beta scalar_tensor.value addcmul.value addcdiv.value addcmul_.value addcdiv_.value": "_Number",
    "bernoulli.p bernoulli_.p": "Tensor | float",
    "angle real": "Tensor",
    "elu.alpha leaky_relu.negative_slope softplus.beta softplus.threshold": "_Number",
    "scatter_reduce.reduce index_reduce.reduce": "str",
    "dist.p": "_Number",
    "norm.p": "_Number | str | None",
    "set_.source": "Any",  # a tensor or a storage
    "repeat_interleave.repeats": "Tensor | int",
    "max.dim min.dim": "Tensor | int",
    "accumulate keepdim largest scale_grad_by_freq sorted sparse sparse_grad": "bool",
    "dim dims shifts destination": "int | Sequence[int]",
    "movedim.source moveaxis.source": "int | Sequence[int]",
    "select.dim unsqueeze.dim index_select.dim index_add.dim index_copy.dim gather.dim scatter_add.dim topk.dim":
        "int",
    "select_scatter.dim slice_scatter.dim kthvalue.dim aminmax.dim median.dim cross.dim": "int",
    "dim0 dim1 dim2 dimension diagonal k offset padding_idx step unfold.size": "int",
    "select.index select_copy.index select_scatter.index": "int",
    "slice_scatter.start slice_scatter.end": "int",
    "narrow.start": "Tensor | int",
    "narrow.length groups upscale_factor downscale_factor": "int",
    "fractional_max_pool2d.output_size fractional_max_pool3d.output_size": "Sequence[int] | int",
    "fractional_max_pool2d_with_indices.output_size fractional_max_pool3d_with_indices.output_size":
        "Sequence[int] | int",
    "adaptive_avg_pool1d.output_size adaptive_avg_pool2d.output_size adaptive_avg_pool3d.output_size":
        "Sequence[int | None] | int",
    "adaptive_max_pool1d.output_size adaptive_max_pool2d.output_size adaptive_max_pool3d.output_size":
        "Sequence[int | None] | int",
    "max_unpool1d.output_size max_unpool2d.output_size max_unpool3d.output_size": "Sequence[int] | int",
    "kernel_size convolution.padding convolution.dilation convolution.output_padding pad": "Sequence[int] | int",
    "scale_factor": "Sequence[float] | float",
    "input_lengths target_lengths": "Tensor | Sequence[int]",
    "quantile.q nanquantile.q": "Tensor | float",
    "lstm_cell.hx": "Sequence[Tensor]",
    "huber_loss.delta trapz.dx": "float",
    "trapezoid.dx cumulative_trapezoid.dx": "_Number",
    "sparse_mask.mask": "Tensor",
    "index_put.indices": "Sequence[Tensor | None]",
    "size shape sizes repeats": "Sequence[int]",
    "stride": "Sequence[int]",
    "rot90.dims": "Sequence[int]",
    "split_size_or_sections indices_or_sections": "int | Sequence[int]",
    "tensor_split.indices_or_sections": "Tensor | int | Sequence[int]",
    "tensors": "Sequence[Tensor]",
    "dtype": "_DType",
    "view_as_dtype.dtype can_cast.from_ can_cast.to input_dtype": "dtypes.dtype",
    "device": "_Device",
    "generator": "Generator",
    "out": "Tensor",
    "inputs": "Tensor | Sequence[Tensor]",
})  # fmt: skip


# -- types of parameters ----------------------------------------------------------------------------------


def parameter_type(function: str, parameter: Parameter) -> str:
    """The type of a parameter as text: its annotation, else by its name, else by its default; "Any" if unknown."""
    default = parameter.default
    if default is ...:  # how functions mark an argument that is required, though it has another name too
        default = Parameter.empty
    if parameter.annotation not in _OPEN:
        text = parameter.annotation if isinstance(parameter.annotation, str) else parameter.annotation.__name__
        return "Sequence[Tensor]" if text == "list" else text  # as declarations mark an input of many tensors
    text = _by_function_and_name(function, parameter.name) or _by_default(default)
    if repr(default) == "None" and text != "Any":  # None, or a mark that stands for it
        text = f"{text} | None"
    return text


_OPEN = ("Any", Parameter.empty)


def _by_function_and_name(function: str, name: str) -> str:
    return TYPES.get(f"{function}.{name}") or TYPES.get(f"{function.rstrip('_')}.{name}") or TYPES.get(name, "")


def _by_default(default: Any) -> str:
    return type(default).__name__ if isinstance(default, bool | int | str) else "Any"


# -- arguments --------------------------------------------------------------------------------------------


def _all(values: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(values, (tuple, list)) and all(map(fits, values))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_int_or_none(value: Any) -> bool:
    return value is None or is_int(value)


def _is_tensor_or_none(value: Any) -> bool:
    return value is None or isinstance(value, Tensor)


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value._layout.ndim and not value._requires_grad
    return isinstance(value, NUMBERS)


def _is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


# By a type as annotations write it: what fits it, and PyTorch's name of it. A type that is not here fits anything.
_FITS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Tensor": (_is_tensor, "Tensor"),
    "_Number": (_is_number, "Number"),
    "float": (is_real, "float"),
    "int": (is_int, "int"),
    "bool": (_is_bool, "bool"),
    "str": (lambda value: isinstance(value, str), "str"),
    "None": (lambda value: value is None, "None"),
    "Sequence[int]": (lambda values: is_int(values) or _all(values, is_int), "tuple of ints"),
    "tuple[int, ...]": (lambda values: _all(values, is_int), "tuple of ints"),  # where PyTorch takes no single int
    "Sequence[float]": (lambda values: is_real(values) or _all(values, is_real), "tuple of floats"),
    "Sequence[int | None]": (lambda values: is_int(values) or _all(values, _is_int_or_none), "tuple of ints"),
    "Sequence[Tensor]": (lambda values: _all(values, _is_tensor), "tuple of Tensors"),
    "Sequence[Tensor | None]": (lambda values: _all(values, _is_tensor_or_none), "tuple of Tensors"),
    "dtypes.dtype": (lambda value: isinstance(value, dtype), "torch.dtype"),
    "_DType": (lambda value: isinstance(value, dtype) or isinstance(value, type), "torch.dtype"),
}


def _alternatives(text: str) -> list[str]:
    """The types of a union, whose parts may be unions in brackets: "Sequence[Tensor | None] | None"."""
    return re.split(r" \| (?![^\[]*\])", text)


_MISSED = re.compile(r"(\w+)\(\) missing 1 required positional argument: '(\w+)'")


def explain(error: Exception, function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> None:
    """TypeError, in PyTorch's words, if an argument of a call that has failed is not of its parameter's type.

    Of an argument in ``kwargs`` the error says no position.
    A TypeError that names this op stays as it is: it is the op's own, and may say more. So does a NotImplementedError,
    which speaks of a dtype. But where Python misses an argument, the words are those of PyTorch's ops. What PyTorch has
    in ``nn.functional`` are functions of Python's, with Python's words.
    """
    if type(error) is TypeError and _is_miscalled(str(error), name) and (of_forms := misfit(name)) is not None:
        raise of_forms from None
    missed = _MISSED.fullmatch(str(error)) if type(error) is TypeError else None
    if missed and missed[1].lstrip("_") == name and not hasattr(sys.modules.get("jitgrad.nn.functional"), name):
        raise TypeError(f'{name}() missing 1 required positional arguments: "{missed[2]}"') from None
    if any(map(is_overriding, (*args, *kwargs.values()))):  # the error is that of the object that has taken over
        return
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # too many or too few arguments, which Python's own error says
        bound = None
    given = [] if bound is None else list(_given(name, bound))
    if any(type(value) is int and _is_too_long(value, types) for _, _, value, types in given):
        raise ValueError("Overflow when unpacking long long") from None
    if isinstance(error, NotImplementedError) or (type(error) is TypeError and _is_own(str(error), name)):
        return
    if type(error) is ValueError and str(error).startswith("array is too big"):  # NumPy's words
        raise RuntimeError(f"{name}(): numel: integer multiplication overflow") from None
    for position, parameter, value, types in given:
        if not any(_FITS[t][0](value) for t in types):
            label = PUBLIC_NAMES.get(parameter, parameter)
            place = None if parameter in kwargs else position
            kind = next((t for t in types if t == "Sequence[int]"), types[0])
            # The error that it replaces speaks of a step inside: a traceback that shows both would teach nothing.
            if kind == "Sequence[int]" and isinstance(value, (tuple, list)):
                try:
                    as_ints(name, value, label, place)
                except TypeError as of_element:
                    raise of_element from None
            raise must_be(name, label, place, _FITS[kind][1], value) from None


def _is_too_long(value: int, types: Sequence[str]) -> bool:
    return not -(2**63) <= value < 2**63 and not {"int", "Sequence[int]"}.isdisjoint(types)


def _given(name: str, bound: inspect.BoundArguments) -> Iterator[tuple[int, str, Any, list[str]]]:
    """(position, parameter, argument, its types) of the arguments whose types are known and that are no defaults."""
    for position, parameter in enumerate(bound.signature.parameters.values(), 1):
        if parameter.name not in bound.arguments or parameter.kind in (
            Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD
        ):  # fmt: skip
            continue
        value, types = bound.arguments[parameter.name], _alternatives(parameter_type(name, parameter))
        if value is not parameter.default and all(t in _FITS for t in types):
            yield position, parameter.name, value, types


def _is_own(text: str, name: str) -> bool:
    """Whether an error says that it is of op ``name``, and not of one that this is made of: multinomial's of topk."""
    named = _OP_NAME.match(text)
    return named[1].strip("_") == name.strip("_") if named else text.startswith("expected ")


def _is_miscalled(text: str, name: str) -> bool:
    """Whether an error says that the parameters of ``name`` do not take the arguments."""
    named = _OP_NAME.match(text)
    return named is not None and named[1] == name and _MISCALLED.match(text, named.end()) is not None


_MISCALLED = re.compile(r" (takes .* positional|missing \d|got an unexpected keyword)")
_OP_NAME = re.compile(r"(\w+)\(\)")
PUBLIC_NAMES = {"self": "input", "x": "input", "y": "other"}  # PyTorch's names of what we call self, x and y


# NumPy's names of parameters, which PyTorch takes as well.
NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
_UNEXPECTED = re.compile(r"got an unexpected keyword argument '(\w+)'$")


def keywords_again(
    error: Exception, function: Any, args: Any, kwargs: dict[str, Any], above: int = 2
) -> dict[str, Any] | None:
    """The keywords with which a call of ``function`` that has failed is repeated; None if ``error`` stands.

    The same ones for a call that has to ask its arguments (see ``retried``, which says what ``above`` is); a keyword of
    NumPy's that the function does not have is renamed, which costs other calls nothing.
    """
    if retried(error, args, kwargs, above):
        return kwargs
    if type(error) is TypeError and (found := _UNEXPECTED.search(str(error))) is not None:
        name, ours = found[1], NUMPY_NAMES.get(found[1])
        if name in kwargs and ours not in kwargs and ours in inspect.signature(function).parameters:
            return {ours if k == name else k: v for k, v in kwargs.items()}  # type: ignore[misc]
    return None


def second_call(
    error: Exception, again: Callable[..., Any], function: Any, name: str, args: Any, kwargs: dict[str, Any]
) -> Callable[[], Any]:  # fmt: skip
    """What a wrapper of ``function`` calls after an error, once it has left its handler: a sparse form, or ``again``.

    again: the wrapper itself, for keywords of NumPy's and arguments that take over ops. Otherwise the error is raised,
    in words that name the argument that is of a wrong type (see ``explain``).
    """
    if isinstance(error, SparseOperand):
        return functools.partial(form_after(error, name, args), *args, **kwargs)
    if (named := keywords_again(error, function, args, kwargs, 3)) is not None:
        return functools.partial(again, *args, **named)
    explain(error, function, name, args, kwargs)
    raise error


def explained(function: F, name: str = "") -> F:
    """``function``, whose errors name the argument that is of a wrong type (see ``explain``). Costs 0.1 us a call."""
    name = name or function.__name__

    @functools.wraps(function)
    def explaining(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs) if kwargs else function(*args)  # without keywords 0.04 us less
        except Exception as error:
            repeat = second_call(error, explaining, function, name, args, kwargs)
        return repeat()

    mark_explaining(explaining)
    return explaining  # type: ignore[return-value]


def mark_explaining(function: Any) -> None:
    """Note on a function that its errors name wrong arguments already."""
    vars(function)["_explains"] = id(function)


def explains(function: Any) -> bool:
    """Whether ``mark_explaining`` was called for this very function, and not for one whose attributes it has copied."""
    return vars(function).get("_explains") == id(function)
