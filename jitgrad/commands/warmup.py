"""warmup: compile kernels now, so that later processes load them from disk.

``warmup`` compiles those of all ops, of training a small network and of the demo; ``warmup_like`` those of one script,
by running it: every kernel that it uses is compiled, or already on disk, when it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

import jitgrad
from jitgrad import nn, optim
from jitgrad.commands import demo
from jitgrad.dispatch.registry import OPS
from jitgrad.kernels.statistics import statistics
from jitgrad.testing import op_samples

__all__ = ["Used", "warmup", "warmup_like"]


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, jitgrad.Tensor):
            yield value


def _run_op(name: str, dtype: Any) -> None:
    """Run forward and backward on the op's samples; samples that the op refuses for this dtype are skipped."""
    for function, args, kwargs in op_samples(name, dtype):
        try:
            for x in _tensors([*args, *kwargs.values()]):
                x.requires_grad_(x.dtype.is_floating_point or x.dtype.is_complex)
            out = function(*args, **kwargs)
            roots = [o for o in _tensors([out]) if o.requires_grad]
            if roots:
                jitgrad.autograd.backward(roots, [jitgrad.ones_like(r) for r in roots])
        except (RuntimeError, TypeError, IndexError, NotImplementedError):
            continue


def _run_training(dtype: Any) -> None:
    """Training steps of a small network with every optimiser."""
    for kind in (optim.SGD, optim.Adam, optim.AdamW):
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(dtype)
        optimizer = kind(model.parameters(), lr=1e-3)
        for _ in range(2):
            loss = nn.functional.cross_entropy(model(jitgrad.randn(6, 8, dtype=dtype)), jitgrad.arange(6) % 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def _run_demo() -> None:
    demo.train(epochs=1, quiet=True)


# -- all ops, in any number of processes ------------------------------------------------------------------

# A function of this file and its arguments: pickle can send it to a process.
Task = tuple[Callable[..., None], tuple[Any, ...]]


def _tasks(dtypes: Sequence[Any]) -> list[Task]:
    """What to run, the longest first, so that no process is left with it at the end."""
    training: list[Task] = [(_run_demo, ()), *((_run_training, (dtype,)) for dtype in dtypes)]
    return [*training, *((_run_op, (name, dtype)) for dtype in dtypes for name in sorted(OPS))]


def _compiled_by(task: Task) -> int:
    """Run a task; how many kernels this process compiled for it."""
    function, arguments = task
    before = statistics.compiled
    # A program that warms up draws the same random numbers afterwards.
    with jitgrad.random.fork_rng(), jitgrad.enable_grad():
        function(*arguments)
    return statistics.compiled - before


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_processes(tasks: list[Task], processes: int) -> Iterator[int]:
    """``_compiled_by`` of all tasks. Threads would compile one after the other: Numba's compiler has one lock."""
    # Spawned: a forked child could inherit a lock that another thread holds.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=_leave_interrupts_to_the_parent)
    try:
        yield from pool.map(_compiled_by, tasks)
    finally:
        pool.shutdown(cancel_futures=True)


def warmup(dtypes: Sequence[Any] | None = None, quiet: bool = False, processes: int = 1) -> int:
    """Compile the kernels of every op, forward and backward, of training a small network, and of the demo.

    dtypes: float32 alone by default. processes: how many compile at the same time; a script that asks for several needs
    ``if __name__ == "__main__":``, as for all of ``multiprocessing``. Returns how many kernels were compiled; those on
    disk are not compiled again.
    """
    tasks = _tasks(dtypes or (jitgrad.float32,))
    counts = map(_compiled_by, tasks) if processes == 1 else _in_processes(tasks, processes)
    return sum(counts if quiet else _shown(counts, len(tasks)))


def _shown(counts: Iterable[int], total: int) -> Iterator[int]:
    """The counts, with a bar on a terminal that moves with them; elsewhere a line for each tenth of ``total``."""
    if sys.stderr.isatty():
        yield from tqdm(counts, desc="warming up", total=total, unit="op", dynamic_ncols=True)
        return
    compiled = 0
    for done, count in enumerate(counts, 1):
        compiled += count
        if done * 10 // total > (done - 1) * 10 // total:
            print(f"warming up: {done} of {total} ops, {compiled} kernels compiled", file=sys.stderr, flush=True)
        yield count


# -- the kernels of a script ------------------------------------------------------------------------------


class Used(NamedTuple):
    """The kernels that a run used: those that were compiled, those that were on disk; and its exit status."""

    compiled: int
    loaded: int
    status: int


def warmup_like(script: str, arguments: Sequence[str] = ()) -> Used:
    """Run a script as ``python script arguments`` does, so that the kernels it uses are compiled and on disk.

    They stay there when the script fails or is interrupted, too. An exception of the script's goes on to the caller.
    """
    before = statistics.compiled, statistics.loaded
    argv, path = sys.argv, sys.path
    sys.argv, sys.path = [script, *arguments], [str(Path(script).resolve().parent), *path]
    status: Any = 0
    try:
        runpy.run_path(os.path.abspath(script), run_name="__main__")
    except SystemExit as stop:
        status = stop.code
    finally:
        sys.argv, sys.path = argv, path
    if isinstance(status, str):  # sys.exit("why") prints the text and ends with 1
        print(status, file=sys.stderr)
        status = 1
    return Used(statistics.compiled - before[0], statistics.loaded - before[1], status or 0)
