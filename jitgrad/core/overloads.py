"""Functions that PyTorch has in several forms, and the error of a call that fits none of them.

Where one form only takes as many arguments as were given, PyTorch names the argument that is wrong; otherwise it says
what it got and lists the forms. Which of the two it is, is counted here, so no op has to know.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from jitgrad.core.called_form import arguments_of_call
from jitgrad.core.type_names import type_name

__all__ = ["forms", "misfit", "no_form"]

_OPTIONS = (
    "torch.dtype dtype = None, torch.layout layout = None, torch.device device = None, bool pin_memory = False, "
    "bool requires_grad = False"
)
# The forms of functions. Methods have those whose first parameter is a tensor, without it and without ``out``;
# "Tensor.NAME" is a method whose tensor has another place.
_TABLE = """\
Tensor.where:
    Tensor input, Tensor condition, Tensor other
    Tensor input, Tensor condition, Number other
addmm:
    Tensor input, Tensor mat1, Tensor mat2, *, Number beta = 1, Number alpha = 1, Tensor out = None
    Tensor input, Tensor mat1, Tensor mat2, torch.dtype out_dtype, *, Number beta = 1, Number alpha = 1, Tensor
        out = None
all any:
    Tensor input, *, Tensor out = None
    Tensor input, tuple of ints dim = None, bool keepdim = False, *, Tensor out = None
    Tensor input, int dim, bool keepdim = False, *, Tensor out = None
arange:
    Number end, *, Tensor out = None, OPTIONS
    Number start, Number end, *, OPTIONS
    Number start, Number end, Number step = 1, *, Tensor out = None, OPTIONS
argsort:
    Tensor input, *, bool stable, int dim = -1, bool descending = False, Tensor out = None
    Tensor input, int dim = -1, bool descending = False
atleast_1d atleast_2d atleast_3d:
    Tensor input
    tuple of Tensors tensors
baddbmm:
    Tensor input, Tensor batch1, Tensor batch2, *, Number beta = 1, Number alpha = 1, Tensor out = None
    Tensor input, Tensor batch1, Tensor batch2, torch.dtype out_dtype, *, Number beta = 1, Number alpha = 1,
        Tensor out = None
bartlett_window blackman_window hann_window:
    int window_length, *, OPTIONS
    int window_length, bool periodic, *, OPTIONS
bernoulli:
    Tensor input, *, torch.Generator generator = None, Tensor out = None
    Tensor input, float p, *, torch.Generator generator = None
bernoulli_:
    Tensor input, Tensor p, *, torch.Generator generator = None
    Tensor input, float p = 0.5, *, torch.Generator generator = None
bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor remainder:
    Tensor input, Tensor other, *, Tensor out = None
    Number self, Tensor other
    Tensor input, Number other, *, Tensor out = None
bmm mm:
    Tensor input, Tensor mat2, *, Tensor out = None
    Tensor input, Tensor mat2, torch.dtype out_dtype, *, Tensor out = None
bucketize:
    Tensor input, Tensor boundaries, *, bool out_int32 = False, bool right = False, Tensor out = None
    Number self, Tensor boundaries, *, bool out_int32 = False, bool right = False
clamp clip:
    Tensor input, Tensor min = None, Tensor max = None, *, Tensor out = None
    Tensor input, Number min = None, Number max = None, *, Tensor out = None
clamp_max:
    Tensor input, Tensor max, *, Tensor out = None
    Tensor input, Number max, *, Tensor out = None
clamp_min:
    Tensor input, Tensor min, *, Tensor out = None
    Tensor input, Number min, *, Tensor out = None
conv1d conv2d conv3d:
    Tensor input, Tensor weight, Tensor bias = None, tuple of ints stride = 1, tuple of ints padding = 0, tuple
        of ints dilation = 1, int groups = 1
    Tensor input, Tensor weight, Tensor bias = None, tuple of ints stride = 1, str padding = "valid", tuple of
        ints dilation = 1, int groups = 1
copysign eq fmod ge greater greater_equal gt le less less_equal lt ne not_equal:
    Tensor input, Tensor other, *, Tensor out = None
    Tensor input, Number other, *, Tensor out = None
count_nonzero:
    Tensor input, int dim = None
    Tensor input, tuple of ints dim
cumulative_trapezoid trapezoid:
    Tensor y, Tensor x, *, int dim = -1
    Tensor y, *, Number dx = 1, int dim = -1
div:
    Tensor input, Tensor other, *, Tensor out = None
    Tensor input, Tensor other, *, str rounding_mode, Tensor out = None
    Tensor input, Number other, *, str rounding_mode
divide:
    Tensor input, Tensor other, *, Tensor out = None
    Tensor input, Tensor other, *, str rounding_mode, Tensor out = None
    Tensor input, Number other
    Tensor input, Number other, *, str rounding_mode
dsplit hsplit vsplit:
    Tensor input, int sections
    Tensor input, tuple of ints indices
eye:
    int n, *, Tensor out = None, OPTIONS
    int n, int m, *, Tensor out = None, OPTIONS
fill:
    Tensor input, Tensor value
    Tensor input, Number value
float_power pow:
    Tensor input, Tensor exponent, *, Tensor out = None
    Number self, Tensor exponent, *, Tensor out = None
    Tensor input, Number exponent, *, Tensor out = None
floor_divide multiply true_divide:
    Tensor input, Tensor other, *, Tensor out = None
    Tensor input, Number other
gradient:
    Tensor input, *, tuple of ints dim, int edge_order = 1
    Tensor input, *, Number spacing, tuple of ints dim, int edge_order = 1
    Tensor input, *, Number spacing = None, int dim = None, int edge_order = 1
    Tensor input, *, tuple of Scalars spacing, int dim = None, int edge_order = 1
    Tensor input, *, tuple of Scalars spacing, tuple of ints dim, int edge_order = 1
    Tensor input, *, tuple of Tensors spacing, int dim = None, int edge_order = 1
    Tensor input, *, tuple of Tensors spacing, tuple of ints dim, int edge_order = 1
hamming_window:
    int window_length, *, OPTIONS
    int window_length, bool periodic, *, OPTIONS
    int window_length, bool periodic, float alpha, *, OPTIONS
    int window_length, bool periodic, float alpha, float beta, *, OPTIONS
histogram:
    Tensor input, Tensor bins, *, Tensor weight = None, bool density = False, tuple of Tensors out = None
    Tensor input, int bins = 100, *, tuple of floats range = None, Tensor weight = None, bool density = False,
        tuple of Tensors out = None
histogramdd:
    Tensor input, int bins, tuple of floats range = None, Tensor weight = None, bool density = False
    Tensor input, tuple of ints bins, tuple of floats range = None, Tensor weight = None, bool density = False
    Tensor input, tuple of Tensors bins, tuple of floats range = None, Tensor weight = None, bool density =
        False
index_fill:
    Tensor input, int dim, Tensor index, Tensor value
    Tensor input, int dim, Tensor index, Number value
isin:
    Tensor elements, Tensor test_elements, *, bool assume_unique = False, bool invert = False, Tensor out = None
    Number element, Tensor test_elements, *, bool assume_unique = False, bool invert = False, Tensor out = None
    Tensor elements, Number test_element, *, bool assume_unique = False, bool invert = False, Tensor out = None
kaiser_window:
    int window_length, *, OPTIONS
    int window_length, bool periodic, *, OPTIONS
    int window_length, bool periodic, float beta, *, OPTIONS
lerp:
    Tensor input, Tensor end, Tensor weight, *, Tensor out = None
    Tensor input, Tensor end, Number weight, *, Tensor out = None
linalg_cond:
    Tensor input, Number p = None, *, Tensor out = None
    Tensor input, str p, *, Tensor out = None
linalg_matrix_norm:
    Tensor input, Number ord, tuple of ints dim = {-2,-1}, bool keepdim = False, *, torch.dtype dtype = None,
        Tensor out = None
    Tensor input, str ord = "fro", tuple of ints dim = {-2,-1}, bool keepdim = False, *, torch.dtype dtype =
        None, Tensor out = None
linalg_matrix_rank:
    Tensor input, *, Tensor atol = None, Tensor rtol = None, bool hermitian = False, Tensor out = None
    Tensor input, *, float atol = None, float rtol = None, bool hermitian = False, Tensor out = None
    Tensor input, Tensor tol, bool hermitian = False, *, Tensor out = None
    Tensor input, float tol, bool hermitian = False, *, Tensor out = None
linalg_norm:
    Tensor input, Number ord = None, tuple of ints dim = None, bool keepdim = False, *, torch.dtype dtype =
        None, Tensor out = None
    Tensor input, str ord, tuple of ints dim = None, bool keepdim = False, *, torch.dtype dtype = None, Tensor
        out = None
linalg_pinv:
    Tensor input, *, Tensor atol = None, Tensor rtol = None, bool hermitian = False, Tensor out = None
    Tensor input, *, float atol = None, float rtol = None, bool hermitian = False, Tensor out = None
    Tensor input, Tensor rcond, bool hermitian = False, *, Tensor out = None
    Tensor input, float rcond, bool hermitian = False, *, Tensor out = None
linspace:
    Tensor start, Tensor end, int steps, *, Tensor out = None, OPTIONS
    Number start, Tensor end, int steps, *, Tensor out = None, OPTIONS
    Tensor start, Number end, int steps, *, Tensor out = None, OPTIONS
    Number start, Number end, int steps, *, Tensor out = None, OPTIONS
logspace:
    Tensor start, Tensor end, int steps, float base = 10.0, *, Tensor out = None, OPTIONS
    Number start, Tensor end, int steps, float base = 10.0, *, Tensor out = None, OPTIONS
    Tensor start, Number end, int steps, float base = 10.0, *, Tensor out = None, OPTIONS
    Number start, Number end, int steps, float base = 10.0, *, Tensor out = None, OPTIONS
masked_fill:
    Tensor input, Tensor mask, Tensor value
    Tensor input, Tensor mask, Number value
max min:
    Tensor input, *, Tensor out = None
    Tensor input, Tensor other, *, Tensor out = None
    Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None
mean:
    Tensor input, *, torch.dtype dtype = None, Tensor out = None
    Tensor input, tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None, Tensor out = None
median nanmedian:
    Tensor input
    Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None
moveaxis movedim:
    Tensor input, int source, int destination
    Tensor input, tuple of ints source, tuple of ints destination
nanquantile quantile:
    Tensor input, Tensor q, int dim = None, bool keepdim = False, *, str interpolation = "linear", Tensor out =
        None
    Tensor input, float q, int dim = None, bool keepdim = False, *, str interpolation = "linear", Tensor out =
        None
narrow:
    Tensor input, int dim, Tensor start, int length
    Tensor input, int dim, int start, int length
nonzero:
    Tensor input
    Tensor input, *, bool as_tuple
normal:
    Tensor mean, Tensor std, *, torch.Generator generator = None, Tensor out = None
    Tensor mean, float std = 1, *, torch.Generator generator = None, Tensor out = None
    float mean, Tensor std, *, torch.Generator generator = None, Tensor out = None
    float mean, float std, tuple of ints size, *, torch.Generator generator = None, Tensor out = None, OPTIONS
prod:
    Tensor input, *, torch.dtype dtype = None
    Tensor input, int dim, bool keepdim = False, *, torch.dtype dtype = None, Tensor out = None
rand randn:
    tuple of ints size, *, torch.Generator generator, Tensor out = None, OPTIONS
    tuple of ints size, *, Tensor out = None, OPTIONS
randint:
    int high, tuple of ints size, *, torch.Generator generator, Tensor out = None, OPTIONS
    int high, tuple of ints size, *, Tensor out = None, OPTIONS
    int low, int high, tuple of ints size, *, torch.Generator generator, Tensor out = None, OPTIONS
    int low, int high, tuple of ints size, *, Tensor out = None, OPTIONS
random_:
    Tensor input, *, torch.Generator generator = None
    Tensor input, int from, int to, *, torch.Generator generator = None
    Tensor input, int to, *, torch.Generator generator = None
randperm:
    int n, *, torch.Generator generator, Tensor out = None, OPTIONS
    int n, *, Tensor out = None, OPTIONS
repeat_interleave:
    Tensor input, Tensor repeats, int dim = None, *, int output_size = None
    Tensor repeats, *, int output_size = None
    Tensor input, int repeats, int dim = None, *, int output_size = None
result_type:
    Tensor tensor, Tensor other
    Number scalar, Tensor tensor
    Tensor tensor, Number other
    Number scalar1, Number scalar2
round:
    Tensor input, *, Tensor out = None
    Tensor input, *, int decimals, Tensor out = None
rsub:
    Tensor input, Tensor other, *, Number alpha = 1
    Tensor input, Number other, Number alpha = 1
scatter:
    Tensor input, int dim, Tensor index, Tensor src, *, Tensor out = None
    Tensor input, int dim, Tensor index, Tensor src, *, str reduce, Tensor out = None
    Tensor input, int dim, Tensor index, Number value, *, Tensor out = None
    Tensor input, int dim, Tensor index, Number value, *, str reduce, Tensor out = None
searchsorted:
    Tensor sorted_sequence, Tensor input, *, bool out_int32 = False, bool right = False, str side = None, Tensor
        sorter = None, Tensor out = None
    Tensor sorted_sequence, Number self, *, bool out_int32 = False, bool right = False, str side = None, Tensor
        sorter = None, Tensor out = None
sort:
    Tensor input, *, bool stable, int dim = -1, bool descending = False, tuple of Tensors out = None
    Tensor input, int dim = -1, bool descending = False, *, tuple of Tensors out = None
special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
special_chebyshev_polynomial_w special_hermite_polynomial_h special_hermite_polynomial_he
special_laguerre_polynomial_l special_legendre_polynomial_p special_shifted_chebyshev_polynomial_t
special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w:
    Tensor x, Tensor n, *, Tensor out = None
    Number x, Tensor n, *, Tensor out = None
    Tensor x, Number n, *, Tensor out = None
squeeze:
    Tensor input
    Tensor input, int dim
    Tensor input, tuple of ints dim
squeeze_copy:
    Tensor input, *, Tensor out = None
    Tensor input, int dim, *, Tensor out = None
    Tensor input, tuple of ints dim, *, Tensor out = None
std var:
    Tensor input, tuple of ints dim, bool unbiased = True, bool keepdim = False, *, Tensor out = None
    Tensor input, tuple of ints dim = None, *, Number correction = None, bool keepdim = False, Tensor out = None
    Tensor input, bool unbiased = True
std_mean var_mean:
    Tensor input, tuple of ints dim, bool unbiased = True, bool keepdim = False
    Tensor input, tuple of ints dim = None, *, Number correction = None, bool keepdim = False
    Tensor input, bool unbiased = True
subtract:
    Tensor input, Tensor other, *, Number alpha = 1, Tensor out = None
    Tensor input, Number other, Number alpha = 1
sum:
    Tensor input, *, torch.dtype dtype = None
    Tensor input, tuple of ints dim, bool keepdim = False, *, torch.dtype dtype = None, Tensor out = None
tensor_split:
    Tensor input, tuple of ints indices, int dim = 0
    Tensor input, Tensor tensor_indices_or_sections, int dim = 0
    Tensor input, int sections, int dim = 0
trapz:
    Tensor y, *, float dx = 1, int dim = -1
    Tensor y, Tensor x, *, int dim = -1
view:
    Tensor input, torch.dtype dtype
    Tensor input, tuple of ints size
where:
    Tensor condition
    Tensor condition, Tensor input, Tensor other, *, Tensor out = None
    Tensor condition, Number self, Tensor other
    Tensor condition, Tensor input, Number other
    Tensor condition, Number self, Number other
xlogy special_xlog1py special_xlogy special_zeta:
    Tensor input, Tensor other, *, Tensor out = None
    Number self, Tensor other, *, Tensor out = None
    Tensor input, Number other, *, Tensor out = None
"""


def misfit(op: str) -> TypeError | None:
    """The error of the program's call of ``op``, if this has several forms, and not one alone for so many arguments."""
    call = arguments_of_call(op)
    if call is None:
        return None
    name, method, args, named = call
    known, count = forms(name, method), len(args) + len(named)
    if len(known) < 2 or len([f for f in known if _least(f) <= count <= len(_parameters(f))]) == 1:
        return None
    return _error(name, known, args, named)


def no_form(op: str, args: Sequence[Any], named: Mapping[str, Any]) -> TypeError:
    """The error of a call that fits no form of ``op``, with these arguments if the program's call does not tell them.

    The arguments are those of a function, the tensor among them.
    """
    name, method, args, named = arguments_of_call(op) or (op, False, args, named)
    return _error(name, forms(name, method), args, named)


def _error(name: str, known: Sequence[Sequence[str]], args: Sequence[Any], named: Mapping[str, Any]) -> TypeError:
    named = dict(reversed(list(named.items())))  # the order in which PyTorch's table of them has two or three
    given = _bracketed([*map(type_name, args), *(f"{n}={type_name(v)}" for n, v in named.items())], bool(args))
    return TypeError(
        f"{name}() received an invalid combination of arguments - got {given}, but expected one of:\n"
        + "".join([f" * ({', '.join(f)})\n{_verdict(f, args, named)}" for f in known])
    )


@functools.cache
def _table() -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    listed: list[list[str]] = []
    for line in _TABLE.replace("\n        ", " ").replace("OPTIONS", _OPTIONS).splitlines():
        if line.startswith(" "):
            listed.append(line.strip().split(", "))
        else:
            listed = []
            found.update(dict.fromkeys(line.rstrip(":").split(), listed))
    return found


def forms(name: str, method: bool) -> list[list[str]]:
    """The parameters of each form of a function, or a method, that has several; [] of others."""
    table = _table()
    in_place = name not in table and name.endswith("_")
    found = table.get(f"Tensor.{name}" if method else name) or table.get(name) or table.get(name.rstrip("_"), [])
    if method or in_place:
        found = [_without_out(f) for f in found if f[0] in ("Tensor input", "Tensor self")]
    return [f[1:] for f in found] if method else found


def _without_out(form: list[str]) -> list[str]:
    rest = [p for p in form if not p.endswith(" out = None")]
    return rest[:-1] if rest[-1] == "*" else rest


def _parameters(form: list[str]) -> list[str]:
    return [p for p in form if p != "*"]


def _least(form: list[str]) -> int:
    return len([p for p in form if p != "*" and " = " not in p])


# -- why a form does not fit, as PyTorch says it -----------------------------------------------------------
#
# It does so for forms that have as many items as there are arguments, where the mark "*" counts as an item, and takes
# the last word of an item for its name and what stands before for its type, also where there is a default.


def _verdict(form: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]) -> str:
    form = form or [""]
    if len(form) != len(args) + len(named):
        return ""
    strange = [n for n in named if n not in [p.rpartition(" ")[2] for p in form[len(args) :]]]
    if strange:
        return f"      didn't match because some of the keywords were incorrect: {', '.join(strange)}\n"
    by_name = [p.rpartition(" ") for p in form[len(args) :]]
    given = [*(("", value) for value in args), *((f"{n}=", named[n]) for _, _, n in by_name)]
    marked = [_marked(p.rpartition(" ")[0], n, value) for p, (n, value) in zip(form, given, strict=True)]
    found = _bracketed(marked, bool(args))
    return f"      didn't match because some of the arguments have invalid types: {found}\n"


def _marked(kind: str, name: str, value: Any) -> str:
    """An argument's type, between exclamation marks if it is not what its parameter wants."""
    found = type_name(value)
    fits = found == kind or (kind == "float" and found == "int")
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(type_name, value))
        found = f"list of [{inside}]" if isinstance(value, list) else f"tuple of ({inside}{',' * (len(value) == 1)})"
    return f"{name}{found}" if fits else f"!{name}{found}!"


def _bracketed(parts: Sequence[str], by_position: bool) -> str:
    """The parts in brackets; PyTorch leaves a comma at the end where all are given by their names."""
    return f"({', '.join(parts)}{'' if by_position else ', '})" if parts else "()"
