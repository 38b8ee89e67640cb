"""Fair timing on a machine that has other things to do: everybody takes turns.

One contender after the other runs for some milliseconds, round after round, so that a busy
neighbour or a cold core hits all of them. The fastest sample says what the code costs, the
median what this machine made of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = [
    "AgainstTorch", "Times", "calls_in", "in_turn", "mean_of", "optional", "ratio_to_torch", "seconds_of_work",
    "take_single_turns", "take_turns", "threads",
]  # fmt: skip

Work = Callable[[], Any]


@dataclass(frozen=True)
class Times:
    """Seconds of one call: the fastest sample, and the median over the rounds."""

    fastest: float
    median: float


def take_turns(works: Mapping[str, Work], seconds: float = 1.5, sample: float = 0.003) -> dict[str, Times]:
    """Time all ``works`` in turn for ``seconds`` together, each turn about ``sample`` seconds long."""
    counts = {name: calls_in(work, sample) for name, work in works.items()}
    samples: dict[str, list[float]] = {name: [] for name in works}
    order, end = list(works), time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples[order[0]]) < 3:
        for name in order:
            works[name]()  # not counted: it waits out the predecessor's spinning threads
            samples[name].append(mean_of(works[name], counts[name]))
        order = order[1:] + order[:1]  # nobody always follows the same neighbour
    return {name: Times(min(s), statistics.median(s)) for name, s in samples.items()}


def take_single_turns(works: Mapping[str, Work], rounds: int = 3) -> dict[str, Times]:
    """Time ``works`` that take seconds: one call a turn, ``rounds`` turns, nothing to warm up."""
    samples: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            samples[name].append(mean_of(work, 1))
    return {name: Times(min(s), statistics.median(s)) for name, s in samples.items()}


def mean_of(work: Work, count: int) -> float:
    """Seconds of a call, over ``count`` calls."""
    turns = range(count)
    start = time.perf_counter()
    for _ in turns:
        work()
    return (time.perf_counter() - start) / count


def calls_in(work: Work, sample: float) -> int:
    """How many calls fill ``sample`` seconds; also warms up: the first call may compile."""
    work()
    work()
    count = 1
    while (mean := mean_of(work, count)) * count < sample / 4:
        count *= 4
    return max(1, round(sample / mean))


def optional(name: str) -> Any:
    """The module ``name``, or None where it is not installed."""
    with suppress(ImportError):
        return import_module(name)
    return None


def in_turn(works: Mapping[str, Work]) -> Work:
    """All works, one after the other, as one."""
    every = tuple(works.values())

    def work() -> None:
        for one in every:
            one()

    return work


class AgainstTorch:
    """Base of the benchmarks that are ratios to torch: skipped where it is not installed."""

    unit = "jitgrad / torch"
    timeout = 120

    def setup(self, *parameters: Any) -> None:
        if not find_spec("torch"):
            raise NotImplementedError("torch is not installed")  # asv's word for "skip"


def ratio_to_torch(make: Callable[[Any], Work], seconds: float = 1.0) -> float:
    """How long ``make(jitgrad)()`` takes in units of ``make(torch)()``; below 1 is faster."""
    works = {name: make(import_module(name)) for name in ("jitgrad", "torch")}
    times = take_turns(works, seconds)
    return times["jitgrad"].fastest / times["torch"].fastest


def seconds_of_work(benchmark: Any, *parameters: Any) -> float:
    """The method of benchmarks whose ``setup`` leaves one call in ``work``: seconds of the fastest sample, warmed up.

    asv's own timing runs ``setup`` before each single call, and with ``--quick`` makes only one, so it shows first uses
    and cold caches: 130 us for a call that takes 7.
    """
    return take_turns({"work": benchmark.work}, 0.1)["work"].fastest


# asv reads these from the function. Long, since the first call may compile.
seconds_of_work.unit, seconds_of_work.timeout = "seconds", 120  # type: ignore[attr-defined]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Give ``count`` threads to jitgrad, to torch where it is installed, and to NumPy's BLAS."""
    engines = [e for e in (optional("jitgrad"), optional("torch")) if e]
    before = [e.get_num_threads() for e in engines]
    control = optional("threadpoolctl")
    limits = control.threadpool_limits(count, user_api="blas") if control else None
    for engine in engines:
        engine.set_num_threads(count)
    try:
        yield
    finally:
        for engine, number in zip(engines, before, strict=True):
            engine.set_num_threads(number)
        if limits:
            limits.restore_original_limits()
