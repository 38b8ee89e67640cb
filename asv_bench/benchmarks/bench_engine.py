"""The recorder and its engine: graphs of small ops, forward and backward."""

import jitgrad

from .rounds import AgainstTorch, ratio_to_torch
from .workloads import chain, lattice, pearlmutter, wide

# name: (workload, its size, nodes that it makes)
GRAPHS = {
    "chain of 50": (chain, 50, 50),
    "wide, 10 000": (wide, 10_000, 10_002),
    "pearlmutter, 5 000": (pearlmutter, 5_000, 10_000),
    "lattice, 500 deep": (lattice, 500, 1_003),
    "chain of 100 000": (chain, 100_000, 100_000),
}


class Graph:
    params = [tuple(GRAPHS)]
    param_names = ["graph"]
    timeout = 120

    def setup(self, name):
        make, size, _ = GRAPHS[name]
        make(jitgrad, min(size, 50))()  # compile on a small one
        self.work = make(jitgrad, size)

    def time_forward_and_backward(self, name):
        self.work()


class GraphAgainstTorch(AgainstTorch):
    params = [tuple(GRAPHS)]
    param_names = ["graph"]

    def track_ratio(self, name):
        make, size, _ = GRAPHS[name]
        return ratio_to_torch(lambda engine: make(engine, size))
