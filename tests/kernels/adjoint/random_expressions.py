"""What random functions are made of: the names that hold something, and expressions of them."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["NAMES", "Helper", "RandomExpressions"]

# Parameters of ``main`` by the kind of what they hold, as letters: number, integer, boolean; vectors of n or m numbers,
# a matrix of m x n, n indices below n; O and Q are a vector and a matrix that are written into.
NAMES = {"f": "abc", "i": "kl", "b": "g", "v": "xyz", "w": "uv", "M": "MN", "p": "p", "O": ("out",), "Q": ("outs",)}


@dataclass
class Names:
    """The names that are assigned here, by what they hold. Vectors and matrices: {name: (size, writable, own)}."""

    floats: list[str] = field(default_factory=list)
    ints: dict[str, str] = field(default_factory=dict)  # to the size that they are an index of, or ""
    bools: list[str] = field(default_factory=list)
    vectors: dict[str, tuple[str, bool, bool]] = field(default_factory=dict)
    matrices: dict[str, tuple[str, bool, bool]] = field(default_factory=dict)
    indices: list[str] = field(default_factory=list)
    busy: frozenset[str] = frozenset()  # indices of the loops around, which are not assigned to

    def copied(self) -> Names:
        """What an inner block begins with."""
        parts = (self.floats, self.ints, self.bools, self.vectors, self.matrices, self.indices)
        return Names(*(type(part)(part) for part in parts), busy=self.busy)  # type: ignore[arg-type, call-arg]

    def drop(self, name: str) -> None:
        """The name is about to hold something else."""
        for part in (self.floats, self.bools, self.indices):
            if name in part:
                part.remove(name)
        for other in (self.ints, self.vectors, self.matrices):
            other.pop(name, None)


@dataclass
class Helper:
    """A function that main calls: the letters of its parameters and of its results, "" if it only writes to arrays."""

    name: str
    parameters: str
    results: str


class RandomExpressions:
    """Writes one function. budget: how many statements it has, about."""

    def __init__(self, rng: random.Random, helpers: list[Helper], budget: int, dtype: str = ""):
        self.rng, self.helpers, self.budget, self.dtype = rng, helpers, budget, dtype
        self.lines: list[str] = []
        self.depth = 1
        self.loops: list[str] = []
        self.names = Names()
        self.sizes = ["n"]
        self.count = 0
        self.returns = ""

    # -- writing --------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def inner(self):
        """The statements within are those of a block."""
        before, self.names = self.names, self.names.copied()
        self.depth += 1
        yield
        self.depth -= 1
        self.names = before

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def function(self, name: str, parameters: str, results: str) -> str:
        """The function's text."""
        spelled = []
        taken = {letter: iter(names) for letter, names in NAMES.items()}
        n = self.names
        for letter in parameters:
            p = next(taken[letter])
            spelled.append(p)
            if letter == "f":
                n.floats.append(p)
            elif letter == "i":
                n.ints[p] = ""
            elif letter == "b":
                n.bools.append(p)
            elif letter in "vwO":
                n.vectors[p] = ("m" if letter == "w" else "n", letter == "O", False)
            elif letter in "MQ":
                n.matrices[p] = ("mn", letter == "Q", False)
            else:
                n.indices.append(p)
        self.returns = results
        self.first_lines(n)
        self.block(self.budget, top=True)
        if results:
            self.give_back()
        return f"def {name}({', '.join(spelled)}):\n" + "\n".join(self.lines) + "\n"

    def first_lines(self, n: Names) -> None:
        vectors = [v for v, held in n.vectors.items() if held[0] == "n"]
        if n.matrices:
            self.line(f"m, n = {next(iter(n.matrices))}.shape")
            self.sizes = ["m", "n"]
        elif vectors:
            self.line(f"n = {self.pick('len({})', '{}.size', '{}.shape[0]').format(vectors[0])}")
        else:
            self.line(f"n = {self.pick(2, 3)}")
        for size in self.sizes:
            n.ints[size] = ""
        n.busy = frozenset({*self.sizes})
        if self.chance(0.9):
            self.line(f"s = {self.pick('0.0', '1.0', '0', self.number(1))}")
            n.floats.append("s")

    def give_back(self) -> None:
        parts = []
        for letter in self.returns:
            if letter == "f":
                parts.append(self.gathered())
            elif letter == "i":
                parts.append(self.integer())
            elif letter == "b":
                parts.append(self.condition(1))
            elif letter == "v":
                own = [v for v, (size, _, mine) in self.names.vectors.items() if mine and size == "n"]
                parts.append(self.rng.choice(own) if own and self.chance(0.8) else self.whole("n", 2))
            else:
                own = [v for v, (_, _, mine) in self.names.matrices.items() if mine]
                parts.append(self.rng.choice(own) if own else f"{self.matrix()} * {self.number(1)}")
        self.line(f"return {', '.join(parts)}")

    def gathered(self) -> str:
        """A number that many of those here contribute to."""
        n = self.names
        if self.chance(0.2):
            return self.pick(self.variable(), self.number(2), "-1.5")
        terms = self.rng.sample(n.floats, min(len(n.floats), 4)) or [self.number(1)]
        arrays = [v for v in (*n.vectors, *n.matrices) if (n.vectors.get(v) or n.matrices[v])[1]]
        terms += [f"{v}.sum()" for v in self.rng.sample(arrays, min(len(arrays), 2))]
        terms += [e for e in [self.element(writable=True)] if e]
        return " + ".join(f"{self.rng.randint(3, 19) / 10} * {t}" for t in terms)

    # -- expressions ----------------------------------------------------------------------------------

    def variable(self) -> str:
        return self.rng.choice(self.names.floats[-4:]) if self.names.floats else self.constant()

    def constant(self) -> str:
        return str(self.rng.randint(-15, 15) / 10)

    def integer(self, depth: int = 1) -> str:
        """Any small integer."""
        ints = list(self.names.ints)
        one = self.rng.choice(ints) if ints else "1"
        if not depth or self.chance(0.4):
            return self.pick(one, one, str(self.rng.randint(-2, 3)))
        other = self.integer(depth - 1)
        return self.pick(f"{one} + {other}", f"{one} - {other}", f"{one} * 2", f"({one} + {other}) // 2", f"{one} % 3",
                         f"abs({one} - {other})", f"min({one}, {other})", f"max({one}, 1)")  # fmt: skip

    def index(self, size: str) -> str:
        """An index below the size, maybe negative."""
        good = [i for i, of in self.names.ints.items() if of == size]
        one = self.rng.choice(good) if good else ""
        if one and self.chance(0.6):
            return one
        choices = ["0", "-1", f"({self.integer()}) % {size}", f"{size} - 1"]
        if one:
            choices += [f"{one} - 1", f"{one} - 1", f"({one} + 1) % {size}", f"{size} - 1 - {one}", f"-{one}",
                        f"min({one} + 1, {size} - 1)", f"-1 - {one}", f"max({one} - 1, 0)", f"{one} // 2"]  # fmt: skip
            choices += [f"{p}[{one}]" for p in self.names.indices if size == "n"] * 2
        elif self.names.indices and size == "n":
            choices.append(f"{self.rng.choice(self.names.indices)}[{self.pick('0', '-1')}]")
        return self.rng.choice(choices)

    def element(self, writable: bool = False) -> str:
        """An element of an array; "" if there is none."""
        n = self.names
        vectors = [v for v in n.vectors if n.vectors[v][1] or not writable]
        matrices = [v for v in n.matrices if n.matrices[v][1] or not writable]
        if not vectors and not matrices:
            return ""
        if not vectors or (matrices and self.chance(0.4)):
            at = f"{self.index('m')}{self.pick(', ', ', ', '][')}{self.index('n')}"
            return f"{self.rng.choice(matrices)}[{at}]"
        v = self.rng.choice(vectors)
        return f"{v}[{self.index(n.vectors[v][0])}]"

    def leaf(self) -> str:
        r = self.rng.random()
        if r < 0.45:
            return self.element() or self.variable()
        if r < 0.85:
            return self.variable()
        if r < 0.93:
            return self.constant()
        return f"{self.integer(0)} * 0.3"

    def number(self, depth: int) -> str:
        """An expression of one number, for which its parts may be anything."""
        if depth <= 0:
            return self.leaf()
        r = self.rng.random()
        a = self.number(depth - 1)
        if r < 0.42:
            b = self.number(self.rng.randint(0, depth - 1))
            return self.pick(
                f"{a} + {b}", f"({a} - {b})", f"{a} * ({b})", f"({a}) * ({b})", f"({a}) / (1.5 + ({b}) ** 2)"
            )
        if r < 0.6:
            return self.pick(
                f"math.sin({a})", f"np.cos({a})", f"math.tanh({a})", f"math.exp(-({a}) ** 2)",
                f"np.sqrt(1.0 + ({a}) ** 2)",
                f"math.atan({a})", f"abs({a})", f"-({a})", f"({a}) ** 2", f"math.log(1.5 + ({a}) ** 2)",
                f"math.erf({a})",
                f"float({a})", f"np.sin({a})", f"0.3 * ({a})", f"(({a}) % 1.3)",
            )  # fmt: skip
        if r < 0.7:
            b = self.number(depth - 1)
            return self.pick(f"max({a}, {b})", f"min({a}, {b})", f"math.atan2({a}, 2.0 + ({b}) ** 2)", f"max({a}, 0.0)",
                             f"math.hypot({a}, 1.0 + ({b}) ** 2)", f"(1.2 + ({a}) ** 2) ** math.sin({b})",
                             f"min(max({a}, -0.7), 0.8, {b})", f"np.maximum({a}, {b})")  # fmt: skip
        if r < 0.77:
            return f"({a} if {self.condition(1)} else {self.number(depth - 1)})"
        if r < 0.84 and self.names.vectors:
            return self.reduction()
        if r < 0.9:
            return self.call("f") or a
        return self.leaf()

    def reduction(self) -> str:
        size = self.rng.choice(self.sizes)
        a, b = self.whole(size, 1), self.vector(size)
        at = self.index(size)
        choices = [f"np.sum({a})", f"np.dot({self.vector(size)}, {b})", f"{b}.sum()", f"{b}[1:].sum()", f"{b}.max()",
                   f"np.sum({self.vector(size)}[1:] * {b}[:-1])", f"np.mean({a})", f"np.min({b})",
                   f"np.sum({b}[:{at}])",
                   f"{self.vector(size)} @ {b}"]  # fmt: skip
        if self.names.matrices:
            choices += [
                f"{self.matrix()}.sum()",
                f"np.sum({self.matrix()}[{self.index('m')}])",
                f"np.max({self.matrix()})",
            ]
        return self.rng.choice(choices)

    def vector(self, size: str) -> str:
        """The name, or a view, of a vector of that size."""
        found = [v for v, held in self.names.vectors.items() if held[0] == size]
        if self.names.matrices and (not found or self.chance(0.15)):
            name = self.matrix()
            found = [f"{name}[{self.index('m')}]" if size == "n" else f"{name}[:, {self.index('n')}]"]
        return self.rng.choice(found) if found else f"np.ones({size})"

    def matrix(self) -> str:
        return self.rng.choice(list(self.names.matrices))

    def whole(self, size: str, depth: int) -> str:
        """An expression of a vector."""
        a = self.vector(size)
        if not depth:
            return a
        b, s = self.whole(size, depth - 1), self.leaf()
        choices = [f"{s} * {a} + {b}", f"{a} * {b}", f"{a} - {b}", f"np.sin({b})", f"np.tanh({a} + {s})",
                   f"0.5 * {b}", f"-{a}",
                   f"np.maximum({a}, {b} - 0.1)", f"np.where({a} > {s}, {b}, 0.5 * {a})", f"{a}[::-1] + {b}",
                   f"{b} / (1.5 + {a} ** 2)", f"np.abs({a})", f"{a}.copy()"]  # fmt: skip
        if size == "n" and self.names.indices:
            choices.append(f"{a}[{self.rng.choice(self.names.indices)}]")
        if len(self.sizes) > 1:
            m = self.matrix()
            choices.append(f"{m}.T @ {self.vector('m')}" if size == "n" else f"{m} @ {self.vector('n')}")
            choices.append(f"{m}.sum(axis=0)" if size == "n" else f"np.sum({m}, axis=1)")
        return self.rng.choice(choices)

    def condition(self, depth: int) -> str:
        r = self.rng.random()
        if depth and r < 0.25:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return self.pick(f"({a} and {b})", f"({a} or {b})", f"not ({a})")
        good = [(i, of) for i, of in self.names.ints.items() if of]
        if r < 0.35 and good:
            i, size = self.rng.choice(good)
            vector = self.vector(size)
            return self.pick(f"({i} > 0 and {vector}[{i} - 1] > {self.constant()})",
                             f"({i} + 1 < {size} and {vector}[{i} + 1] < {self.leaf()})")  # fmt: skip
        if r < 0.6:
            return f"{self.integer()} {self.pick('<', '<=', '>', '==', '!=')} {self.integer(0)}"
        if r < 0.7 and self.names.bools:
            return self.rng.choice(self.names.bools)
        return f"{self.number(1)} {self.pick('<', '>', '<=', '>=')} {self.leaf()}"

    def bounded(self, depth: int = 2) -> str:
        """An expression that is assigned."""
        e = self.number(depth)
        r = self.rng.random()
        if r < 0.45:
            return self.pick(f"math.sin({e})", f"math.tanh({e})", f"np.tanh({e})", f"math.atan({e})", f"0.5 * ({e})")
        return e if r < 0.9 else self.leaf()

    def call(self, results: str) -> str:
        """A call of a helper with such results; "" if there is none."""
        found = [h for h in self.helpers if h.results == results]
        if not found:
            return ""
        helper = self.rng.choice(found)
        arguments = []
        for letter in helper.parameters:
            if letter == "f":
                arguments.append(self.number(1))
            elif letter == "i":
                arguments.append(self.integer())
            elif letter == "O":
                own = [v for v, (size, writable, _) in self.names.vectors.items() if writable and size == "n"]
                if not own:
                    return ""
                arguments.append(self.rng.choice(own))
            else:
                arguments.append(self.vector("n"))
        return f"{helper.name}({', '.join(arguments)})"
