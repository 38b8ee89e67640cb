"""Run every benchmark once, all of them in this process: whether they run at all, as continuous integration asks.

`asv run --quick` tells the same, but starts a process for each and its arguments, which takes far longer.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from pathlib import Path
from typing import Any

from asv_runner.discovery import disc_benchmarks, update_sys_path

QUICK = {"number": 1, "repeat": 1, "min_run_count": 1, "rounds": 1, "warmup_time": 0}  # as --quick has it


def run(benchmark: Any) -> int:
    """Run a benchmark with all of its arguments; how often that was."""
    benchmark.set_cache(benchmark.do_setup_cache() if benchmark.setup_cache_key else None)
    count = math.prod(map(len, benchmark.params))
    for k in range(count):
        if benchmark.params:
            benchmark.set_param_idx(k)
        if not benchmark.do_setup():  # reads how often to run, so that is set after it
            for name, value in QUICK.items():
                setattr(benchmark, name, value)
            benchmark.do_run()
        benchmark.do_teardown()
    return count


def main() -> None:
    folder = Path(__file__).resolve().parent / "benchmarks"
    update_sys_path(str(folder))
    # Benchmarks keep kernels of their own in the current folder.
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        for benchmark in disc_benchmarks(str(folder)):
            print(f"{benchmark.name}: {run(benchmark)}", flush=True)


if __name__ == "__main__":
    main()
