"""Products of matrices and vectors, sums of products, and what is read off matrices.

Products of fixed ranks are declared ops: those of two tensors derive from MatrixProduct (``matrix_products.py``, to be
read first), those that also add a tensor from AddedProduct (``added_products.py``), which name the product that they
add and take their gradients from it. Both bases bring vmap's rule (``product_batch_rules.py``). Products of any rank
(matmul, linear, tensordot, einsum) are plain functions made of these: they reshape, and call mm or bmm once. Kernels
are in ``jitgrad.kernels.loops.matmul``. Sums and norms are in ``jitgrad.ops.reduction``.

Factorisations, and what is solved by them, derive from BatchedMatrices (``batched_matrices.py``), which has what ops on
the last two dims share; their kernels are LAPACK's (``jitgrad.kernels.lapack``). A file each: ``cholesky.py``,
``lu.py``, ``qr.py``, ``ldl.py``, ``eigen.py``, ``svd.py``, ``lstsq.py`` and what is made of them (inverses,
determinants, pseudo-inverses, ranks). Distances between rows are in ``distances.py``.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.linalg.chains", "matrix_power", functions="chain_matmul", linalg="matrix_power multi_dot")
publish_later("jitgrad.ops.linalg.covariance", "corrcoef cov")
publish_later("jitgrad.ops.linalg.distances", "dist", functions="cdist pdist", **{"nn.functional": "pdist"})
publish_later("jitgrad.ops.linalg.eigen", linalg="eig eigh eigvals eigvalsh")
publish_later("jitgrad.ops.linalg.einsum", functions="einsum")
publish_later("jitgrad.ops.linalg.grouped_mm", **{"nn.functional": "grouped_mm"})
publish_later("jitgrad.ops.linalg.lobpcg", functions="lobpcg")
publish_later("jitgrad.ops.linalg.low_rank", functions="pca_lowrank svd_lowrank")
publish_later("jitgrad.ops.linalg.matrix_exp", "matrix_exp", linalg="matrix_exp")
publish_later(
    "jitgrad.ops.linalg.matrix_norms", functions="frobenius_norm nuclear_norm",
    linalg="cond matrix_norm matrix_rank norm vector_norm",
)  # fmt: skip
publish_later("jitgrad.ops.linalg.pseudo_inverse", "pinverse", linalg="pinv")
publish_later("jitgrad.ops.linalg.renorm", "renorm", methods="renorm_")
publish_later(
    "jitgrad.ops.linalg.sums_of_products", "addbmm addr kron", functions="vander", methods="__rmatmul__ addbmm_ addr_",
    linalg="diagonal matmul vander vecdot",
)  # fmt: skip
publish_later("jitgrad.ops.linalg.svd", "svd", linalg="svd svdvals")
publish_later("jitgrad.ops.linalg.trace_cross", "cross trace", linalg="cross")
publish_later("jitgrad.ops.linalg.cholesky", "cholesky cholesky_inverse cholesky_solve", linalg="cholesky cholesky_ex")
publish_later("jitgrad.ops.linalg.triangular", "triangular_solve", linalg="solve_triangular")
publish_later("jitgrad.ops.linalg.determinant", "det logdet slogdet", linalg="det slogdet")
publish_later("jitgrad.ops.linalg.inverse", "inverse", linalg="inv inv_ex tensorinv")
publish_later("jitgrad.ops.linalg.ldl", linalg="ldl_factor ldl_factor_ex ldl_solve")
publish_later("jitgrad.ops.linalg.lstsq", linalg="lstsq")
publish_later("jitgrad.ops.linalg.lu", "lu", functions="lu_unpack", linalg="lu lu_factor lu_factor_ex")
publish_later("jitgrad.ops.linalg.lu_solve", "lu_solve", linalg="lu_solve")
publish_later("jitgrad.ops.linalg.qr", "geqrf orgqr ormqr qr", linalg="householder_product qr")
publish_later("jitgrad.ops.linalg.solve", linalg="solve solve_ex tensorsolve")
