"""Ops that return a tensor's elements under another shape, order or layout: views, and copies that only move values.

Here live views (``view.py``, ``permute.py``, ``expand.py``, ``slicing.py``, ``as_strided.py``, ``complex_view.py``,
``dtype_view.py``, ``lazy_view.py``), the same in place (``inplace_views.py``), copies and casts (``copy.py``), and what
splits, joins, repeats and reorders (``split.py``, ``join.py``, ``rearrange.py``). No arithmetic but signs of views: an
element of a result is an element of an input, or zero. Choosing elements by the values of an index tensor belongs in
``indexing``, making tensors without an input in ``creation``.

A new op derives from ``SliceView`` if it views some of the elements (gradient and batch rule follow from ``forward``),
from ``Reshaping`` if it views all of them in their order, from ``SplitView`` if it returns several views,
from ``Copying`` if it returns the same values in new memory, else from ``View`` or ``Structured``.
Read dispatch/views.py first, which makes every view, then ``relaying`` in view.py.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.shape.inplace_views", "as_strided_ resize_as_", functions="detach_",
              methods="resize_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_")  # fmt: skip
publish_later("jitgrad.ops.shape.rearrange", "flip fliplr flipud repeat_interleave roll rot90 tile", methods="repeat")
publish_later("jitgrad.ops.shape.split",
              "chunk dsplit hsplit split split_with_sizes tensor_split unbind unsafe_chunk unsafe_split "
              "unsafe_split_with_sizes vsplit")  # fmt: skip
publish_later("jitgrad.ops.shape.view_copies", "narrow_copy slice_inverse",
              functions="alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy "
                        "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy "
                        "unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy")  # fmt: skip
publish_later("jitgrad.ops.shape.blocks", functions="_chunk_cat block_diag")
