"""How a convolution of stride 1 goes without columns: by Winograd's tiles, slabs or directly; what kernels are told.

All turn weights into ``taps`` (elements, groups, out channels, channels of a group), each element of which makes
one product of matrices; they differ in what an element is. For few channels there is one, of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgrad.kernels.loops import direct as kernels
from jitgrad.kernels.loops import slabs, winograd
from jitgrad.kernels.loops.products import has_product

__all__ = ["ByTaps", "by_taps"]

_CACHE = 1 << 18  # bytes of a slab: a quarter of a core's second-level cache
_TILES = 1 << 13  # numbers of a place of the tiles, for all channels: 16 such are half of that cache
_CHANNELS = 16  # of a group, from which BLAS is quick: it copies what it multiplies


class ByTaps(NamedTuple):
    """The kernels and their arguments.

    split: weights to taps; products: taps and x to y; sums: y and x to the gradient of taps; join: that to the gradient
    of weights. shape: of taps. places: of y in ``products``. options: the arguments behind the arrays. shared: whether
    ``sums`` takes a number of shares behind them. mixed: whether neighbouring results are mixed, so that an
    infinity or NaN spreads; ``products`` then takes the weights and the geometry too, to compute them by columns.
    """

    split: Any
    products: Any
    sums: Any
    join: Any
    shape: tuple[int, int, int, int]
    places: tuple[int, ...]
    options: tuple[Any, ...]
    shared: bool
    mixed: bool = False


def by_taps(weight: Sequence[int], samples: int, places: Sequence[int], stride: Sequence[int], padding: Sequence[int],
            dilation: Sequence[int], groups: int, dtype: np.dtype[Any]) -> ByTaps | None:  # fmt: skip
    """The quicker of the methods for weights (o, c / groups, *k) and ``places`` windows; None where columns are."""
    matrices = groups, weight[0] // groups, weight[1]
    plain = set(stride) == {1} and min(padding) >= 0 and math.prod(weight[2:]) > 1
    if not plain or dtype.char not in "fd":
        return None
    if min(matrices[1:]) < _CHANNELS or not has_product(dtype):
        return _by_slabs(weight[2:], matrices, places, padding, dilation, dtype, direct=True)
    tiles = [(n + 1) // 2 for n in places]
    # Of slabs 9 multiplications a place; those of tiles take longer, for they are copied more often. Numbers of double
    # precision are chosen for exactness, which tiles lose where neighbours differ by orders of magnitude.
    wide = min(matrices[1:]) >= 2 * _CHANNELS and dtype.char == "f"
    if wide and tuple(weight[2:]) == (3, 3) and set(dilation) == {1} and 16 * math.prod(tiles) <= 6 * math.prod(places):
        block = min(max(_TILES // (max(matrices[1:]) * tiles[1]), -(-64 // tiles[1])), samples * tiles[0])
        return ByTaps(winograd.filters_of, winograd.winograd_products, winograd.winograd_weight_sums,
                      winograd.filter_gradients, (16, *matrices), tuple(places), (*padding, block), True,
                      mixed=True)  # fmt: skip
    return _by_slabs(weight[2:], matrices, places, padding, dilation, dtype, direct=False)


def _by_slabs(kernel: Sequence[int], matrices: tuple[int, int, int], places: Sequence[int], padding: Sequence[int],
              dilation: Sequence[int], dtype: np.dtype[Any], direct: bool) -> ByTaps | None:  # fmt: skip
    groups, outs, channels = matrices
    padded = [n + d * (k - 1) for n, k, d in zip(places, kernel, dilation, strict=True)]
    inner = [math.prod(padded[i + 1 :]) for i in range(len(padded))]
    total = 1 + sum((n - 1) * step for n, step in zip(places, inner, strict=True))
    # Places that are computed for nothing, against elements that are copied for each place and tap.
    if total > 2 * math.prod(places) if direct else total * outs > math.prod(places) * (outs + _CHANNELS):
        return None
    reach = sum(d * (k - 1) * step for d, k, step in zip(dilation, kernel, inner, strict=True))
    fitting = max(_CACHE // (channels * dtype.itemsize) - reach, 256)
    block = -(-total // -(-total // fitting))
    missing = 3 - len(kernel)
    lists = [(1,) * missing + tuple(kernel), (1, 1, 1), (0,) * missing + tuple(padding),
             (1,) * missing + tuple(dilation), (1,) * missing + tuple(places)]  # fmt: skip
    numbers = np.array([n for part in lists for n in part], np.int64)
    if direct:
        shape = 1, groups, outs, channels * math.prod(kernel)
        return ByTaps(kernels.split_rows, kernels.direct_products, kernels.direct_weight_sums, slabs.add_parts, shape,
                      (math.prod(places),), (numbers, np.array([*range(0, total, block), total])), False)  # fmt: skip
    return ByTaps(slabs.split_taps, slabs.slab_products, slabs.slab_weight_sums, slabs.add_parts,
                  (math.prod(kernel), *matrices), (math.prod(places),), (numbers, block), True)  # fmt: skip
