"""Elements that lie apart are read and written without gathers and scatters."""

import numpy as np
import pytest

from jitgrad.kernels import pipeline
from jitgrad.kernels.compiler import compile_text

TEXT = """
def every_other(x, indices, y):
    for k in range(y.size // 2):
        y[2 * k] += x[2 * k] * x[indices[k]]
"""


@pytest.mark.skipif(pipeline.KernelPipeline.__name__ != "KernelPipeline", reason="Numba's own stages")
def test_no_gathers(monkeypatch, tmp_path):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))  # what is loaded from disk is machine code alone
    function = compile_text("every_other", TEXT)
    x, indices, y = np.arange(100.0), np.arange(50)[::-1].copy(), np.ones(100)
    function(x, indices, y)
    wanted = np.ones(100)
    wanted[::2] += x[::2] * x[indices]
    np.testing.assert_array_equal(y, wanted)
    assembly = next(iter(function.dispatcher.inspect_asm().values()))
    assert "vgather" not in assembly and "vscatter" not in assembly
