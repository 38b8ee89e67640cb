"""Ops along dims: sums, products, extrema, variances, norms, running totals, softmax, sorting, choices by rank.

Ops that move or pick elements by an index are in ``indexing``, matrix products in ``linalg``, losses in ``nn``.

A new op takes its base from ``along_dims``, and with it the batch rule and samples:
    Reduction            over ``dim``, one or several or all; ``forward`` asks ``plan_reduction`` how to read memory
    ReductionOfAll       its form for all elements, where PyTorch names the node apart; derived by ``along=``
    ChosenAlongDim       (values, indices) along a dim, as of sort; OneChosenAlongDim where the dim goes, as of median
    AlongDim             results of the shape of ``x``, as softmax; ``scan.Scan`` for running totals
Only what launches a kernel of its own is a class; ``isclose`` or ``nanmean`` are functions composed of ops.

Read ``reduction_plan`` first, then ``sums``.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.reduction.any_all", "all allclose any count_nonzero equal isclose")
publish_later("jitgrad.ops.reduction.extrema", "amax amin aminmax argmax argmin max min")
publish_later("jitgrad.ops.reduction.hashes", "hash_tensor")
publish_later("jitgrad.ops.reduction.masked",
              masked="amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm "
              "normalize prod softmax softmin std sum var")  # fmt: skip
publish_later("jitgrad.ops.reduction.prod", "prod")
publish_later("jitgrad.ops.reduction.scan", "cumprod cumsum", methods="cumprod_ cumsum_")
publish_later("jitgrad.ops.reduction.softmax", "log_softmax logsumexp softmax", functions="softmin")
publish_later("jitgrad.ops.reduction.sort", "argsort kthvalue median mode msort nanmedian sort topk")
publish_later("jitgrad.ops.reduction.variance", "std var", functions="std_mean var_mean")
publish_later("jitgrad.ops.reduction.vector_norm", "norm")
publish_later("jitgrad.ops.reduction.differences", "diff", functions="cumulative_trapezoid gradient trapezoid trapz")
publish_later("jitgrad.ops.reduction.quantile", "nanquantile quantile")
publish_later("jitgrad.ops.reduction.running_extrema", "cummax cummin logcumsumexp")
publish_later("jitgrad.ops.reduction.histogram", "bincount histc histogram", functions="histogramdd")
