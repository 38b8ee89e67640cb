"""Which ops autocast runs in which dtype on the CPU: PyTorch's lists, by the names of jitgrad's functions."""

from __future__ import annotations

__all__ = ["FLOAT32", "LOW", "PROMOTE"]

# In the dtype of 16 bits.
_LOW = (
    "__matmul__ __rmatmul__ addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d "
    "conv_transpose3d linalg_vecdot linear matmul mm multi_head_attention_forward prelu scaled_dot_product_attention "
    "vecdot"
)
LOW = frozenset(_LOW.split())
# In float32. Functions of jitgrad.linalg and jitgrad.fft have their module's name before their own.
_FFT = "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft"
_LINALG = (
    "cholesky cholesky_ex cond eig eigh eigvals eigvalsh householder_product inv inv_ex lstsq matrix_rank qr solve svd "
    "svdvals tensorinv tensorsolve"
)
_FLOAT32 = (
    "adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits cdist "
    "cholesky cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy ctc_loss fractional_max_pool2d "
    "fractional_max_pool3d geqrf grid_sample grid_sampler hinge_embedding_loss huber_loss inverse kl_div l1_loss "
    "lu_solve margin_ranking_loss max_unpool2d max_unpool3d mse_loss multi_margin_loss multilabel_margin_loss "
    "nanquantile nll_loss orgqr ormqr pinverse poisson_nll_loss polar prod qr quantile smooth_l1_loss "
    "soft_margin_loss stft svd trace triangular_solve triplet_margin_loss view_as_complex"
)
FLOAT32 = frozenset(
    [*_FLOAT32.split(), *[f"fft_{name}" for name in _FFT.split()], *[f"linalg_{name}" for name in _LINALG.split()]]
)
# In the widest dtype of their arguments.
PROMOTE = frozenset(["cat", "concat", "concatenate", "index_copy", "stack"])
