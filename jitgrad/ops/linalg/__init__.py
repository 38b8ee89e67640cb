"""Products of matrices and vectors, sums of products, and what is read off matrices.

Products of fixed ranks are declared ops: those of two tensors derive from MatrixProduct (``matrix_products.py``, to be
read first), those that also add a tensor from AddedProduct (``added_products.py``), which name the product that they
add and take their gradients from it. Both bases bring vmap's rule (``product_batch_rules.py``). Products of any rank
(matmul, linear, tensordot, einsum) are plain functions made of these: they reshape, and call mm or bmm once. Kernels
are in ``jitgrad.kernels.loops.matmul``. Sums and norms are in ``jitgrad.ops.reduction``.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.linalg.einsum", functions="einsum")
publish_later("jitgrad.ops.linalg.trace_cross", "cross trace")
publish_later("jitgrad.ops.linalg.cholesky", "cholesky cholesky_inverse cholesky_solve", linalg="cholesky cholesky_ex")
publish_later("jitgrad.ops.linalg.triangular", "triangular_solve", linalg="solve_triangular")
