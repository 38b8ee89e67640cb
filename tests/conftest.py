"""How many processes the tests use, and what Python's collector looks at in them."""

import gc
import os
import sys

os.environ.setdefault("JITGRAD_COMPILE_AHEAD", "0")  # the other cores run tests

import jitgrad
from jitgrad.dispatch.registry import publish_rest
from jitgrad.kernels.cuda.driver import SIMULATED

publish_rest()  # tests of every op are tests of those that are imported late, too

jitgrad.set_warn_always(True)  # else what is warned of once depends on the tests before

if SIMULATED:
    # Numba's simulator starts a Python thread for each of CUDA's and polls whether they have ended. Each wait for
    # Python's lock takes a switch interval, 5 ms by default: two thirds of the tests' time.
    sys.setswitchinterval(1e-4)

MOST_PROCESSES = 4  # each one compiles: more of them cost memory and gain little


def pytest_xdist_auto_num_workers(config):
    """All of the suite on all cores; tests chosen by path in this process, where pdb works."""
    chosen = config.invocation_params.args
    if any(str(arg).startswith("tests") or "::" in str(arg) for arg in chosen):
        return 0
    return min(os.cpu_count() or 1, MOST_PROCESSES)


def pytest_collection_finish(session):
    """Leave the tests themselves out of collections: ten thousand of them make a full one take most of a second."""
    gc.collect()
    gc.freeze()
