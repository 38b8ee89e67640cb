"""``jitgrad.compile``: a step's time against the eager one, its program, and what recording costs.

``compare.py compile`` puts torch.compile and jax.jit beside it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jitgrad

from .problem import compiled
from .rounds import take_turns
from .steps import PROBLEMS

FEW = slice(None, 2 if os.environ.get("JITGRAD_FEW_BENCHMARKS") else None)
SMALL = tuple(name for name in PROBLEMS if "4M" not in name)
DEEP = next(name for name in PROBLEMS if name.startswith("12 x"))
MLP = "MLP 64-128-10, batch 32, Adam"
# Calls until the optimiser has its state and all recordings are made.
FIRST = 3
FIRST_CALLS = """
import sys, time
sys.path.insert(0, {folder!r})
import jitgrad
from benchmarks.problem import compiled
from benchmarks.steps import PROBLEMS
made = {made}
start = time.perf_counter()
for _ in range({count}):
    made.step()
print(time.perf_counter() - start)
"""


def recorded(name):
    """The problem, its step compiled, after calls that record it."""
    problem = compiled(jitgrad, PROBLEMS[name])
    for _ in range(FIRST):
        problem.step()
    return problem.step


class Compiled:
    """A step beside the same one in eager mode, and the program that it has become."""

    params = [SMALL[FEW]]
    param_names = ["step"]
    timeout = 120

    def track_ratio(self, name):
        works = {"eager": PROBLEMS[name](jitgrad).step, "compiled": recorded(name)}
        times = take_turns(works, 1.0)
        return times["compiled"].fastest / times["eager"].fastest

    track_ratio.unit = "compiled / eager"

    def track_launches(self, name):
        return recorded(name).explain().recordings[0].launches

    track_launches.unit = "launches of a run"

    def track_bytes_planned(self, name):
        return recorded(name).explain().recordings[0].bytes_planned

    track_bytes_planned.unit = "bytes of temporaries"


class Recording:
    """A call that records, beyond an eager one, with all kernels in memory."""

    params = [(MLP, DEEP)]
    param_names = ["step"]
    timeout = 120
    unit = "seconds"

    def track_seconds(self, name):
        eager, step = PROBLEMS[name](jitgrad).step, recorded(name)

        def record():
            step.forget()
            step()

        times = take_turns({"eager": eager, "recorded": record}, 2.0)
        return times["recorded"].fastest - times["eager"].fastest


def first_calls(made, folder):
    """Seconds of the first calls of a step in a fresh process, whose kernel cache is ``folder``."""
    code = FIRST_CALLS.format(folder=str(Path(__file__).parents[1]), made=made, count=FIRST)
    environment = {**os.environ, "JITGRAD_CACHE_DIR": folder}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def above_eager(name, folders):
    """Seconds of the first calls of a compiled step, beyond those of an eager one; the fastest of some processes.

    folders: for each round a function that returns the folder of its kernel cache.
    """
    eager, step = [], []
    for folder in folders:
        eager.append(first_calls(f"PROBLEMS[{name!r}](jitgrad)", folder()))
        step.append(first_calls(f"compiled(jitgrad, PROBLEMS[{name!r}])", folder()))
    return min(step) - min(eager)


class FirstCalls:
    """The first calls of a compiled perceptron in a fresh process, beyond those of an eager one."""

    timeout = 300
    unit = "seconds"

    def track_cold(self):
        with tempfile.TemporaryDirectory() as empty:
            return above_eager(MLP, [lambda: tempfile.mkdtemp(dir=empty)])

    def track_warm(self):
        with tempfile.TemporaryDirectory() as folder:
            return above_eager(MLP, ([lambda: folder] * 4)[FEW])
