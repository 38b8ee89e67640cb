"""Random functions of loops, branches and arrays, as text, and arguments for them.

`RandomModule` writes a module whose last function is ``main``. Numbers stay bounded for the most part: what is assigned
goes through sines, tangents and factors below one. A text may still fail when it is run (an index beyond an array's
end, a variable that was never assigned): its user runs it first, and takes the next seed where that raises.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .random_expressions import Helper
from .random_neighbours import RandomNeighbours

__all__ = ["RandomModule"]


class RandomFunction(RandomNeighbours):
    """Writes one function, statement by statement."""

    # -- statements -----------------------------------------------------------------------------------

    def block(self, budget: int, top: bool = False) -> None:
        start = len(self.lines)
        while budget > 0:
            budget -= self.statement(budget)
        if len(self.lines) == start:
            self.line("pass")
        if self.loops and not top and self.chance(0.12):
            self.line(self.pick("break", "continue", "break"))

    def statement(self, budget: int) -> int:
        """One statement; how many it counts for."""
        r = self.rng.random()
        if r < 0.36 and budget > 2 and self.depth < 6:
            inside = self.rng.randint(1, min(budget - 1, 6))
            kind = self.rng.random()
            if kind < 0.5 and len(self.loops) < 3:
                self.for_loop(inside)
            elif kind < 0.6 and len(self.loops) < 3:
                self.while_loop(inside)
            elif kind < 0.68 and len(self.loops) < 3:
                self.loop_over_array(inside)
            else:
                self.branch(inside)
            return inside + 1
        simple: list[tuple[int, Callable[[], None]]] = [
            (8, self.assigns), (6, self.augments), (3, self.swaps), (9, self.writes), (3, self.new_array), (2,
            self.view),
            (6, self.whole_array), (2, self.exchanges_arrays), (1, self.assigns_int), (1, self.assigns_bool),
            (2, self.calls), (1, self.int_array), (2, self.jump), (1, self.new_matrix), (1, self.one_of_two_arrays),
            (1, self.array_anew), (6, lambda: self.neighbours() or self.new_array()),
        ]  # fmt: skip
        weights = [w for w, _ in simple]
        self.rng.choices([s for _, s in simple], weights)[0]()
        return 1

    def target(self) -> str:
        """A variable for a number, new or not."""
        known = list(self.names.floats)
        if known and self.chance(0.7):
            return self.rng.choice(known)
        return self.fresh("t")

    def assigns(self) -> None:
        value = self.bounded(self.rng.randint(1, 3))
        t = self.target()
        self.line(f"{t} = {value}")
        if t not in self.names.floats:
            self.names.floats.append(t)

    def augments(self) -> None:
        if self.names.floats:
            e = self.bounded()
            t = self.rng.choice(self.names.floats)
            self.line(
                self.pick(
                    f"{t} += {e}", f"{t} += {e}", f"{t} -= {e}", f"{t} *= math.sin({e})", f"{t} /= 1.5 + ({e}) ** 2"
                )
            )

    def swaps(self) -> None:
        floats = self.names.floats
        if len(floats) < 2:
            return self.assigns()
        a, b = self.rng.sample(floats, 2)
        if len(floats) > 2 and self.chance(0.3):
            c = self.rng.choice([f for f in floats if f not in (a, b)])
            self.line(f"{a}, {b}, {c} = {b}, {c}, {self.pick(a, self.bounded())}")
        else:
            self.line(f"{a}, {b} = {b}, {self.pick(a, f'math.sin({a} * {b})', self.bounded())}")
        return None

    def writes(self) -> None:
        at = self.element(writable=True)
        if not at:
            return self.new_array()
        e = self.bounded()
        r = self.rng.random()
        if r < 0.1:
            other = self.element(writable=True)
            self.line(f"{at}, {other} = {other}, {at}")
        elif r < 0.2 and self.names.floats:
            t = self.rng.choice(self.names.floats)
            self.line(f"{at}, {t} = {self.pick(t, e)}, {at}")
        else:
            self.line(self.pick(f"{at} = {e}", f"{at} = {e}", f"{at} += {e}", f"{at} -= {e}", f"{at} *= math.cos({e})",
                                f"{at} = 0.5 * {at} + {e}", f"{at} /= 1.5 + ({e}) ** 2"))  # fmt: skip
        return None

    def new_array(self) -> None:
        size = self.rng.choice(self.sizes)
        like = [v for v, held in self.names.vectors.items() if held[0] == size]
        choices = [f"np.zeros({size})", f"np.zeros({size}{self.dtype})", f"np.full({size}, {self.number(1)})",
                   f"np.ones({size})",
                   self.whole(size, 2)]  # fmt: skip
        if like:
            choices += [f"np.zeros_like({like[0]})", f"{like[-1]}.copy()", f"np.full_like({like[0]}, {self.leaf()})"]
        v = self.new_name("q", self.names.vectors, size)
        r = self.rng.random()
        if r < 0.75:
            self.line(f"{v} = {self.rng.choice(choices)}")
            self.names.drop(v)
            self.names.vectors[v] = (size, True, True)
            return
        made = self.pick(f"np.empty({size}{self.dtype})", f"np.empty_like({like[0]})" if like else f"np.empty({size})")
        new = self.fresh("q")
        self.line(f"{new} = {made}")
        if self.chance(0.5):
            self.line(f"{new}[:] = {self.whole(size, 1)}")
        else:
            i = self.fresh("i")
            self.line(f"for {i} in range({size}):")
            with self.inner():
                self.names.ints[i] = size
                self.line(f"{new}[{i}] = {self.bounded()}")
        self.names.vectors[new] = (size, True, True)

    def new_name(self, base: str, known: dict[str, tuple[str, bool, bool]], size: str) -> str:
        """A name for an array: mostly a new one, else one that held an array of this size."""
        own = [v for v, held in known.items() if held[0] == size and held[2]]
        return self.rng.choice(own) if own and self.chance(0.12) else self.fresh(base)

    def new_matrix(self) -> None:
        if len(self.sizes) < 2:
            return
        v = self.fresh("A")
        m, s = self.matrix(), self.leaf()
        self.line(f"{v} = " + self.pick("np.zeros((m, n))", f"np.full((m, n), {s})", f"{m}.copy()", f"{m} * {s}",
                  f"np.sin({m})",
                                        f"{m} * {self.vector('n')} + {s}"))  # fmt: skip
        self.names.matrices[v] = ("mn", True, True)

    def one_of_two_arrays(self) -> None:
        """An array that either side of a branch makes."""
        size = self.rng.choice(self.sizes)
        v = self.new_name("q", self.names.vectors, size)
        self.line(f"if {self.condition(1)}:")
        for last in (False, True):
            with self.inner():
                if self.chance(0.3):
                    self.assigns()
                self.line(f"{v} = {self.made(size)}")
                self.names.drop(v)
                self.names.vectors[v] = (size, True, True)
                if self.chance(0.4):
                    self.writes()
            if not last:
                self.line("else:")
        self.names.drop(v)
        self.names.vectors[v] = (size, True, True)

    def array_anew(self) -> None:
        """A name of an array for a new one."""
        own = [v for v, held in self.names.vectors.items() if held[2]]
        if own:
            v = self.rng.choice(own)
            self.line(f"{v} = {self.made(self.names.vectors[v][0])}")

    def made(self, size: str) -> str:
        """A new array, not the name of another."""
        return self.pick(f"np.zeros({size})", f"np.full({size}, {self.number(1)})", f"0.5 * {self.whole(size, 1)}",
                         f"np.sin({self.whole(size, 2)})", f"{self.vector(size)}.copy()",
                         f"{self.vector(size)} + {self.leaf()}")  # fmt: skip

    def view(self) -> None:
        if not self.names.matrices:
            return
        m = self.matrix()
        v = self.fresh("row")
        size = self.rng.choice(self.sizes)
        self.line(f"{v} = " + (f"{m}[{self.index('m')}]" if size == "n" else f"{m}[:, {self.index('n')}]"))
        self.names.vectors[v] = (size, self.names.matrices[m][1], False)

    def int_array(self) -> None:
        v, i = self.fresh("r"), self.fresh("i")
        self.line(f"{v} = np.zeros(n, np.int64)")
        self.line(f"for {i} in range(n):")
        with self.inner():
            self.names.ints[i] = "n"
            self.line(f"{v}[{i}] = ({self.integer()}) % n")
        self.names.indices.append(v)

    def whole_array(self) -> None:
        writable = [v for v, held in self.names.vectors.items() if held[1]]
        if not writable:
            return self.new_array()
        if self.chance(0.2) and any(held[1] for held in self.names.matrices.values()):
            return self.whole_matrix()
        y = self.rng.choice(writable)
        size = self.names.vectors[y][0]
        e, x, s = self.whole(size, self.rng.randint(1, 2)), self.vector(size), self.bounded(1)
        self.line(self.pick(
            f"{y}[:] = {e}", f"{y} += {e}", f"{y} -= {e}", f"{y} *= np.sin({e})", f"{y}[1:] += {x}[:-1]",
            f"{y}[:-1] = {x}[1:]",
            f"{y}[1:] = {y}[:-1]", f"{y}[:-1] += {y}[1:] * {self.leaf()}", f"{y}[::2] *= {s}", f"{y}[:] = {x}[::-1]",
            f"{y}[:] = {s}", f"{y} *= {s}", f"{y}[{self.index(size)}:] = {s}", f"{y}[:{self.index(size)}] *= 0.5",
            f"{y}[1:-1] = 0.5 * ({x}[2:] + {x}[:-2])", f"{y}[-2:] -= {s}",
        ))  # fmt: skip
        return None

    def whole_matrix(self) -> None:
        m = self.rng.choice([v for v, held in self.names.matrices.items() if held[1]])
        i, j, s = self.index("m"), self.index("n"), self.bounded(1)
        self.line(self.pick(
            f"{m}[{i}] = {self.whole('n', 1)}", f"{m}[{i}, :] += {self.whole('n', 1)}",
            f"{m}[:, {j}] = {self.whole('m', 1)}",
            f"{m}[:, {j}] *= {s}", f"{m} *= {s}", f"{m} += {self.vector('n')}", f"{m}[1:] = {m}[:-1]",
            f"{m}[{i}, 1:] += {m}[{i}, :-1]",
            f"{m}[:] = np.sin({self.matrix()})", f"{m}[:, ::-1] += {self.matrix()}",
        ))  # fmt: skip

    def exchanges_arrays(self) -> None:
        own = [v for v, held in self.names.vectors.items() if held[2] and held[0] == "n"]
        if len(own) >= 2 and not self.dtype:
            a, b = self.rng.sample(own, 2)
            if len(own) > 2 and self.chance(0.3):
                c = self.rng.choice([v for v in own if v not in (a, b)])
                self.line(f"{a}, {b}, {c} = {b}, {c}, {a}")
            else:
                self.line(f"{a}, {b} = {b}, {a}")

    def assigns_int(self) -> None:
        known = [i for i in self.names.ints if i not in self.names.busy and not self.names.ints[i]]
        if known and self.chance(0.6):
            i = self.rng.choice(known)
            self.line(self.pick(f"{i} += 1", f"{i} = ({self.integer()}) % 4", f"{i} -= 1"))
        else:
            i = self.fresh("j")
            self.line(f"{i} = {self.integer()}")
            self.names.ints[i] = ""

    def assigns_bool(self) -> None:
        bools = self.names.bools
        g = self.rng.choice(bools) if bools and self.chance(0.6) else self.fresh("g")
        self.line(f"{g} = {self.condition(1)}")
        if g not in bools:
            bools.append(g)

    def calls(self) -> None:
        text = self.call("")
        if text and self.chance(0.5):
            self.line(text)
        elif text := self.call("ff"):
            a, b = self.target(), self.fresh("t")
            self.line(f"{a}, {b} = {text}")
            self.names.floats += [f for f in (a, b) if f not in self.names.floats]

    def jump(self) -> None:
        """A break, a continue or a return, under a condition."""
        if self.loops or (self.returns and self.chance(0.5)):
            self.line(f"if {self.condition(1)}:")
            with self.inner():
                if self.chance(0.3):
                    self.assigns()
                if self.loops and (not self.returns or self.chance(0.75)):
                    self.line(self.pick("break", "continue"))
                else:
                    self.give_back()

    def for_loop(self, budget: int) -> None:
        i = self.fresh("i")
        size = self.rng.choice(self.sizes)
        below = [j for j, of in self.names.ints.items() if of == size and j in self.names.busy]
        choices = [(f"range({size})", size)] * 8 + [
            (f"range(1, {size})", size), (f"range({size} - 1, -1, -1)", size), (f"range(0, {size}, 2)", size),
            (f"range({size} - 2, -1, -2)", size), (f"range({size} - 1, 0, -1)", size),
            (f"range({self.rng.randint(0, 3)})", ""),
            (f"range({self.integer(0)} % 4)", ""), (f"range({self.integer(0)}, {self.integer(0)})", ""),
            (f"range({size} - 1)", size), (f"range(-{size}, 0)", size), (f"range(3, {self.integer(0)}, -1)", ""),
            (f"range(0, {size}, {self.integer(0)} % 3 + 1)", size),
        ]  # fmt: skip
        if below:
            j = self.rng.choice(below)
            choices += [(f"range({j})", size), (f"range({j} + 1)", size), (f"range({j}, {size})", size),
                        (f"range({j} + 1, {size})", size), (f"range({j}, -1, -1)", size)]  # fmt: skip
        bounds, of = self.rng.choice(choices)
        self.line(f"for {i} in {bounds}:")
        self.body_of_loop(i, of, budget)

    def body_of_loop(self, i: str, of: str, budget: int) -> None:
        self.loops.append(i)
        with self.inner():
            self.names.ints[i] = of
            self.names.busy |= {i}
            self.block(budget)
            found = self.names
        self.loops.pop()
        if self.chance(0.1):  # a number of the last iteration, read behind the loop
            self.names.floats = found.floats

    def while_loop(self, budget: int) -> None:
        c = self.fresh("c")
        self.line(f"{c} = 0")
        more = f" and {self.condition(0)}" if self.chance(0.4) else ""
        self.line(f"while {c} < {self.pick('2', '3', self.rng.choice(self.sizes))}{more}:")
        self.loops.append(c)
        with self.inner():
            self.names.ints[c] = ""
            self.names.busy |= {c}
            self.line(f"{c} += 1")
            self.block(budget)
        self.loops.pop()

    def loop_over_array(self, budget: int) -> None:
        size = self.rng.choice(self.sizes)
        v, x, i = self.fresh("e"), self.vector(size), self.fresh("i")
        text, of = self.pick((f"for {v} in {x}:", None), (f"for {i}, {v} in enumerate({x}):", size),
                             (f"for {v} in {x}[1:]:", None),
                             (f"for {i}, {v} in enumerate({x}[1:]):", size))  # fmt: skip
        self.line(text)
        self.loops.append(v)
        with self.inner():
            self.names.floats.append(v)
            if of is not None:
                self.names.ints[i] = of
                self.names.busy |= {i}
            self.block(budget)
        self.loops.pop()

    def branch(self, budget: int) -> None:
        self.line(f"if {self.condition(2)}:")
        with self.inner():
            self.block(max(1, budget // 2))
            first = self.names
        if self.chance(0.3):
            self.line(f"elif {self.condition(1)}:")
            with self.inner():
                self.block(max(1, budget // 2))
                first.floats = [f for f in first.floats if f in self.names.floats]
        if self.chance(0.6):
            self.line("else:")
            with self.inner():
                self.block(max(1, budget // 2))
                second = self.names
            self.names.floats = [f for f in first.floats if f in second.floats]


@dataclass
class RandomModule:
    """A module's text; ``parameters`` are the letters of ``main``'s. single: whether its arrays are of float32."""

    text: str
    parameters: str
    single: bool

    @classmethod
    def of(cls, seed: int) -> RandomModule:
        """The module of a seed."""
        rng = random.Random(seed)
        single = rng.random() < 0.06
        texts, helpers = [], []
        for k in range(rng.choice((0, 0, 1, 1, 2))):
            parameters, results = rng.choice(
                (("ff", "f"), ("vf", "f"), ("vfi", "f"), ("ffi", "ff"), ("Of", ""), ("Ovf", ""))
            )
            texts.append(
                RandomFunction(rng, helpers[:1], rng.randint(2, 6)).function(f"helper{k}", parameters, results)
            )
            helpers.append(Helper(f"helper{k}", parameters, results))
        parameters = "".join(rng.choice(part) for part in (
            ("f", "ff", "fff"), ("i", "ii", ""), ("", "", "b"), ("v", "vv", "vvv"), ("", "M", "M", "MM"), ("", "", "p"),
            ("", "", "", "O"),
        ))  # fmt: skip
        if "M" in parameters:
            parameters += rng.choice(("", "", "w", "Q"))
        results = rng.choice(
            ("f", "f", "ff", "v", "fv", "fvf", "vv", "fi", "fb", "" if set("OQ") & set(parameters) else "f")
        )
        if "M" in parameters and rng.random() < 0.15:
            results += "M"
        dtype = ", np.float32" if single else ""
        main = RandomFunction(rng, helpers, rng.randint(3, 16), dtype)
        texts.append(main.function("main", parameters, results))
        return cls("import math\n\nimport numpy as np\n\n\n" + "\n\n".join(texts), parameters, single)

    @classmethod
    def of_neighbours(cls, seed: int) -> RandomModule:
        """One of nothing but loops over neighbours."""
        rng = random.Random(f"neighbours {seed}")
        function = RandomFunction(rng, [], 0)
        function.block = lambda budget, top=False: function.some_neighbours()  # type: ignore[method-assign]
        parameters = rng.choice(("fv", "ffv", "fvM", "fvv"))
        text = function.function("main", parameters, rng.choice(("f", "fv", "fvv")))
        return cls(f"import math\n\nimport numpy as np\n\n\n{text}", parameters, False)

    def arguments(self, seed: int) -> list[Any]:
        """Arguments of random sizes."""
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(1, 7)), int(rng.integers(1, 4))
        shapes = {"v": (n,), "w": (m,), "M": (m, n), "O": (n,), "Q": (m, n)}
        found: list[Any] = []
        for letter in self.parameters:
            if letter == "f":
                found.append(float(rng.uniform(-1.5, 1.5)))
            elif letter == "i":
                found.append(int(rng.integers(-1, 4)))
            elif letter == "b":
                found.append(bool(rng.integers(0, 2)))
            elif letter == "p":
                found.append(rng.integers(0, n, n))
            else:
                found.append(rng.uniform(-1.5, 1.5, shapes[letter]).astype(np.float32 if self.single else np.float64))
        return found
