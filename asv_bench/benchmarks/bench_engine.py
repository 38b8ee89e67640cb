"""The recorder and its engine: graphs of small ops, forward and backward."""

import time

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch
from .workloads import chain, lattice, pearlmutter, wide

GRAPHS = {
    "chain of 50": (chain, 50),
    "wide, 100 000": (wide, 100_000),
    "pearlmutter, 5 000": (pearlmutter, 5_000),
    "lattice, 500 deep": (lattice, 500),
}
LONG = 1_000_000


class Graph:
    params = [tuple(GRAPHS)]
    param_names = ["graph"]
    timeout = 120

    def setup(self, name):
        make, size = GRAPHS[name]
        make(jitgrad, min(size, 50))()  # compile on a small one
        self.work = make(jitgrad, size)

    def time_forward_and_backward(self, name):
        self.work()


class LongChain:
    """What a node of a long graph costs: built, run backward, freed."""

    unit = "us a node"
    timeout = 120

    def setup(self):
        chain(jitgrad, 50)()
        self.work = chain(jitgrad, LONG)

    def track_node(self):
        start = time.perf_counter()
        self.work()
        return (time.perf_counter() - start) / LONG * 1e6


class GraphAgainstTorch(AgainstTorch):
    params = [("chain of 50", "wide, 100 000", "lattice, 500 deep")]
    param_names = ["graph"]

    def track_ratio(self, name):
        make, size = GRAPHS[name]
        return ratio_to_torch(lambda engine: make(engine, min(size, 1_000)))
