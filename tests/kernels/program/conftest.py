"""Launches recorded, and compared with what passes make of them."""

import math
from contextlib import contextmanager

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.kernels.launch import observers
from jitgrad.kernels.program import Builder, Launch, Place, fused_kernel, fusion, improved, row_blocks
from jitgrad.kernels.program.addresses import extent_of


@contextmanager
def recording():
    launches = []
    observer = lambda kernel, args, seconds: launches.append(Launch(kernel, args, []))
    observers.append(observer)
    try:
        yield launches
    finally:
        observers.remove(observer)


def _root(a):
    while isinstance(a.base, np.ndarray):
        a = a.base
    return a


def _run(launches, compiled):
    if not compiled:
        for kernel, args, _ in launches:
            kernel.call(*args)
        return
    builder = Builder(lambda a: Place(None, a.__array_interface__["data"][0]))
    for kernel, args, _ in launches:
        builder.launch(kernel, args)
    program = builder.finish()
    program.run()


def compare(launches, before, kept, passes=None, exact=False, compiled=False):
    """Improved launches leave in ``kept`` what the launches do that ran from the state ``before``; returns them.

    before: pairs (array, its numbers before the launches). compiled: whether they are run as a program.
    """
    for a, numbers in before:
        a[...] = numbers
    _run(launches, False)
    want = [np.array(a) for a in kept]
    extents = [extent_of(a) for a in kept]
    needed = lambda low, high: any(a < high and low < b for a, b in extents)
    made = improved([launches], needed, passes)[0]
    outside = {id(_root(a)) for a, _ in before}
    written = [_root(m.args[w]) for m in launches for w in m.kernel.writes]
    for a in written:
        if id(a) not in outside and a.dtype.kind == "f":
            a[...] = np.nan  # what isn't computed anew shows
    for a, numbers in before:
        a[...] = numbers
    _run(made, compiled)
    # A number of float64 may come of sums of float32, which passes put in another order.
    single = any(a.dtype.itemsize == 4 for a in (*kept, *(b for b, _ in before)))
    for a, w in zip(kept, want, strict=True):
        if exact or a.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, w)
        else:
            np.testing.assert_allclose(a, w, rtol=2e-5 if single else 1e-12, atol=1e-5)
    return made


@pytest.fixture
def recorded():
    return recording


@pytest.fixture
def check():
    return compare


@pytest.fixture
def one_thread():
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)


@pytest.fixture
def any_size(monkeypatch):
    """Launches of any size are put together."""
    monkeypatch.setattr(fusion, "FUSED_SIZE", 0)
    monkeypatch.setattr(fusion, "_ROW_SIZE", 1)
    monkeypatch.setattr(fusion, "_BROADCAST_SIZE", 1)
    monkeypatch.setattr(row_blocks, "BLOCKED_BYTES", 0)
    monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 64)


@pytest.fixture
def in_python(monkeypatch, one_thread, any_size):
    """Fused loops are run by Python: nothing is compiled."""

    def run(name, text, **options):
        scope = {"np": np, "math": math, "njit": lambda **given: lambda f: f, "scratch": lambda n, t: np.empty(n, t)}
        exec(text, scope)

        def quiet(*args):
            with np.errstate(all="ignore"):
                scope[name](*args)

        quiet.text_file = ""
        return quiet

    monkeypatch.setattr(fused_kernel, "compile_text", run)
    monkeypatch.setattr(fused_kernel, "_kernels", {})
