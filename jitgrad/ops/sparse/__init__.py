"""Sparse tensors: containers of places and values, and the ops that dense training needs of them.

A sparse tensor is a SparseTensor (core/sparse.py): a pattern of places and a dense tensor of values. Two declared ops
lead from values to a sparse tensor and back (parts.py, to be read first); all others are composed of these and of dense
ops on values, so that gradients of every order come with them. What indices say, rows of a matrix or the order of
places, is worked out once for a pattern (places.py). The forms that ops of other folders take for sparse operands are
registered by ``@sparse_form`` (dispatch/sparse_calls.py): an op without one refuses sparse tensors.

Products of a sparse matrix and a dense one are two declared ops on dense tensors, each other's gradients
(row_products.py). Compressed matrices, also batches and blocks, are computed with as the COO tensors of their blocks
(``grid``, parts.py).

Gradients of sparse tensors have PyTorch's masked semantics: only elements at the stored places count.
"""

from jitgrad.dispatch.registry import publish_later
from jitgrad.dispatch.sparse_calls import forms_later

publish_later(
    "jitgrad.ops.sparse.construct",
    functions="_validate_sparse_bsc_tensor_args _validate_sparse_bsr_tensor_args "
    "_validate_sparse_compressed_tensor_args _validate_sparse_coo_tensor_args _validate_sparse_csc_tensor_args "
    "_validate_sparse_csr_tensor_args sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
    "sparse_csc_tensor sparse_csr_tensor",
)
publish_later(
    "jitgrad.ops.sparse.attributes",
    methods="_coalesced_ _indices _nnz _values ccol_indices coalesce col_indices crow_indices dense_dim indices "
    "is_coalesced row_indices sparse_dim values",
)
publish_later(
    "jitgrad.ops.sparse.convert",
    methods="sparse_mask to_dense to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr",
)
publish_later("jitgrad.ops.sparse.broadcast", functions="_sparse_broadcast_to")
publish_later(
    "jitgrad.ops.sparse.index_forms",
    functions="_convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _validate_compressed_sparse_indices",
)
publish_later("jitgrad.ops.sparse.products", "smm sspaddmm", functions="dsmm hsmm hspmm saddmm spmm",
              sparse="addmm mm")
publish_later("jitgrad.ops.sparse.sampled", sparse="sampled_addmm")
publish_later("jitgrad.ops.sparse.reduction", sparse="log_softmax softmax sum")
publish_later("jitgrad.ops.sparse.resize", "resize_as_sparse_", methods="sparse_resize_ sparse_resize_and_clear_")
publish_later("jitgrad.ops.sparse.structure", sparse="spdiags")
forms_later(*[
    f"jitgrad.ops.sparse.{name}"
    for name in (
        "copies", "multiply", "pointwise", "presence", "products", "reduction", "resize", "shape", "structure",
        "triangular",
    )
])  # fmt: skip
