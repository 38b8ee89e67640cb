"""Linear maps of a volume's dims, one after another: padding, interpolation, means over windows, and their transposes.

Arrays are (outer, depth, height, width); what has fewer dims has some of size 1. For each dim a table of taps says of
which elements along it one of the result is made: element k of ``starts[k] .. starts[k + 1]``, ``places`` and
``weights``. A table's transpose is a table, so each of these maps and its gradient are one loop.
"""

from __future__ import annotations

from jitgrad.kernels.launch import loop

__all__ = ["fill_around", "pick", "row_pieces", "weigh"]


def row_pieces(*args):
    """(pieces, elements) where each outer index is a piece; the arrays are the first and the last argument."""
    return args[0].shape[0], max(args[0].size, args[-1].size)


def same_taps(starts, places, weights, k):
    """Whether elements k and k + 1 have the same taps: places and weights."""
    count, at, to = starts[k + 1] - starts[k], starts[k], starts[k + 1]
    same = starts[k + 2] - to == count
    for i in range(count if same else 0):
        same &= places[at + i] == places[to + i] and weights[at + i] == weights[to + i]
    return same


@loop(pieces=row_pieces)
def weigh(x, d_starts, d_places, d_weights, h_starts, h_places, h_weights, w_starts, w_places, w_weights, out, first,
          last):  # fmt: skip
    """Each element a weighted sum over depth, height and width."""
    width = x.shape[3]
    row = np.empty(width + 1, T)
    row[width] = T(0)
    in_pairs = w_places.size == 2 * out.shape[3]  # two for each element, as of linear interpolation
    # At most one tap for each element, as in the gradient of means over windows that do not overlap. An element without
    # one reads the zero at the end of the row.
    alone, places, weights = True, np.empty(out.shape[3], np.int64), np.ones(out.shape[3], T)
    for w in range(out.shape[3]):
        in_pairs &= w_starts[w] == 2 * w
        alone &= w_starts[w + 1] <= w_starts[w] + 1
        places[w] = width
        if w_starts[w + 1] == w_starts[w] + 1:
            places[w], weights[w] = w_places[w_starts[w]], w_weights[w_starts[w]]
    for o in range(first, last):
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                target, fresh = out[o, d, h], True
                if h > 0 and same_taps(h_starts, h_places, h_weights, h - 1):
                    before = out[o, d, h - 1]
                    for w in range(target.size):
                        target[w] = before[w]
                    continue
                for i in range(d_starts[d], d_starts[d + 1]):
                    for j in range(h_starts[h], h_starts[h + 1]):
                        source, weight = x[o, d_places[i], h_places[j]], d_weights[i] * h_weights[j]
                        if fresh:
                            for k in range(width):
                                row[k] = weight * source[k]
                        else:
                            for k in range(width):
                                row[k] += weight * source[k]
                        fresh = False
                if fresh:
                    row[:] = T(0)
                if alone:
                    for w in range(np.uint64(target.size)):
                        target[w] = weights[w] * row[np.uint64(places[w])]
                    continue
                if in_pairs:
                    for w in range(np.uint64(target.size)):
                        k, l = np.uint64(2) * w, np.uint64(2) * w + np.uint64(1)
                        left, right = row[np.uint64(w_places[k])], row[np.uint64(w_places[l])]
                        target[w] = w_weights[k] * left + w_weights[l] * right
                    continue
                for w in range(target.size):
                    total = T(0)
                    for k in range(w_starts[w], w_starts[w + 1]):
                        total += w_weights[k] * row[w_places[k]]
                    target[w] = total


@loop(pieces=row_pieces)
def pick(x, d_places, h_places, w_places, begin, end, out, first, last):
    """Each element the one at these places; from ``begin`` to ``end`` those along the width go up by one."""
    for o in range(first, last):
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                source, target = x[o, d_places[d], h_places[h]], out[o, d, h]
                for w in range(begin):
                    target[w] = source[w_places[w]]
                if end > begin:
                    inner, part = target[begin:end], source[w_places[begin] :]
                    for w in range(inner.size):
                        inner[w] = part[w]
                for w in range(end, target.size):
                    target[w] = source[w_places[w]]


@loop(pieces=row_pieces)
def fill_around(x, before_d, before_h, before_w, value, out, first, last):
    """``x`` shifted by so many places, within ``value``; what lies outside of ``out`` is left out."""
    for o in range(first, last):
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                i, j, target = d - before_d, h - before_h, out[o, d, h]
                begin, end = max(0, before_w), max(0, min(target.size, x.shape[3] + before_w))
                if i < 0 or i >= x.shape[1] or j < 0 or j >= x.shape[2]:
                    begin, end = 0, 0
                for w in range(begin):
                    target[w] = T(value)
                if end > begin:
                    inner, part = target[begin:end], x[o, i, j, begin - before_w :]
                    for w in range(inner.size):
                        inner[w] = part[w]
                rest = target[max(begin, end) :]
                for w in range(rest.size):
                    rest[w] = T(value)
