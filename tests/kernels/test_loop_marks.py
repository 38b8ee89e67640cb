"""Loops whose marks tell LLVM how to make vectors of them."""

from __future__ import annotations

import numpy as np
import pytest

from jitgrad.kernels import pipeline
from jitgrad.kernels.compiler import compile_text

TEXT = """
def {name}(a, b, c, d, e):
    for i in range(a.shape[0] - 1, -1, -1):
        for j in range(a.shape[1]):{mark}
            x = a[i, j]
            b[i, j] += x
            c[i, j] -= x
            d[i, j] = x * 2.0
            e[i, j] += d[i, j]
"""


def code(name: str, mark: str) -> str:
    """The function's code in LLVM's language, after a call has been compared with NumPy."""
    function = compile_text(name, TEXT.format(name=name, mark=mark))
    a, *more = np.random.default_rng(0).normal(size=(5, 7, 11))
    b, c, d, e = (m.copy() for m in more)
    function(a, b, c, d, e)
    for found, wanted in zip((b, c, d, e), (more[0] + a, more[1] - a, 2 * a, more[3] + 2 * a), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    return next(iter(function.dispatcher.inspect_llvm().values()))


@pytest.mark.skipif(pipeline.KernelPipeline.__name__ != "KernelPipeline", reason="Numba's own stages")
def test_no_comparison_of_addresses(monkeypatch, tmp_path):
    """Vectors without a look at whether arrays overlap; the same loop without the mark has one."""
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))  # what is loaded from disk is machine code alone
    assert "icmp ult ptr" in code("unmarked", "")
    marked = code("marked", "  # in any order")
    assert "vector.body" in marked
    assert "icmp ult ptr" not in marked


COPY = """
def {name}(x, out):
    for i in range(x.size):{mark}
        out[i] = x[i]
"""


@pytest.mark.skipif(pipeline.KernelPipeline.__name__ != "KernelPipeline", reason="Numba's own stages")
def test_one_vector_at_a_time(monkeypatch, tmp_path):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    stores = []
    for name, mark in (("several", ""), ("one", "  # one vector at a time")):
        function, x = compile_text(name, COPY.format(name=name, mark=mark)), np.arange(99, dtype=np.float32)
        out = np.zeros_like(x)
        function(x, out)
        assert out.tolist() == x.tolist()
        stores.append(next(iter(function.dispatcher.inspect_llvm().values())).count("store <"))
    assert stores[0] > stores[1] == 1
