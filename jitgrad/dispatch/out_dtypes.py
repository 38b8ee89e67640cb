"""Which dtypes the argument ``out=`` may have.

Of most ops the result is converted to the dtype of ``out``, if that is not of a lower category. The ops below take the
result's own dtype only, each in PyTorch's words: "wanted" and "given" stand for the names of the two dtypes.
"""

from __future__ import annotations

from jitgrad.core.dtypes import dtype
from jitgrad.core.errors import cpp_type, scalar_type
from jitgrad.dispatch.operand_checks import check_result_cast

__all__ = ["check_out_dtype"]

_STRICT = {
    "Expected result to be of dtype uint64, but got {given}": "hash_tensor",
    "quantile() out tensor must be same dtype as the input tensor": "nanquantile quantile",
    "Expected out tensor to have dtype {wanted_type}, but got {given_type} instead":
        "addmm addmv aminmax argmax argmin baddbmm bmm cross cumprod cumsum diag frobenius_norm gather index_add "
        "index_copy inverse linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_eigh linalg_eigvalsh "
        "linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor "
        "linalg_lu_factor_ex linalg_lu_solve linalg_qr linalg_slogdet linalg_solve linalg_solve_ex linalg_svd "
        "linalg_svdvals linalg_vector_norm linear log_softmax lu_solve lu_unpack matmul mean mm msort norm prod qr "
        "renorm scatter scatter_add slice_scatter slogdet softmax sort sum svd take_along_dim topk triangular_solve "
        "tril triu",
    "linalg.{name} expected out tensor dtype {wanted} but got: {given}": "linalg_matrix_norm linalg_norm nuclear_norm",
    "multi_dot(): expected out tensor to have dtype {wanted_type} but got {given_type}":
        "chain_matmul linalg_multi_dot",
    "linalg.vecdot: Expected out of dtype{wanted} but found {given}": "linalg_vecdot",
    "torch.ormqr: Expected input and result to have the same dtype, but input has dtype{wanted} and result has dtype "
    "{given}": "ormqr",
    "expected scalar type {wanted} but found {given}": "linalg_solve_triangular",
    "self and mat2 must have the same dtype, but got {given} and {wanted}": "addbmm",
    "Found dtype {given} but expected {wanted}":
        "bitwise_not ceil conj_physical floor frac neg round sgn sign trunc",
    "dtype {wanted} does not match dtype of out parameter ({given})":
        "arange empty eye full linspace logspace ones rand randn range zeros",
    "result dtype {given} does not match input dtype {wanted}": "dot vdot",
    "Expected the dtype for input and out to match, but got {wanted} for input's dtype and {given} for out's dtype.":
        "amax amin",
    "tensordot: Expected the output tensor to have dtype {wanted}, but got an output tensor with dtype {given}":
        "inner tensordot",
    "{op} does not support non-boolean outputs.": "isneginf isposinf signbit",
    "index_select(): self and result must have the same scalar type": "index_select",
    "output values must be of same type as input": "kthvalue median nanmedian",
    "multinomial expects Long tensor out, got: {given}": "multinomial",
    "addmv input tensors must have the same dtype, but got {given}, {wanted}, and {wanted}": "mv",
    "nan_to_num: dtype of out: {given} should be same as input: {wanted}": "nan_to_num",
    "{op}: Expected out tensor to have scalar type {wanted} but got scalar type{given}": "nonzero nonzero_static",
    "take(): self and out expected to have the same dtype, but got self.dtype = {wanted} and out.dtype = {given}":
        "take",
    "Expected object of scalar type {wanted} but got scalar type {given} for argument 'out'": "complex polar",
    "the output given to float_power has dtype {given} but the operation's result requires dtype {wanted}":
        "float_power",
}  # fmt: skip
_SAME = "Expected out tensor to have dtype {wanted_type}, but got {given_type} instead"
_CUMULATIVE = "expected scalar_type {wanted} but found {given}"
# Of ops with several results, each of which has words of its own.
_OF_PARTS = {
    "max": (_SAME, _SAME),
    "min": (_SAME, _SAME),
    "cummax": (_CUMULATIVE, _CUMULATIVE),
    "cummin": (_CUMULATIVE, _CUMULATIVE),
    "frexp": (
        "torch.frexp() expects mantissa to have dtype {wanted_type} but got {given_type}",
        "torch.frexp() expects exponent to have int dtype but got {given_type}",
    ),
    "histogram": (
        "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {wanted_type} and "
        "hist {given_type}",
        "torch.histogram: input tensor and bin_edges tensor should have the same dtype, but got input {wanted_type} "
        "and bin_edges {given_type} for dimension 0",
    ),
    "mode": (
        "expected scalar type '{wanted}' but got '{given}' for values output",
        "expected scalar type '{wanted}' but got '{given}' for indices output",
    ),
}
# Results that are converted, of whose refusals these words speak: {op: (title, name of each result)}.
_CASTABLE = {
    "cholesky": ("cholesky", "result"),
    "cholesky_inverse": ("cholesky_inverse", "result"),
    "cholesky_solve": ("cholesky_solve", "result"),
    "geqrf": ("torch.geqrf", "a", "tau"),
    "linalg_cond": ("linalg.cond", "result"),
    "linalg_eig": ("torch.linalg.eig", "eigenvalues", "eigenvectors"),
    "linalg_eigvals": ("torch.linalg.eigvals", "eigenvalues"),
    "linalg_householder_product": ("torch.linalg.householder_product", "result"),
    "linalg_lstsq": ("torch.linalg.lstsq", "solution", "residuals", "rank", "singular_values"),
    "linalg_matrix_power": ("matrix_power", "result"),
    "linalg_matrix_rank": ("torch.linalg.matrix_rank", "result"),
    "linalg_pinv": ("linalg.pinv", "result"),
    "linalg_tensorinv": ("tensorinv", "result"),
    "linalg_tensorsolve": ("tensorsolve", "result"),
    "orgqr": ("torch.linalg.householder_product", "result"),
}
_WORDS = {op: text for text, ops in _STRICT.items() for op in ops.split()}
_TRUTHS = ("all", "any")  # whose results may go into bools and bytes
_JOINS = ("cat", "column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack", "stack", "vstack")


def check_out_dtype(op: str, wanted: dtype, given: dtype, part: int | None = None) -> None:
    """RuntimeError (of joins TypeError) if ``op`` writes no result of dtype ``wanted`` to one of dtype ``given``.

    part: the place of the result among several.
    """
    if wanted is given:
        return
    if op == "heaviside":
        what = "complex tensors" if given.is_complex else "tensors with different dtypes"
        raise RuntimeError(f"heaviside is not yet implemented for {what}.")
    if op in _TRUTHS and given.name != "uint8":
        raise RuntimeError(f"{op} only supports bool tensor for result, got: {scalar_type(given)}")
    text = _WORDS.get(op) if part is None or op not in _OF_PARTS else _OF_PARTS[op][part]
    if text is not None:
        raise RuntimeError(text.format(
            op=op, name=op.removeprefix("linalg_").replace("nuclear", "matrix"), wanted=scalar_type(wanted),
            given=scalar_type(given), wanted_type=cpp_type(wanted), given_type=cpp_type(given),
        ))  # fmt: skip
    if op in _JOINS and wanted.category > given.category:
        raise TypeError(f"torch.cat(): input types can't be cast to the desired output type {scalar_type(given)}")
    if op in _CASTABLE and wanted.category > given.category:
        title, name = _CASTABLE[op][0], _CASTABLE[op][1 + (part or 0)]
        raise RuntimeError(
            f"{title}: Expected {name} to be safely castable from {scalar_type(wanted)} dtype, but got {name} with "
            f"dtype {scalar_type(given)}"
        )
    check_result_cast(wanted, given)
