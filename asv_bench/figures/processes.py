"""Figures of fresh processes: the import, the first gradient, a long graph's memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from benchmarks.bench_import import FIRST_GRADIENT
from benchmarks.rounds import Times

from .table import Figure

__all__ = ["PROCESSES"]

TIMED = """
import time
start = time.perf_counter()
{code}
print(time.perf_counter() - start)
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


def in_child(code: str, cache: str | None = None) -> str:
    """Run ``code`` in a fresh interpreter; return what it printed."""
    environment = {**os.environ, **({"JITGRAD_CACHE_DIR": cache} if cache else {})}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a package that pip installs has its bytecode
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def seconds_in_child(code: str, cache: str | None = None) -> float:
    """Seconds that ``code`` took in a fresh interpreter, whose own start is not counted."""
    return float(in_child(TIMED.format(code=code), cache).splitlines()[-1])


def in_fresh_processes(works: dict[str, tuple[str, str | None]], rounds: int) -> dict[str, Times]:
    """Time (code, cache folder) pairs in turn, a process for each sample."""
    samples: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, (code, cache) in works.items():
            samples[name].append(seconds_in_child(code, cache))
    # The first round wrote bytecode and filled the system's file cache.
    return {name: Times(min(s[1:]), statistics.median(s[1:])) for name, s in samples.items()}


def imports() -> None:
    """``import jitgrad`` beside ``import torch``, and what it rests on."""
    names = ["jitgrad", "numba", *(n for n in ("torch", "jax") if find_spec(n))]
    times = in_fresh_processes({n: (f"import {n}", None) for n in names}, 8)
    figure = Figure("import in a fresh process", unit="s", limit=0.5)
    figure.add("import", times)
    figure.show()
    others = Figure("beside others", [n for n in names if n not in ("jitgrad", "torch")], unit="s")
    others.add("import", times)
    others.show()


def gradient() -> None:
    """Import, model, forward and backward in a fresh process: kernels from disk, and compiled."""
    ours, theirs = (FIRST_GRADIENT.format(engine=e) for e in ("jitgrad", "torch"))
    with tempfile.TemporaryDirectory() as folder:
        seconds_in_child(ours, folder)
        works = {"jitgrad": (ours, folder), **({"torch": (theirs, None)} if find_spec("torch") else {})}
        warm = in_fresh_processes(works, 5)
    samples = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as empty:
            samples.append(seconds_in_child(ours, empty))
    cold = {**warm, "jitgrad": Times(min(samples), statistics.median(samples))}
    figure = Figure("first gradient of an MLP, import included (wanted: warm under 1 s, cold under 6 s)", unit="s")
    figure.add("kernels from disk", warm)
    figure.add("kernels compiled", cold)
    figure.show()


def memory() -> None:
    """A chain of a million ops: built, run backward, freed; resident memory around it (Linux)."""
    print("\na chain of 1 000 000 multiplications runs backward and is freed")
    print(in_child(LONG_CHAIN.format(engine="jitgrad", turns=2)))
    if find_spec("torch"):
        print(in_child(LONG_CHAIN.format(engine="torch", turns=1)))


PROCESSES = {"import": imports, "gradient": gradient, "memory": memory}
