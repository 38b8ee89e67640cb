"""Reading, writing and adding at places that index tensors, masks, slices or keys in brackets name.

Kernels (``jitgrad.kernels.loops.indexing``) see a tensor as an (outer, n, inner) array, of which dim ``n`` is indexed,
and trust the int64 indices that they get: ``places.py``, to be read first, checks indices and makes the arrays.
Views of parts (``select``, ``narrow``, ``diagonal``) are in ``jitgrad.ops.shape``, embeddings in ``jitgrad.ops.nn``.

Reads derive from Structured and are linear; writes derive from InplaceOp, one declaration for both forms. A read's
gradient is added into zeros by the write of the same places; a write's gradients are its own form that writes zeros,
and the read. Bases: RowsOp (an index for whole slices along a dim), ElementsOp (an index for every element),
PartScatter (a copy with one part replaced). ``scatter_reduce`` and ``index_reduce`` have their gradient rules in common
(scatter_reduce.py); what looks for values in sorted ones is in search.py. An op whose value is a number or a tensor
without dims is two ops, as their gradients differ; the public function picks one.

Where we are laxer than PyTorch: a source larger than its index has a gradient in ``scatter``; PyTorch's backward fails.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.indexing.gather", "gather scatter_add", methods="scatter_add_")
publish_later("jitgrad.ops.indexing.scatter", "scatter", methods="scatter_")
publish_later("jitgrad.ops.indexing.grids",
              functions="cartesian_prod combinations meshgrid tril_indices triu_indices unravel_index")  # fmt: skip
publish_later("jitgrad.ops.indexing.index_select", "index_add index_copy index_fill index_select",
              methods="index_add_ index_copy_ index_fill_")  # fmt: skip
publish_later("jitgrad.ops.indexing.masked", "masked_fill masked_scatter masked_select",
              methods="masked_fill_ masked_scatter_")  # fmt: skip
publish_later("jitgrad.ops.indexing.slice_scatter", "as_strided_scatter diagonal_scatter select_scatter slice_scatter")
publish_later("jitgrad.ops.indexing.take", "put take take_along_dim", methods="put_")
publish_later("jitgrad.ops.indexing.scatter_reduce", "index_reduce scatter_reduce",
              methods="index_reduce_ scatter_reduce_")  # fmt: skip
publish_later("jitgrad.ops.indexing.search", functions="bucketize isin searchsorted")
publish_later("jitgrad.ops.indexing.unique", "unique unique_consecutive")
publish_later("jitgrad.ops.indexing.masked_index",
              functions="_unsafe_masked_index _unsafe_masked_index_put_accumulate")  # fmt: skip
publish_later("jitgrad.ops.indexing.segment_reduce", functions="_segment_reduce segment_reduce")
