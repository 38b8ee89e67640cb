"""The sets of dtypes that PyTorch's tests are run for, of a library's own dtypes; those it lacks are left out."""

from __future__ import annotations

import numpy as np

__all__ = ["dtype_sets", "numpy_dtypes"]

INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]
FLOATS = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
SETS = {
    "floating_types": FLOATS, "complex_types": COMPLEX, "floating_and_complex_types": FLOATS + COMPLEX,
    "integral_types": INTEGERS, "all_types": FLOATS + INTEGERS, "all_types_and_complex": FLOATS + INTEGERS + COMPLEX,
    "get_all_int_dtypes": INTEGERS, "get_all_fp_dtypes": ["float16", "bfloat16", *FLOATS],
    "all_types_complex_float8": FLOATS + INTEGERS + COMPLEX,
    "get_all_dtypes": ["bool", "float16", "bfloat16", *FLOATS, *INTEGERS, *COMPLEX],
}  # fmt: skip
NUMPY = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


def dtype_sets(torch):
    """{name of a function of ``common_dtype``: the function}."""

    def known(names):
        found = [getattr(torch, n, None) for n in names]
        return tuple(d for d in found if isinstance(d, torch.dtype))

    def all_of(names):
        return lambda **options: known(n for n in names if options.get(f"include_{_group(n)}", True))

    def with_more(names):
        return lambda *more: (*known(names), *(d for d in more if isinstance(d, torch.dtype)))

    made = {name: all_of(names) for name, names in SETS.items()}
    made |= {f"{name}_and": with_more(names) for name, names in SETS.items()}
    math = lambda device: known([*INTEGERS, *FLOATS, *COMPLEX])
    to_complex = dict(zip(known(FLOATS), known(COMPLEX), strict=True))
    return made | {"get_all_math_dtypes": math, "float_to_corresponding_complex_type_map": to_complex}


def _group(name):
    """The word by which ``get_all_dtypes`` leaves a dtype out."""
    return {"float16": "half", "bool": "bool", "bfloat16": "bfloat16"}.get(name, "complex" if name in COMPLEX else name)


def numpy_dtypes(torch):
    """{NumPy's dtype: the library's}, of those that both have."""
    found = {getattr(np, n if n != "bool" else "bool_"): getattr(torch, n, None) for n in NUMPY}
    return {theirs: ours for theirs, ours in found.items() if isinstance(ours, torch.dtype)}
