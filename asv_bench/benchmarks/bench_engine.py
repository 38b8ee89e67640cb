"""The recorder and its engine: graphs of small ops, forward and backward, by what a node costs.

With JITGRAD_FEW_BENCHMARKS set, as in CI, where a benchmark need only run, the large graphs are left out.
"""

import os
import time

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch
from .workloads import chain, lattice, pearlmutter, wide

# What builds it, its size, and how many ops that are.
GRAPHS = {
    "chain of 50": (chain, 50, 50),
    "lattice, 500 deep": (lattice, 500, 1_000),
    "chain of 1 000 000": (chain, 1_000_000, 1_000_000),
    "fan of 100 000": (wide, 100_000, 100_000),
    "pearlmutter, 5 000 deep": (pearlmutter, 5_000, 10_000),
}
FEW = slice(None, 2 if os.environ.get("JITGRAD_FEW_BENCHMARKS") else None)
LONG = 10_000  # a figure of a graph of more ops is one run, not a mean of many


class Node:
    """A graph built, run backward and freed."""

    params = [tuple(GRAPHS)[FEW]]
    param_names = ["graph"]
    unit = "us a node"
    timeout = 240

    def setup(self, name):
        make, size, ops = GRAPHS[name]
        make(jitgrad, min(size, 50))()  # compile on a small one
        self.work, self.ops = make(jitgrad, size), ops

    def track_node(self, name):
        return min(self.seconds() for _ in range(1 if self.ops > LONG else 20)) / self.ops * 1e6

    def seconds(self):
        start = time.perf_counter()
        self.work()
        return time.perf_counter() - start


class AgainstTorchOnGraphs(AgainstTorch):
    """Sizes at which a run takes less than a second; `compare.py deep` and `fan` have the large ones."""

    params = [("chain of 50", "chain of 10 000", "fan of 2 000", "lattice, 500 deep")]
    param_names = ["graph"]

    def track_ratio(self, name):
        make, size = {"chain of 10 000": (chain, 10_000), "fan of 2 000": (wide, 2_000)}.get(name) or GRAPHS[name][:2]
        return ratio_to_torch(lambda engine: make(engine, size))
