"""The tape: what a launch waited for machine code stands apart from what its kernel took."""

import re

import numpy as np
import pytest

import jitgrad
from jitgrad.kernels.launch import launch, loop


def halve(x, out):
    for i in range(x.size):
        out[i] = x[i] / 2


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))


def launched(kernel):
    with jitgrad.debug.tape() as tape:
        launch(kernel, np.ones(3), np.empty(3))
    return tape


def test_compile_time_is_marked(empty_cache):
    kernel = loop(halve)
    tape = launched(kernel)
    (entry,) = tape
    assert entry.compiled and entry.compile_seconds > 0 < entry.seconds
    assert re.search(r"us +first use\n.*\n.*compiled in \d+\.\d ms\n1 launches, .*\nfirst uses waited", str(tape))
    assert "first use" in tape._repr_html_()
    again = launched(kernel)
    assert [(e.compile_seconds, e.wait) for e in again] == [(0.0, "")] and "first use" not in str(again)


def test_loading_from_disk_is_no_compiling(empty_cache):
    launched(loop(halve))
    (entry,) = launched(loop(halve))
    assert not entry.compiled and entry.wait.startswith("loaded from disk in ")


def test_printed_launches_say_it_too(empty_cache, capsys):
    kernel = loop(halve)
    with jitgrad.debug.dial(1):
        launch(kernel, np.ones(3), np.empty(3))
        launch(kernel, np.ones(3), np.empty(3))
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"halve +\d+\.\d us  \(compiled in \d+\.\d ms\)", first)
    assert re.fullmatch(r"halve +\d+\.\d us", second)


def test_the_profiler_shows_compiling_as_an_event_of_its_own(empty_cache):
    kernel = loop(halve)
    with jitgrad.profiler.profile() as profiler, jitgrad.profiler.record_function("block"):
        launch(kernel, np.ones(3), np.empty(3))
        launch(kernel, np.ones(3), np.empty(3))
    block, compiling, *runs = profiler.events()
    assert [e.name for e in (compiling, *runs)] == ["jitgrad::compile", "halve", "halve"]
    assert block.cpu_children == [compiling, *runs] and block.self_cpu_time_total >= 0
    assert compiling.time_range.end <= runs[0].time_range.start
