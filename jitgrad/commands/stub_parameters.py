"""What the stubs say of parameters that the source leaves open: types by name, and calls that have several forms."""

from __future__ import annotations

__all__ = ["FORMS", "INTERNAL", "RETURNS", "TYPES"]


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
    "condition where.input lerp.weight lerp_.weight scatter.src scatter_.src": "Tensor | _Number",
    "alpha beta scalar_tensor.value addcmul.value addcdiv.value addcmul_.value addcdiv_.value": "_Number",
    "bernoulli.p bernoulli_.p": "Tensor | float",
    "angle": "Tensor",
    "repeat_interleave.repeats": "Tensor | int",
    "accumulate keepdim largest scale_grad_by_freq sorted sparse sparse_grad": "bool",
    "dim dims shifts destination": "int | Sequence[int]",
    "movedim.source moveaxis.source": "int | Sequence[int]",
    "select.dim unsqueeze.dim index_select.dim index_add.dim index_copy.dim gather.dim scatter_add.dim topk.dim":
        "int",
    "select_scatter.dim slice_scatter.dim kthvalue.dim aminmax.dim max.dim min.dim median.dim cross.dim": "int",
    "dim0 dim1 dim2 dimension diagonal k offset padding_idx select.index select_scatter.index step unfold.size": "int",
    "slice_scatter.start slice_scatter.end": "int",
    "narrow.start": "Tensor | int",
    "index_put.indices": "Sequence[Tensor | None]",
    "size shape sizes": "Sequence[int]",
    "stride": "Sequence[int]",
    "rot90.dims": "Sequence[int]",
    "split_size_or_sections indices_or_sections": "int | Sequence[int]",
    "tensors": "Sequence[Tensor]",
    "dtype": "_DType",
    "view_as_dtype.dtype can_cast.from_ can_cast.to": "dtypes.dtype",
    "device": "_Device",
    "generator": "Generator",
    "out": "Tensor",
    "inputs": "Tensor | Sequence[Tensor]",
})  # fmt: skip

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
_NEW = (("self, size: Sequence[int]", ""), ("self, *size: int", ""))
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
    "size": (("self", "Size"), ("self, dim: int", "int")),
    "stride": (("self", "tuple[int, ...]"), ("self, dim: int", "int")),
    "type": (("self", "str"), ("self, dtype: _DType | str | type, non_blocking: bool = False", "Tensor")),
    "view": (
        ("self, dtype: dtypes.dtype", ""),
        ("self, size: Sequence[int], /", ""),
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
    "new_empty": _NEW,
    "new_ones": _NEW,
    "new_zeros": _NEW,
    "randint": (("high: int, size: Sequence[int]", ""), ("low: int, high: int, size: Sequence[int]", "")),
    "randint_like": (("input: Tensor, high: int", ""), ("input: Tensor, low: int, high: int", "")),
    "random_": (("self", ""), ("self, to: int", ""), ("self, from_: int, to: int | None", "")),
    "uniform_": (("self, from_: float = 0.0, to: float = 1.0", ""),),
    "einsum": (("equation: Any, /, *operands: Any", ""),),
    "permute": (("input: Tensor, *dims: int | Sequence[int]", ""),),
    "reshape": (("input: Tensor, *shape: int | Sequence[int]", ""),),
    "flip": (("input: Tensor, *dims: int | Sequence[int]", ""),),
    "tile": (("input: Tensor, *dims: int | Sequence[int]", ""),),
    "repeat": (("self, *repeats: int | Sequence[int]", ""),),
    "expand": (("self, *size: int | Sequence[int]", ""),),
    "sum_to_size": (("input: Tensor, *size: int | Sequence[int]", ""),),
    "resize_": (("self, *sizes: int | Sequence[int]", ""),),
    "broadcast_shapes": (("*shapes: int | Sequence[int]", ""),),
    "broadcast_tensors": (("*tensors: Tensor | Sequence[Tensor]", ""),),
    "meshgrid": (("*tensors: Tensor | Sequence[Tensor]", ""),),
    "atleast_1d": _AT_LEAST,
    "atleast_2d": _AT_LEAST,
    "atleast_3d": _AT_LEAST,
}
