"""The functions of convolution, conv1d to conv_transpose3d: arguments and checks, in PyTorch's words."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

from jitgrad.core.errors import cpp_type, expected_scalar_type, must_be, not_implemented_for
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import as_flag, as_ints, int_argument, is_int
from jitgrad.ops.nn.conv import Conv, ConvInput
from jitgrad.ops.nn.pad import constant_pad_nd

__all__ = ["convolution"]

_Ints = Sequence[int]


def _ints(op: str, name: str, value: Any) -> tuple[int, ...]:
    if type(value) is int:
        return (value,)
    if is_int(value):
        return (int(value),)
    if not isinstance(value, (tuple, list)):
        raise must_be(op, name, None, "tuple of ints", value)
    return as_ints(op, value, name)


def _expanded(name: str, values: _Ints, dims: int) -> tuple[int, ...]:
    if len(values) not in (1, dims):
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {dims} values to match the convolution "
            f"dimensions, but got {name}={list(values)}"
        )
    return tuple(values) * (dims // len(values))


def _check_dtypes(input: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool) -> None:
    dims = input.ndim - 2
    if bias is not None and bias.dtype is not input.dtype:
        raise RuntimeError(
            f"Input type ({cpp_type(input.dtype)}) and bias type ({cpp_type(bias.dtype)}) should be the same"
        )
    if weight.dtype is not input.dtype:
        raise expected_scalar_type(input.dtype, weight.dtype)
    whole = transposed and input._layout.dtype.category == 1 and input.dtype.name != "int64"
    if input._layout.dtype.category == 0 or whole:
        kernel = f"slow_conv_transpose{max(dims, 2)}d_out_cpu" if transposed else f"slow_conv{max(dims, 2)}d_cpu"
        raise not_implemented_for(kernel, input.dtype)


def _check_options(stride: _Ints, padding: _Ints, output_padding: _Ints, dilation: _Ints, groups: int) -> None:
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(output_padding) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")


_AXES = {1: ("width",), 2: ("height", "width"), 3: ("time", "height", "width")}


def _of_axes(what: str, values: _Ints) -> str:
    """The values by their dims: "kernel_height: 0 kernel_width: 3"; of one dim as of two."""
    values = (1, *values) if len(values) == 1 else values
    return " ".join(f"{what}_{d}: {v}" for d, v in zip(_AXES[len(values)], values, strict=True))


def _check_shapes(input: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool, padding: _Ints, dilation: _Ints,
                  groups: int) -> None:  # fmt: skip
    x, w = list(input.shape), list(weight.shape)
    if len(w) != len(x):
        raise RuntimeError(
            f"Expected {len(w)}-dimensional input for {len(w)}-dimensional weight {w}, but got {len(x)}-dimensional "
            f"input of size {x} instead"
        )
    if w[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{w} instead"
        )
    if w[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size [{w}] instead"
        )
    given, channels = ("transposed=1", w[0]) if transposed else (f"groups={groups}", w[1] * groups)
    if x[1] != channels:
        raise RuntimeError(
            f"Given {given}, weight of size {w}, expected input{x} to have {channels} channels, but got {x[1]} "
            "channels instead"
        )
    out = w[1] * groups if transposed else w[0]
    if bias is not None and list(bias.shape) != [out]:
        given = "transposed=1, weight" if transposed else "weight"
        raise RuntimeError(
            f"Given {given} of size {w}, expected bias to be 1-dimensional with {out} elements, but got bias of size "
            f"{list(bias.shape)} instead"
        )
    if transposed:
        return
    padded = [n + 2 * p for n, p in zip(x[2:], padding, strict=True)]
    widths = [d * (k - 1) + 1 for d, k in zip(dilation, w[2:], strict=True)]
    if any(n < k for n, k in zip(padded, widths, strict=True)):
        sizes, kernel = (" x ".join(map(str, v)) for v in (padded, widths))
        raise RuntimeError(
            f"Calculated padded input size per channel: ({sizes}). Kernel size: ({kernel}). Kernel size can't be "
            "greater than actual input size"
        )
    if 0 in w[2:]:
        raise RuntimeError(f"kernel size should be greater than zero, but got {_of_axes('kernel', w[2:])}")


def _transposed_sizes(x: _Ints, w: _Ints, stride: _Ints, padding: _Ints, output_padding: _Ints,
                      dilation: _Ints) -> tuple[int, ...]:  # fmt: skip
    if any(o >= s and o >= d for o, s, d in zip(output_padding, stride, dilation, strict=True)):
        values = " ".join(
            _of_axes(n, v) for n, v in (("output_padding", output_padding), ("stride", stride), ("dilation", dilation))
        )
        raise RuntimeError(f"output padding must be smaller than either stride or dilation, but got {values}")
    every = zip(x, w, stride, padding, output_padding, dilation, strict=True)
    sizes = tuple([(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, o, d in every])
    if min(sizes) <= 0:
        old, new = (" x ".join(map(str, v)) for v in (x, sizes))
        raise RuntimeError(
            f"Given input size per channel: ({old}). Calculated output size per channel: ({new}). Output size is too "
            "small"
        )
    return sizes


def _convolving(input: Tensor, weight: Tensor, bias: Tensor | None, stride: _Ints, padding: _Ints, dilation: _Ints,
                transposed: bool, output_padding: _Ints, groups: int) -> Any:  # fmt: skip
    """The op, and its arguments after the three tensors."""
    dims = max(weight.ndim - 2, 1)
    stride, padding, output_padding, dilation = (
        _expanded(n, v, dims)
        for n, v in (("stride", stride), ("padding", padding), ("output_padding", output_padding),
                     ("dilation", dilation))
    )  # fmt: skip
    _check_options(stride, padding, output_padding, dilation, groups)
    _check_shapes(input, weight, bias, transposed, padding, dilation, groups)
    _check_dtypes(input, weight, bias, transposed)
    if 0 in input.shape[2:] and 0 not in input.shape[:2]:
        shown = [*input.shape[:2], *[1] * (dims == 1), *input.shape[2:]]
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {shown}")
    if not transposed:
        return Conv.apply if input.shape[1] else _of_no_channels, (stride, padding, dilation, groups)
    sizes = _transposed_sizes(input.shape[2:], weight.shape[2:], stride, padding, output_padding, dilation)
    return ConvInput.apply, (sizes, stride, padding, dilation, groups)


def _of_no_channels(input: Tensor, weight: Tensor, bias: Tensor | None, *given: Any) -> Tensor:
    """The convolution of what has no channels: PyTorch's result has none either, whatever the weights."""
    result: Tensor = Conv.apply(input, weight[:0], None if bias is None else bias[:0], *given)
    return result


@functools.partial(public, method_too=False)
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Tensor:  # fmt: skip
    """Convolution of ``input`` (n, c, *sizes), or its transpose, with all of its options.

    RuntimeError where sizes or dtypes do not fit.
    """
    lists = [_ints("convolution", n, v) for n, v in (("stride", stride), ("padding", padding), ("dilation", dilation),
                                                      ("output_padding", output_padding))]  # fmt: skip
    function, given = _convolving(
        input, weight, bias, lists[0], lists[1], lists[2], as_flag(transposed), lists[3], groups
    )
    result: Tensor = function(input, weight, bias, *given)
    return result


def _same_padding(input: Tensor, weight: Tensor, stride: _Ints, dilation: _Ints) -> tuple[Tensor, tuple[int, ...]]:
    """(input, padding) of "same": what is odd is put behind the input."""
    dims = weight.ndim - 2
    stride, dilation = _expanded("stride", stride, dims), _expanded("dilation", dilation, dims)
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(t % 2 for t in total):
        warnings.warn(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the "
            "input be created", UserWarning, stacklevel=user_level(),
        )  # fmt: skip
        input = constant_pad_nd(input, [n for t in total[::-1] for n in (0, t % 2)])
    return input, tuple([t // 2 for t in total])


def _batch_of_one(op: str, dims: int, input: Tensor) -> tuple[Tensor, bool]:
    """(input with a dim of samples, whether it had none)."""
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {op}, but got input of size: "
            f"{list(input.shape)}"
        )
    return (input.unsqueeze(0), True) if input.ndim == dims + 1 else (input, False)


def _of_one(input: Tensor, weight: Tensor, bias: Tensor | None, function: Any, given: Any) -> Tensor:
    """The convolution of one sample, without a dim of samples."""
    result: Tensor = function(input.unsqueeze(0), weight, bias, *given)
    return result.squeeze(0)


@settled(3)
def _checked_conv(input: Tensor, weight: Tensor, bias: Tensor | None, dims: int, stride: Any, padding: Any,
                  dilation: Any, groups: int) -> Any:  # fmt: skip
    """What convolves the three tensors, and its arguments after them."""
    op = f"conv{dims}d"
    stride, dilation = _ints(op, "stride", stride), _ints(op, "dilation", dilation)
    groups = int_argument(op, "groups", 7, groups)
    x, alone = _batch_of_one(op, dims, input)
    padding = _ints(op, "padding", padding)
    if weight.ndim == dims + 2:  # so that errors speak of the function's dims
        _expanded("stride", stride, dims)
    found = _convolving(x, weight, bias, stride, padding, dilation, False, (0,), groups)
    return (_of_one, found) if alone else found


def _conv(dims: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
          groups: int) -> Tensor:  # fmt: skip
    result: Tensor
    if not isinstance(padding, str):
        result = _checked_conv(input, weight, bias, dims, stride, padding, dilation, groups)
        return result
    op = f"conv{dims}d"
    stride, dilation = _ints(op, "stride", stride), _ints(op, "dilation", dilation)
    x, alone = _batch_of_one(op, dims, input)
    if padding not in ("same", "valid"):
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    x, padding = _same_padding(x, weight, stride, dilation) if padding == "same" else (x, (0,))
    result = _checked_conv(x, weight, bias, dims, stride, padding, dilation, groups)
    return result.squeeze(0) if alone else result


@settled(3)
def _conv_transpose(input: Tensor, weight: Tensor, bias: Tensor | None, dims: int, stride: Any, padding: Any,
                    output_padding: Any, groups: int, dilation: Any) -> Any:  # fmt: skip
    """What ``conv_transpose`` calls, and its arguments after the three tensors."""
    op = f"conv_transpose{dims}d"
    lists = [_ints(op, n, v) for n, v in (("stride", stride), ("padding", padding), ("dilation", dilation),
                                          ("output_padding", output_padding))]  # fmt: skip
    x, alone = _batch_of_one(op, dims, input)
    groups = int_argument(op, "groups", 7, groups)
    found = _convolving(x, weight, bias, lists[0], lists[1], lists[2], True, lists[3], groups)
    return (_of_one, found) if alone else found


_CONV_DOC = """Products of ``weight`` (o, c / groups, {k}) and the windows of ``input`` (n, c, {d}), or (c, {d}).

    bias (o): added to each channel. stride: from window to window; padding: zeros at both ends, or "valid" (none) or
    "same" (as many as keep the sizes); dilation: between the elements of a window; groups of channels are convolved
    apart. RuntimeError where sizes or dtypes do not fit.
    """
_TRANSPOSED_DOC = """The transpose of ``conv{n}d``: each element of ``input`` (n, c, {d}) times ``weight``
    (c, o / groups, {k}), added at its window.

    The sizes of the result are (size - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1. RuntimeError
    where sizes or dtypes do not fit.
    """


def _publish(dims: int) -> None:
    def conv(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        return _conv(dims, input, weight, bias, stride, padding, dilation, groups)

    def conv_transpose(
        input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
        dilation: int | Sequence[int] = 1,
    ) -> Tensor:  # fmt: skip
        result: Tensor = _conv_transpose(
            input, weight, bias, dims, stride, padding, output_padding, groups, dilation
        )
        return result

    names = {"k": ", ".join("*" * dims), "d": ", ".join("dhw"[-dims:]), "n": dims}
    conv.__doc__, conv_transpose.__doc__ = _CONV_DOC.format(**names), _TRANSPOSED_DOC.format(**names)
    for function, name in ((conv, f"conv{dims}d"), (conv_transpose, f"conv_transpose{dims}d")):
        function.__name__ = function.__qualname__ = name
        public(function, method_too=False)
        public(function, module="nn.functional")


for _dims in (1, 2, 3):
    _publish(_dims)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution of (time, batch, channels) by (width, channels, out channels), ``pad`` zeros at both ends of time."""
    if input.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    out = Conv.apply(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, (1,), (pad,), (1,), 1)
    return out.permute(2, 0, 1).contiguous()


public(conv_tbc, method_too=False)
public(conv_tbc, module="nn.functional")
