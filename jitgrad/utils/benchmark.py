"""``torch.utils.benchmark``: ``Timer`` measures a statement, and ``Measurement`` says how long it took."""

from __future__ import annotations

import statistics
import timeit
from typing import Any

import jitgrad
from jitgrad.core.absent import absent_names

__all__ = ["Measurement", "Timer"]

_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


class Measurement:
    """Times of repeated runs. ``times`` are seconds a run, ``mean``, ``median`` and ``iqr`` are of them."""

    def __init__(self, number_per_run: int, raw_times: list[float], task: str, num_threads: int):
        self.number_per_run, self.raw_times, self.num_threads = number_per_run, raw_times, num_threads
        self.title = task

    @property
    def times(self) -> list[float]:
        """Seconds a run of the statement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        """Their median."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance of their quartiles; 0 for a single one."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4)
        return high - low

    def __repr__(self) -> str:
        scale, unit = next((s, u) for s, u in reversed(_UNITS) if self.median >= s or s == _UNITS[0][0])
        runs = f"{len(self.raw_times)} measurement{'s' if len(self.raw_times) > 1 else ''}, {self.number_per_run} runs"
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        return f"<{type(self).__name__} object>\n{self.title}\n  {self.median / scale:.2f} {unit}\n  {runs} , {threads}"


class Timer:
    """Measures ``stmt`` after ``setup``, both text, with names of ``globals``; on ``num_threads`` threads."""

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = None,
                 globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
                 description: str | None = None, env: str | None = None, num_threads: int = 1,
                 language: Any = None):  # fmt: skip
        names = {"torch": jitgrad, **(globals or {})}
        clock = timeit.default_timer if timer is None else timer
        self._timer = timeit.Timer(stmt, setup, clock, names)
        self._title = ": ".join(filter(None, (label or stmt, sub_label, description)))
        self._threads = num_threads

    def _run(self, number: int) -> float:
        before = jitgrad.get_num_threads()
        jitgrad.set_num_threads(self._threads)
        try:
            return self._timer.timeit(number)
        finally:
            jitgrad.set_num_threads(before)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._title, self._threads)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of ``number`` runs, after a hundredth of them that does not count."""
        self._run(max(number // 100, 2))
        return self._measured(number, [self._run(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> Measurement:
        """``repeat`` measurements of ``number`` runs."""
        return self._measured(number, [self._run(number) for _ in range(repeat)])

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Measurements of as many runs each as take a thousandth of ``min_run_time``, until this has passed."""
        number = 1
        self._run(10)  # kernels are compiled, and nothing is measured
        while self._run(number) < min_run_time / 1000:
            number *= 10
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return self._measured(number, times)

    adaptive_autorange = blocked_autorange


absent_names(__name__, "CallgrindStats Compare Fuzzer FuzzedTensor", "only Timer and Measurement are here")
