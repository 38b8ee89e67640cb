"""The differentiable ops, by PyTorch's chapters: a family a folder, a file for what shares a base or a kernel.

In a family are declarations (subclasses of Structured, InplaceOp, View: shapes and dtypes, launches, gradient rules)
and the public functions that parse arguments and call them. Not here: elementwise formulas (rows of
``kernels/elementwise/``), loops (``kernels/loops/``), how declarations are bound, recorded and published
(``dispatch/``). An op is composed of others unless a kernel of its own is measured to pay.

A family imports from those before it in the list below, which are on lower floors: ``shape`` < ``creation`` <
``pointwise``, ``reduction`` < ``linalg``, ``indexing``, ``random`` < ``nn``. Read ``shape/view.py`` for a small family,
``reduction/softmax.py`` for an op with kernels. To import a file publishes its functions and methods; files may be
imported in any order, which tests/dispatch/test_structured_declarations.py does, and what is not needed by most
programs is when a name of it is first used. ``aten.py`` has ops under the names
that policies of selective checkpoints compare.
"""

from jitgrad.core.lazy_import import lazy_attributes
from jitgrad.dispatch import elementwise_publish
from jitgrad.dispatch.registry import publish_later
from jitgrad.ops.shape import complex_view, copy, expand, join, slicing, view
from jitgrad.ops.creation import constants, conversion, fill, from_data, pickle_dlpack, ranges, type_info
from jitgrad.ops.pointwise import activation, arithmetic, complex, inplace_functions, where_clamp, words_on_tensors
from jitgrad.ops.reduction import sums
from jitgrad.ops.linalg import added_products, matmul, matrix_products
from jitgrad.ops.indexing import getitem

# Imported at the first use of one of its names: a program uses few of these files, and importing them all would take a
# quarter longer than the rest of jitgrad takes. A test compares the names with what the files publish.
publish_later("jitgrad.ops.shape.inplace_views", "as_strided_ resize_as_", functions="detach_",
              methods="resize_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_")  # fmt: skip
publish_later("jitgrad.ops.shape.rearrange", "flip fliplr flipud repeat_interleave roll rot90 tile", methods="repeat")
publish_later("jitgrad.ops.shape.split",
              "chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split "
              "unsafe_split_with_sizes vsplit")  # fmt: skip
publish_later("jitgrad.ops.pointwise.inplace_comparisons",
              methods="eq_ ge_ greater_ greater_equal_ gt_ le_ less_ less_equal_ lt_ ne_ not_equal_")  # fmt: skip
publish_later("jitgrad.ops.reduction.any_all", "all allclose any count_nonzero equal isclose isin")
publish_later("jitgrad.ops.reduction.extrema", "amax amin aminmax argmax argmin max min")
publish_later("jitgrad.ops.reduction.prod", "prod")
publish_later("jitgrad.ops.reduction.scan", "cumprod cumsum", methods="cumprod_ cumsum_")
publish_later("jitgrad.ops.reduction.softmax", "log_softmax logsumexp softmax", functions="softmin")
publish_later("jitgrad.ops.reduction.sort", "argsort kthvalue median msort nanmedian sort topk")
publish_later("jitgrad.ops.reduction.variance", "std var", functions="std_mean var_mean")
publish_later("jitgrad.ops.reduction.vector_norm", "norm")
publish_later("jitgrad.ops.linalg.einsum", functions="einsum")
publish_later("jitgrad.ops.linalg.trace_cross", "cross trace")
publish_later("jitgrad.ops.indexing.gather", "gather scatter scatter_add", methods="scatter_ scatter_add_")
publish_later("jitgrad.ops.indexing.grids", functions="meshgrid tril_indices triu_indices")
publish_later("jitgrad.ops.indexing.index_select", "index_add index_copy index_fill index_select",
              methods="index_add_ index_copy_ index_fill_")  # fmt: skip
publish_later("jitgrad.ops.indexing.masked", "masked_fill masked_scatter masked_select",
              methods="masked_fill_ masked_scatter_")  # fmt: skip
publish_later("jitgrad.ops.indexing.slice_scatter", "diagonal_scatter select_scatter slice_scatter")
publish_later("jitgrad.ops.indexing.take", "put take take_along_dim", methods="put_")
publish_later("jitgrad.ops.random.random_fills",
              methods="bernoulli_ cauchy_ exponential_ geometric_ log_normal_ normal_ random_ uniform_")  # fmt: skip
publish_later("jitgrad.ops.random.sampling", "bernoulli multinomial",
              functions="normal rand rand_like randint randint_like randn randn_like randperm")  # fmt: skip
publish_later("jitgrad.ops.nn.batch_norm", functions="batch_norm instance_norm")
publish_later("jitgrad.ops.nn.binary_loss", functions="binary_cross_entropy binary_cross_entropy_with_logits")
publish_later("jitgrad.ops.nn.dropout",
              functions="alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ "
              "feature_dropout feature_dropout_")  # fmt: skip
publish_later("jitgrad.ops.nn.embedding", functions="embedding")
publish_later("jitgrad.ops.nn.loss", functions="huber_loss kl_div l1_loss mse_loss smooth_l1_loss")
publish_later("jitgrad.ops.nn.nll_loss", functions="cross_entropy nll_loss")
publish_later("jitgrad.ops.nn.norm", functions="group_norm layer_norm rms_norm")
__getattr__, __dir__ = lazy_attributes(__name__, {name: f"jitgrad.ops.{name}" for name in ("aten", "nn")})
