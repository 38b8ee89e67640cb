"""Where the boxes and arrows of a directed graph go: geometry alone, no drawing.

The method is Sugiyama's (Sugiyama, Tagawa and Toda, 1981), as in Graphviz: boxes are put into layers so that every
arrow leads downwards, ordered within their layers so that few arrows cross, and moved sideways towards what they
are connected with. An arrow that spans several layers passes a dummy node, narrow and without height, in each of
them, so that there is room for it. Nothing here recurses: a chain of any length can be arranged.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

__all__ = ["Arrangement", "arrange"]

Point = tuple[float, float]
# Gaps and widths in pixels; PORT_STEP is the distance between arrows that leave one box side by side.
BETWEEN_BOXES, BETWEEN_LAYERS, MOST_BETWEEN_LAYERS = 22.0, 34.0, 76.0
DUMMY_WIDTH, PORT_STEP = 6.0, 18.0
SWEEPS = 12  # passes over all layers, down and up in turn


@dataclass(frozen=True)
class Arrangement:
    """Centres of the boxes, and one path per arrow.

    A path has an even number of points: a curve from the first to the second, a vertical line to
    the third, a curve to the fourth, and so on. All curves start and end vertically.
    """

    centres: list[Point]
    paths: list[list[Point]]
    width: float
    height: float


def arrange(sizes: Sequence[Point], arrows: Sequence[tuple[int, int]]) -> Arrangement:
    """Arrange boxes of the given (width, height), connected by ``arrows``, pairs of their numbers.

    Raises ValueError if the arrows lead in a circle.
    """
    mesh = _Mesh(sizes, arrows)
    mesh.untangle()
    mesh.settle()
    return mesh.arrangement()


def _depths(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box, 0 at the top.

    A box is right above the highest box that it leads to, as far down as that allows. A box that leads nowhere is right
    below the lowest one that leads to it. ValueError if the arrows lead in a circle.
    """
    makers: list[list[int]] = [[] for _ in range(count)]
    unseen, heights, seen = [0] * count, [0] * count, 0
    for a, b in arrows:
        makers[b].append(a)
        unseen[a] += 1
    ends = [n for n in range(count) if not unseen[n]]
    ready = list(ends)
    while ready:
        b, seen = ready.pop(), seen + 1
        for a in makers[b]:
            heights[a] = max(heights[a], heights[b] + 1)
            unseen[a] -= 1
            if not unseen[a]:
                ready.append(a)
    if seen < count:
        raise ValueError(f"arrows lead in a circle: of {count} boxes only {seen} come before an end")
    highest = max(heights, default=0)
    depths = [highest - height for height in heights]
    for n in ends:
        depths[n] = max((depths[a] + 1 for a in makers[n]), default=0)
    return depths


class _Mesh:
    """Boxes and dummy nodes by layer.

    Nodes are numbers, boxes first. ``above`` and ``below`` list a node's neighbours, which are one layer apart;
    ``layers`` lists the nodes of each layer from left to right; ``x`` has their centres.
    """

    def __init__(self, sizes: Sequence[Point], arrows: Sequence[tuple[int, int]]):
        self.boxes, self.arrows = len(sizes), arrows
        self.widths, self.heights = [w for w, _ in sizes], [h for _, h in sizes]
        self.depths = _depths(len(sizes), arrows)
        self.layers: list[list[int]] = [[] for _ in range(max(self.depths, default=-1) + 1)]
        for n, depth in enumerate(self.depths):
            self.layers[depth].append(n)
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.chains = [self._chain(a, b) for a, b in arrows]
        self.x: list[float] = []

    def _chain(self, a: int, b: int) -> list[int]:
        """The nodes that an arrow passes, its ends included."""
        chain = [a]
        for depth in range(self.depths[a] + 1, self.depths[b]):
            chain.append(len(self.widths))
            self.widths.append(DUMMY_WIDTH)
            self.heights.append(0.0)
            self.depths.append(depth)
            self.layers[depth].append(chain[-1])
            self.above.append([])
            self.below.append([])
        chain.append(b)
        for upper, lower in pairwise(chain):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return chain

    # -- the order within layers --------------------------------------------------------------

    def untangle(self) -> None:
        """Order each layer by the mean place of its neighbours; keep the order with the fewest crossings seen."""
        best, fewest = [list(layer) for layer in self.layers], self._crossings()
        for sweep in range(SWEEPS):
            if not fewest:  # no order can be better
                break
            downwards = sweep % 2 == 0
            for layer in self.layers if downwards else reversed(self.layers):
                self._sort(layer, self.above if downwards else self.below)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _positions(self) -> dict[int, int]:
        return {n: k for layer in self.layers for k, n in enumerate(layer)}

    def _sort(self, layer: list[int], neighbours: list[list[int]]) -> None:
        """Order a layer by the mean place of each node's neighbours; a node without any keeps its place, to scale."""
        others = {m for n in layer for m in neighbours[n]}
        if not others:
            return
        depth = self.depths[next(iter(others))]
        place = {n: k for k, n in enumerate(self.layers[depth])}
        scale = len(self.layers[depth]) / len(layer)
        keys = {
            n: sum(place[m] for m in neighbours[n]) / len(neighbours[n]) if neighbours[n] else k * scale
            for k, n in enumerate(layer)
        }
        layer.sort(key=keys.__getitem__)

    def _crossings(self) -> int:
        """How many pairs of arrows cross: those that begin further left and end further right than another."""
        place, total = self._positions(), 0
        for layer in self.layers:
            seen: list[int] = []
            for n in layer:
                ends = sorted(place[m] for m in self.below[n])
                total += sum(len(seen) - bisect_right(seen, end) for end in ends)
                for end in ends:
                    insort(seen, end)
        return total

    # -- horizontal places --------------------------------------------------------------------

    def settle(self) -> None:
        """Set ``x``: nodes as near to their neighbours as the order and the gaps allow."""
        self.x = [0.0] * len(self.widths)
        for layer in self.layers:
            self._place(layer, [0.0] * len(layer), [1.0] * len(layer))
        both = [a + b for a, b in zip(self.above, self.below, strict=True)]
        for sweep in range(SWEEPS):
            self._sweep(sweep, self.below if sweep % 2 else self.above)
        # More sweeps for small pictures, where they cost little: at most 40,000 moves of nodes.
        for sweep in range(max(SWEEPS, min(5 * SWEEPS, 40_000 // (len(self.widths) + 1)))):
            self._sweep(sweep, both)
        self._straighten()

    def _sweep(self, sweep: int, neighbours: list[list[int]]) -> None:
        for layer in reversed(self.layers) if sweep % 2 else self.layers:
            self._pull(layer, neighbours)

    def _pull(self, layer: list[int], neighbours: list[list[int]]) -> None:
        wanted, weights = [], []
        for n in layer:
            # A node without neighbours stays where it is, unless others push it.
            near = [(self.x[m], self._stiffness(n, m)) for m in neighbours[n]] or [(self.x[n], 0.01)]
            weights.append(sum(w for _, w in near))
            wanted.append(sum(x * w for x, w in near) / weights[-1])
        self._place(layer, wanted, weights)

    def _stiffness(self, n: int, m: int) -> float:
        """The weight of keeping a piece of an arrow vertical: high between dummy nodes, where bends show most."""
        return (1.0, 3.0, 12.0)[(n >= self.boxes) + (m >= self.boxes)]

    def _place(self, layer: list[int], wanted: list[float], weights: list[float]) -> None:
        """Set the places nearest to the wanted ones, in weighted least squares, that keep order and gaps.

        Taken relative to a layer without spare room, places must not decrease from left to right: that is isotonic
        regression, solved by merging neighbours that are out of order (pool adjacent violators).
        """
        packed = [0.0]
        for a, b in pairwise(layer):
            packed.append(packed[-1] + (self.widths[a] + self.widths[b]) / 2 + BETWEEN_BOXES)
        blocks: list[list[float]] = []  # of nodes that move together: weighted sum of shifts, weight, number of nodes
        for want, weight, base in zip(wanted, weights, packed, strict=True):
            blocks.append([(want - base) * weight, weight, 1])
            while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
                last = blocks.pop()
                blocks[-1] = [p + q for p, q in zip(blocks[-1], last, strict=True)]
        shifts = [total / weight for total, weight, nodes in blocks for _ in range(int(nodes))]
        for n, base, shift in zip(layer, packed, shifts, strict=True):
            self.x[n] = base + shift

    def _straighten(self) -> None:
        """Put the dummy nodes of each long arrow above each other, in as few vertical runs as there is room for."""
        beside: dict[int, tuple[int | None, int | None]] = {}
        for layer in self.layers:
            for left, n, right in zip([None, *layer], layer, [*layer[1:], None], strict=False):
                beside[n] = left, right
        for chain in self.chains:
            run: list[int] = []
            low, high = -inf, inf
            for n in chain[1:-1]:
                least, most = self._room(n, *beside[n])
                if max(low, least) > min(high, most):
                    self._line_up(run, low, high)
                    run, low, high = [], -inf, inf
                run.append(n)
                low, high = max(low, least), min(high, most)
            self._line_up(run, low, high)

    def _room(self, n: int, left: int | None, right: int | None) -> Point:
        """The least and the greatest x of a node between those beside it; its own place always counts as possible."""
        least = -inf if left is None else self.x[left] + (self.widths[left] + self.widths[n]) / 2 + BETWEEN_BOXES
        most = inf if right is None else self.x[right] - (self.widths[right] + self.widths[n]) / 2 - BETWEEN_BOXES
        return min(least, self.x[n]), max(most, self.x[n])

    def _line_up(self, run: list[int], low: float, high: float) -> None:
        if run:
            x = min(max(sum(self.x[n] for n in run) / len(run), low), high)
            for n in run:
                self.x[n] = x

    # -- the result ---------------------------------------------------------------------------

    def arrangement(self) -> Arrangement:
        """The result: layers become heights, chains of nodes become paths."""
        left = min((self.x[n] - w / 2 for n, w in enumerate(self.widths)), default=0.0)
        self.x = [x - left for x in self.x]
        width = max((self.x[n] + w / 2 for n, w in enumerate(self.widths)), default=0.0)
        leaving, arriving = self._ports()
        tops, bottoms = self._rows()
        centres = [(self.x[n], (tops[self.depths[n]] + bottoms[self.depths[n]]) / 2) for n in range(self.boxes)]
        paths = []
        for k, chain in enumerate(self.chains):
            a, b = chain[0], chain[-1]
            path = [(leaving[k], centres[a][1] + self.heights[a] / 2)]
            for n in chain[1:-1]:
                path += [(self.x[n], tops[self.depths[n]]), (self.x[n], bottoms[self.depths[n]])]
            paths.append([*path, (arriving[k], centres[b][1] - self.heights[b] / 2)])
        return Arrangement(centres, paths, width, bottoms[-1] if bottoms else 0.0)

    def _rows(self) -> tuple[list[float], list[float]]:
        """Top and bottom of each layer; arrows that go far sideways get a higher gap."""
        tops, bottoms, y = [], [], 0.0
        for layer in self.layers:
            tops.append(y)
            bottoms.append(y + max(self.heights[n] for n in layer))
            reach = max((abs(self.x[n] - self.x[m]) for n in layer for m in self.below[n]), default=0.0)
            y = bottoms[-1] + min(BETWEEN_LAYERS + 0.12 * reach, MOST_BETWEEN_LAYERS)
        return tops, bottoms

    def _ports(self) -> tuple[list[float], list[float]]:
        """Where along its box's edge each arrow leaves, and where it arrives: side by side, in order."""
        first = [(chain[0], chain[1]) for chain in self.chains]
        last = [(chain[-1], chain[-2]) for chain in self.chains]
        return self._spread(first), self._spread(last)

    def _spread(self, ends: list[tuple[int, int]]) -> list[float]:
        by_box: dict[int, list[int]] = {}
        for k, (box, _) in enumerate(ends):
            by_box.setdefault(box, []).append(k)
        found = [0.0] * len(ends)
        for box, arrows in by_box.items():
            arrows.sort(key=lambda k: self.x[ends[k][1]])
            step = min(PORT_STEP, 0.7 * self.widths[box] / len(arrows))
            for place, k in enumerate(arrows):
                found[k] = self.x[box] + (place - (len(arrows) - 1) / 2) * step
        return found
