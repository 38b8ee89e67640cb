"""Random loops over elements and those beside them, of plain arithmetic: what the reverse sweep makes vectors of."""

from __future__ import annotations

from .random_expressions import RandomExpressions

__all__ = ["RandomNeighbours"]

# What runs (with ``{n}`` the size), and the places that are within an array of that size in each iteration.
_RANGES = (
    ("range({n} - 1)", ("{i}", "{i} + 1", "{n} - 1 - {i}", "{n} - 2 - {i}")),
    ("range({n} - 1, 0, -1)", ("{i}", "{i} - 1", "{n} - {i}", "{n} - 1 - {i}")),
    ("range(1, {n} - 1)", ("{i} - 1", "{i}", "{i} + 1", "{n} - {i}")),
    ("range({n} - 2, -1, -1)", ("{i}", "{i} + 1", "{n} - 2 - {i}")),
    ("range({n} // 2)", ("{i}", "2 * {i}", "2 * {i} + 1", "{n} - 1 - 2 * {i}")),
    ("range(({n} - 1) // 2)", ("{i}", "2 * {i}", "2 * {i} + 1", "2 * {i} + 2", "{i} + 1")),
    ("range({n})", ("{i}", "{i} - 1", "{i} + 1 - {n}", "{n} - 1 - {i}")),  # some of them from the end
    ("range(0, {n} - 1, 2)", ("{i}", "{i} + 1")),
)


class RandomNeighbours(RandomExpressions):
    """Writes such loops."""

    def some_neighbours(self) -> None:
        """Arrays to write into, and loops."""
        for x in [v for v, held in self.names.vectors.items() if held[0] == "n"][:2]:
            self.line(f"q{x} = {x}.copy()")
            self.names.vectors[f"q{x}"] = ("n", True, True)
        for m in [*self.names.matrices][:1]:
            self.line(f"q{m} = {m}.copy()")
            self.names.matrices[f"q{m}"] = ("mn", True, True)
        for _ in range(self.rng.randint(1, 4)):
            self.neighbours()

    def neighbours(self) -> bool:
        """A loop, or one around another; False if there is nothing to write into."""
        size = self.rng.choice(self.sizes)
        arrays = [f"{v}[" for v, held in self.names.vectors.items() if held[0] == size]
        own = [f"{v}[" for v, held in self.names.vectors.items() if held[0] == size and held[1]]
        matrices = self.names.matrices if size == "n" and self.chance(0.4) else {}
        if not own and not any(held[1] for held in matrices.values()):
            return False
        i, row = self.fresh("i"), self.index("m") if matrices else ""
        times, before = self.rng.random(), self.depth
        if times < 0.25:
            self.line(f"for {self.fresh('t')} in range({self.pick('2', '3')}):")
            self.depth += 1
        elif times < 0.4 and matrices:
            row = self.fresh("r")
            self.line(f"for {row} in range(m):")
            self.depth += 1
        arrays += [f"{m}[{row}, " for m in matrices]
        own += [f"{m}[{row}, " for m, held in matrices.items() if held[1]]
        bounds, places = self.rng.choice(_RANGES)
        first = self.rng.choice(own)
        self.line(f"for {i} in {bounds.format(n=size)}:")
        self.depth += 1
        at = [place.format(i=i, n=size) for place in self.rng.sample(places, min(len(places), 2))]
        read = [f"{self.pick(first, self.rng.choice(arrays))}{place}]" for place in at for _ in range(2)]
        for _ in range(self.pick(1, 1, 2)):
            self._statement(f"{first}{at[0]}]", f"{first}{at[-1]}]", read, i)
        self.depth = before
        return True

    def _statement(self, target: str, other: str, read: list[str], i: str) -> None:
        p, q, r = (self.pick(*read, *read, self.variable()) for _ in range(3))
        made = self.pick(
            f"0.4 * {p} + 0.3 * {q} * {r}", f"max({p}, 0.5 * {q} - {r})", f"{p} * {q} / (1.0 + {r} * {r})",
            f"0.5 * ({p} - {q})", f"min({p}, {q}) + 0.2 * {r}", f"({p} if {q} > {r} else 0.5 * {r})", f"0.7 * {p}",
        )  # fmt: skip
        line = self.pick(f"{target} = {made}", f"{target} = {made}", f"{target} += 0.5 * ({made})",
                         f"{target}, {other} = 0.5 * {other}, {target}")  # fmt: skip
        if self.names.floats and self.chance(0.3):
            line = f"{self.rng.choice(self.names.floats)} += 0.3 * {made}"
        if self.chance(0.2):
            test = self.pick(f"{p} > {q}", f"{i} > 1", f"{i} % 2 == 0")
            self.line(f"if {test}:")
            line = f"    {line}"
        self.line(line)
