"""Long loops with a given number of states: which iterations to keep them at, so that fewest are run again.

With room for k states a loop of n iterations is reversed one iteration at a time. The sweep runs on from the latest
state to the iteration whose turn it is, and keeps states on the way in the room that is free again. The schedule is
that of "revolve": A. Griewank and A. Walther, Algorithm 799: Revolve, ACM Transactions on Mathematical Software 26
(2000) 19-45. With the binomial coefficient beta(k, r) = (k + r over r), no schedule runs an iteration more than r
times where l <= beta(k, r), and none runs fewer than

    r l - beta(k + 1, r - 1)    for the least such r

iterations to reverse l of them. Here l = n + 1: what follows the loop is the last iteration, since the forward sweep
runs past the loop. Each iteration is run once more, with what its reverse needs, when its turn comes.
"""

from __future__ import annotations

from jitgrad.kernels.adjoint.checkpoint import Stretches, indented
from jitgrad.kernels.adjoint.write import statement_lines

__all__ = ["Binomial"]


class Binomial(Stretches):
    """The two sweeps over one long loop that keeps ``number`` states."""

    def forward(self) -> list[str]:
        """The loop as it stands, up to each state that is kept."""
        first, trips = self.first, self.trips
        rows = f"min({self.number}, {trips})"
        lines = [f"{trips} = len({self.range()})", *self.rooms(rows), f"{self.at} = np.empty({rows}, np.int64)"]
        ahead = f"steps_ahead({trips} + 1 - {first}, {self.number} - {self.latest})"
        return [*lines, f"{self.latest} = -1", f"{first} = 0", f"while {first} < {trips}:", *indented(
            [*self._keep(), f"{self.length} = {ahead}", *self._run()])]  # fmt: skip

    def reverse(self, again: list[str], backwards: list[str]) -> list[str]:
        """See ``Stretches.reverse``."""
        first, latest, turn = self.first, self.latest, self.number_of
        ahead = f"steps_ahead({turn} + 1 - {first}, {self.number} - {latest})"
        keep = [f"if {first} < {turn}:", *indented(self._keep())]
        lines = [f"{first} = {self.at}[{latest}]", *self.restored(latest)]
        lines += [f"while {first} < {turn}:", *indented([f"{self.length} = {ahead}", *self._run(), *keep])]
        lines += [self.head(turn, f"{turn} + 1"), *indented(again), self.index(turn), *backwards]
        lines += [f"if {self.at}[{latest}] == {turn}:", f"    {latest} -= 1"]
        return [*self.entry(), f"for {turn} in range({self.trips} - 1, -1, -1):", *indented(lines)]

    def changed(self) -> list[str]:
        """The arrays that hold states and that the reverse sweep writes into."""
        return [self.at, *self.states.values()]

    def _keep(self) -> list[str]:
        states = [f"{state}[{self.latest}] = {n}" for n, state in self.states.items()]
        return [f"{self.latest} += 1", f"{self.at}[{self.latest}] = {self.first}", *states]

    def _run(self) -> list[str]:
        """Run the next iterations."""
        body = statement_lines(self.origin.body, self.values.program.kinds)
        return [self.head(self.first, f"{self.first} + {self.length}"), *indented(body),
                f"{self.first} += {self.length}"]  # fmt: skip
