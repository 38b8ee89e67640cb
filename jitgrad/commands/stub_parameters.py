"""What the stubs say of calls that have several forms; the types of parameters are in dispatch/parameter_types.py."""

from __future__ import annotations

__all__ = ["FORMS", "INTERNAL", "RETURNS"]


# Parameters by which jitgrad's own code calls these functions; PyTorch has no such keywords.
INTERNAL = {"inplace", "target", "_function"}

# Results where the source says Any.
RETURNS = {
    "sort": "return_types.sort", "__new__": "Self", "__dlpack__": "Any",
    "is_cpu": "bool", "is_cuda": "bool", "is_meta": "bool", "is_nested": "bool", "is_quantized": "bool",
    "is_sparse": "bool", "nbytes": "int", "mT": "Tensor", "dtype": "dtypes.dtype", "device": "_device",
    "__matmul__": "Tensor", "__rmatmul__": "Tensor", "H": "Tensor", "T": "Tensor",
}  # fmt: skip

_EXTREMUM = (
    ("input: Tensor", "Tensor"),
    ("input: Tensor, dim: int, keepdim: bool = False", "return_types.NAME"),
    ("input: Tensor, *, axis: int, keepdims: bool = False", "return_types.NAME"),
    ("input: Tensor, other: Tensor", "Tensor"),
)
_SIZE = (("size: Sequence[int]", ""), ("*size: int", ""))
_SIZES = (("self, size: Sequence[int]", ""), ("self, *size: int", ""))
_DIMS = (("self, dims: Sequence[int]", ""), ("self, *dims: int", ""))
_AT_LEAST = (
    ("tensor: Tensor, /", "Tensor"),
    ("tensors: Sequence[Tensor], /", "tuple[Tensor, ...]"),
    ("tensor: Tensor, other: Tensor, /, *tensors: Tensor", "tuple[Tensor, ...]"),
)

# Calls that a signature of Python cannot state: for each form its positional parameters and its result, "" for the one
# that the function has. The keyword-only parameters of the function follow.
FORMS: dict[str, tuple[tuple[str, str], ...]] = {
    "max": _EXTREMUM,
    "min": _EXTREMUM,
    "median": _EXTREMUM[:3],
    "nanmedian": _EXTREMUM[:3],
    "nonzero": (
        ("input: Tensor, *, as_tuple: Literal[False] = False", "Tensor"),
        ("input: Tensor, *, as_tuple: Literal[True]", "tuple[Tensor, ...]"),
    ),
    "where": (
        ("condition: Tensor", "tuple[Tensor, ...]"),
        ("condition: Tensor, input: Tensor | _Number, other: Tensor | _Number", "Tensor"),
    ),
    "Tensor.where": (("self, condition: Tensor, other: Tensor | _Number", ""),),
    "Tensor.split": (("self, split_size: int | Sequence[int], dim: int = 0", ""),),
    "tensor_split": (
        ("input: Tensor, sections: int, dim: int = 0", ""),
        ("input: Tensor, indices: Sequence[int], dim: int = 0", ""),
    ),
    **dict.fromkeys(
        ("hsplit", "vsplit", "dsplit"),
        (("input: Tensor, sections: int", ""), ("input: Tensor, indices: Sequence[int]", "")),
    ),
    "size": (("self", "Size"), ("self, dim: int", "int")),
    "stride": (("self", "tuple[int, ...]"), ("self, dim: int", "int")),
    "type": (("self", "str"), ("self, dtype: _DType | str | type, non_blocking: bool = False", "Tensor")),
    "view": (
        ("self, dtype: dtypes.dtype", ""),
        ("self, size: Sequence[int]", ""),
        ("self, *size: int", ""),
    ),
    "to": (
        ("self, dtype: _DType, non_blocking: bool = False, copy: bool = False", ""),
        ("self, device: _Device = None, dtype: _DType | None = None, non_blocking: bool = False, copy: bool = False",
         ""),
        ("self, other: Tensor, non_blocking: bool = False, copy: bool = False", ""),
    ),
    "tensor": (("data: Any", ""),),
    "arange": (("end: _Number", ""), ("start: _Number, end: _Number, step: _Number = 1", "")),
    "zeros": _SIZE,
    "ones": _SIZE,
    "empty": _SIZE,
    "rand": _SIZE,
    "randn": _SIZE,
    "new_empty": _SIZES,
    "new_ones": _SIZES,
    "new_zeros": _SIZES,
    "randint": (("high: int, size: Sequence[int]", ""), ("low: int, high: int, size: Sequence[int]", "")),
    "randint_like": (("input: Tensor, high: int", ""), ("input: Tensor, low: int, high: int", "")),
    "random_": (("self", ""), ("self, to: int", ""), ("self, from_: int, to: int | None", "")),
    "uniform_": (("self, from_: float = 0.0, to: float = 1.0", ""),),
    "einsum": (("equation: Any, /, *operands: Any", ""),),
    "Tensor.permute": _DIMS,
    "Tensor.reshape": (("self, shape: Sequence[int]", ""), ("self, *shape: int", "")),
    "Tensor.flip": _DIMS,
    "Tensor.tile": _DIMS,
    "Tensor.broadcast_to": _SIZES,
    "repeat": (("self, repeats: Sequence[int]", ""), ("self, *repeats: int", "")),
    "expand": _SIZES,
    "sum_to_size": (("input: Tensor, size: Sequence[int]", ""), ("input: Tensor, *size: int", "")),
    "resize_": _SIZES,
    "broadcast_shapes": (("*shapes: int | Sequence[int]", ""),),
    "broadcast_tensors": (("*tensors: Tensor | Sequence[Tensor]", ""),),
    "meshgrid": (("*tensors: Tensor | Sequence[Tensor]", ""),),
    "atleast_1d": _AT_LEAST,
    "atleast_2d": _AT_LEAST,
    "atleast_3d": _AT_LEAST,
}
