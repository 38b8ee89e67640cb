"""``torch.utils.benchmark``: what a Timer hands out."""

import pytest

import jitgrad as torch
from jitgrad.utils import benchmark


def test_timer():
    ticks = iter(range(10000))
    timer = benchmark.Timer("x + y", setup="y = 2", globals={"x": torch.ones(2)}, timer=lambda: next(ticks) * 1e-3)
    found = timer.timeit(10)
    assert found.number_per_run == 10 and found.mean == found.median == pytest.approx(1e-4) and found.iqr == 0
    assert repr(found) == "<Measurement object>\nx + y\n  100.00 us\n  1 measurement, 10 runs , 1 thread"
    seen = []
    found = timer.blocked_autorange(lambda number, seconds: seen.append(number), min_run_time=0.005)
    assert len(found.times) == len(seen) == 5 and set(seen) == {found.number_per_run}
    assert len(timer.repeat(3, 2).times) == 3


def test_threads_and_names():
    threads = []
    benchmark.Timer("note()", globals={"note": lambda: threads.append(torch.get_num_threads())}).timeit(1)
    assert set(threads) == {1}
    found = benchmark.Timer("torch.ones(1)", label="fill", sub_label="small", description="here").timeit(2)
    assert found.title == "fill: small: here"
    with pytest.raises(NotImplementedError, match="not in jitgrad"):
        benchmark.Compare([])
