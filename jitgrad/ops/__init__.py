"""The differentiable ops, by PyTorch's chapters: a family a folder, a file for what shares a base or a kernel.

In a family are declarations (subclasses of Structured, InplaceOp, View: shapes and dtypes, launches, gradient rules)
and the public functions that parse arguments and call them. Not here: elementwise formulas (rows of
``kernels/elementwise/``), loops (``kernels/loops/``), how declarations are bound, recorded and published
(``dispatch/``). An op is composed of others unless a kernel of its own is measured to pay.

A family imports from those before it in the list below, which are on lower floors: ``shape`` < ``creation`` <
``pointwise``, ``reduction`` < ``linalg``, ``indexing``, ``random`` < ``nn``. Read ``shape/view.py`` for a small family,
``reduction/softmax.py`` for an op with kernels. To import a family publishes its functions and methods; families may be
imported in any order, which tests/dispatch/test_structured_declarations.py does. ``aten.py`` has ops under the names
that policies of selective checkpoints compare.
"""

from jitgrad.core.lazy_import import lazy_attributes
from jitgrad.dispatch import elementwise_publish
from jitgrad.dispatch.registry import LATER
from jitgrad.ops.shape import complex_view, copy, expand, inplace_views, join, rearrange, slicing, split, view
from jitgrad.ops.creation import constants, conversion, fill, from_data, pickle_dlpack, type_info
from jitgrad.ops.pointwise import activation, arithmetic, complex, inplace_comparisons, inplace_functions
from jitgrad.ops.pointwise import where_clamp, words_on_tensors
from jitgrad.ops.reduction import any_all, extrema, prod, scan, softmax, sort, sums, variance, vector_norm
from jitgrad.ops.linalg import added_products, einsum, matmul, matrix_products, trace_cross
from jitgrad.ops.indexing import gather, getitem, grids, index_select, masked, slice_scatter, take
from jitgrad.ops.random import random_fills, sampling

# Ops of neural networks are imported with ``jitgrad.nn``, or at the first use of one of these names. Functions alone
# can be: the methods of Tensor must be there from the start.
LATER.update(dict.fromkeys((
    "alpha_dropout", "alpha_dropout_", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "cross_entropy", "dropout", "dropout_", "embedding", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_", "group_norm", "huber_loss", "instance_norm", "kl_div", "l1_loss",
    "layer_norm", "mse_loss", "nll_loss", "rms_norm", "smooth_l1_loss",
), "jitgrad.ops.nn"))  # fmt: skip
__getattr__, __dir__ = lazy_attributes(__name__, {name: f"jitgrad.ops.{name}" for name in ("aten", "nn")})
