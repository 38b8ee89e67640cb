"""Figures of fresh processes: the import, the first gradient, a long graph's memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.bench_import import FIRST_GRADIENT
from benchmarks.rounds import Times
from benchmarks.steps import PROBLEMS, STEPS

from .table import Figure

__all__ = ["PROCESSES"]

BENCH = str(Path(__file__).parents[1])

TIMED = """
import time
start, busy = time.perf_counter(), time.process_time()
{code}
print(time.perf_counter() - start, time.process_time() - busy)
"""
LONG_CHAIN = """
import ctypes, gc, os, time
import {engine} as torch

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

def run(length):
    y = x
    for _ in range(length):
        y = y * w
    peak = resident()
    y.backward(g)
    return peak

x, w = (torch.ones(16, requires_grad=True) for _ in range(2))
g = torch.ones(16)
gc.disable()  # what is freed is freed by reference counts
run(1000)
for _ in range({turns}):
    before, start = resident(), time.perf_counter()
    peak = run(1_000_000)
    seconds, after = time.perf_counter() - start, resident()
    ctypes.CDLL(None).malloc_trim(0)  # glibc keeps freed pages to itself unless told otherwise
    print(f"{engine}: {{before:.0f}} MB before, {{peak:.0f}} MB with the graph, {{after:.0f}} MB after backward, "
          f"{{resident():.0f}} MB after malloc_trim; {{seconds:.2f}} s")
"""

FIRST_OF_LOOP = """
import sys, time
import jitgrad as torch
sys.path.insert(0, {folder!r})
from loop_examples import example_arguments, soft_dtw
(torch.ones(5, requires_grad=True) * 2).sum().backward()  # what any program does first
cost, gamma = example_arguments("soft_dtw")
cost = torch.tensor(cost, requires_grad=True)
start = time.process_time()
torch.differentiable(soft_dtw)(cost, gamma).backward()
print(1000 * (time.process_time() - start))
"""
FIRST_OF_STEP = """
import sys, time
import jitgrad as torch
sys.path.insert(0, {folder!r})
from benchmarks.problem import compiled
from benchmarks.steps import PROBLEMS, STEPS
work = compiled(torch, PROBLEMS[{name!r}]) if {compiled} else STEPS[{name!r}](torch)
step = getattr(work, "step", work)
start = time.process_time()
for _ in range(3):
    step()
print(1000 * (time.process_time() - start))
"""

# /proc: writing 5 to clear_refs sets the peak (VmHWM) to what is resident now.
PEAK = """
import ctypes, gc, sys
sys.path.insert(0, {folder!r})
import {engine} as torch
from benchmarks.problem import compiled
from benchmarks.steps import PROBLEMS, STEPS

def kilobytes(field):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(field))

def made(name):
    work = compiled(torch, PROBLEMS[name]) if {compiled} else STEPS[name](torch)
    return getattr(work, "step", work)

def resident():
    gc.collect()
    getattr(torch.cpu, "empty_cache", int)()
    ctypes.CDLL(None).malloc_trim(0)
    return kilobytes("VmRSS")

step = made({name!r})
for _ in range(5):
    step()
del step  # kernels are compiled; what the tensors took is given back
if {compiled}:
    torch.compiler.reset()
before = resident()
step = made({name!r})
resident()  # what NumPy took to make the data, more than a step in some, is given back as well
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
for _ in range(5):
    step()
print((kilobytes("VmHWM") - before) / 1024)
"""


def in_child(code: str, cache: str | None = None) -> str:
    """Run ``code`` in a fresh interpreter; return what it printed."""
    environment = {**os.environ, **({"JITGRAD_CACHE_DIR": cache} if cache else {})}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a package that pip installs has its bytecode
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def seconds_in_child(code: str, cache: str | None = None) -> tuple[float, float]:
    """(elapsed, processor) seconds of ``code`` in a fresh interpreter, whose own start is not counted."""
    elapsed, busy = in_child(TIMED.format(code=code), cache).splitlines()[-1].split()
    return float(elapsed), float(busy)


Work = tuple[str, str | None]  # code, cache folder
CLOCKS = ("elapsed", "processor time")  # the second is what a machine without other work would need


def in_fresh_processes(works: dict[str, Work], rounds: int) -> dict[str, dict[str, Times]]:
    """Run the works in turn, a process for each sample; {clock: {name: times}}."""
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, work in works.items():
            samples[name].append(seconds_in_child(*work))
    # The first round wrote bytecode and filled the system's file cache.
    return {clock: {name: _times(s[1:], k) for name, s in samples.items()} for k, clock in enumerate(CLOCKS)}


def _times(samples: list[tuple[float, float]], clock: int) -> Times:
    chosen = [s[clock] for s in samples]
    return Times(min(chosen), statistics.median(chosen))


def imports() -> None:
    """``import jitgrad`` beside ``import torch``, and what it rests on."""
    names = ["jitgrad", "numba", *(n for n in ("torch", "jax") if find_spec(n))]
    measured = in_fresh_processes({n: (f"import {n}", None) for n in names}, 6)
    for peers, limit in ((["torch"], 0.5), (["numba", "jax"], None)):
        figure = Figure("import in a fresh process", peers, limit, unit="s")
        for clock in CLOCKS:
            figure.add(clock, measured[clock])
        figure.show()


def gradient() -> None:
    """Import, model, forward and backward in a fresh process: kernels from disk, and compiled."""
    ours, theirs = (FIRST_GRADIENT.format(engine=e) for e in ("jitgrad", "torch"))
    with tempfile.TemporaryDirectory() as folder:
        seconds_in_child(ours, folder)
        works: dict[str, Work] = {"jitgrad": (ours, folder)}
        if find_spec("torch"):
            works["torch"] = theirs, None
        warm = in_fresh_processes(works, 4)
    cold = [_with_empty_cache(ours) for _ in range(2)]
    wanted = "wanted: from disk under 0.6 s, compiled under 3 s"
    figure = Figure(f"first gradient of an MLP, import included ({wanted})", unit="s")
    for k, clock in enumerate(CLOCKS):
        figure.add(f"kernels from disk, {clock}", warm[clock])
        figure.add(f"kernels compiled, {clock}", {**warm[clock], "jitgrad": _times(cold, k)})
    figure.show()


def _with_empty_cache(code: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as empty:
        return seconds_in_child(code, empty)


def memory() -> None:
    """Resident memory (Linux): a chain of a million ops built, run backward and freed; peaks of steps."""
    print("\na chain of 1 000 000 multiplications runs backward and is freed")
    print(in_child(LONG_CHAIN.format(engine="jitgrad", turns=2)))
    if find_spec("torch"):
        print(in_child(LONG_CHAIN.format(engine="torch", turns=1)))
    print("\nMB that a step takes at its peak, its parameters and data included")
    for name in STEPS:
        codes = {e: _peak(e, name) for e in ("jitgrad", "torch") if find_spec(e)}
        if name in PROBLEMS:
            codes["jitgrad.compile"] = _peak("jitgrad", name, compiled=True)
        peaks = {engine: float(in_child(code)) for engine, code in codes.items()}
        print(f"{name}: " + ", ".join(f"{engine} {peak:.1f}" for engine, peak in peaks.items()))


def _peak(engine: str, name: str, compiled: bool = False) -> str:
    return PEAK.format(engine=engine, name=name, folder=BENCH, compiled=compiled)


def first() -> None:
    """First calls, kernels from disk: a loop's value and gradient, and steps compiled beside uncompiled ones."""
    examples = Path(BENCH).parent / "tests" / "extend"
    codes = {"soft-DTW, decorated, value, gradient": FIRST_OF_LOOP.format(folder=str(examples))}
    for name in [n for n in PROBLEMS if n.startswith("MLP") or "12 x" in n]:
        for compiled in (False, True):
            title = f"{name}, first three calls{', compiled' if compiled else ''}"
            codes[title] = FIRST_OF_STEP.format(folder=BENCH, name=name, compiled=compiled)
    print("\nprocessor time in ms, fastest of 4 processes (wanted: the loop 50, compiled calls 100 more than others)")
    for title, code in codes.items():
        times = [float(in_child(code)) for _ in range(5)][1:]  # in the first one kernels may be compiled
        print(f"{title}: {min(times):.0f}")


PROCESSES = {"import": imports, "gradient": gradient, "first": first, "memory": memory}
