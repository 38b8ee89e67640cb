"""Loops that are to fill the widest registers."""

import numpy as np
import pytest

from jitgrad.kernels import pipeline
from jitgrad.kernels.codegen.rule_text import WIDE, words_text
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.vector_width import has_quick_wide_registers

TEXT = """
def {name}(x, out):
    for i in range(out.size):
        out[i] = x[i] * x[i]
"""


def test_words_that_polynomials_approximate_ask_for_them():
    for names in (["exp"], ["sqrt", "tanh"]):
        assert f"{WIDE}\n" in words_text(names, "float32").splitlines(True)
    assert WIDE not in words_text(["sqrt", "abs"], "float32")


@pytest.mark.skipif(pipeline.KernelPipeline.__name__ != "KernelPipeline", reason="Numba's own stages")
@pytest.mark.parametrize("head", ["", f"{WIDE}\n"])
def test_what_llvm_is_asked_for(head, monkeypatch, tmp_path):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))  # what is loaded from disk is machine code alone
    function = compile_text("squares", head + TEXT.format(name="squares"))
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    function(x, out)
    np.testing.assert_array_equal(out, x * x)
    if has_quick_wide_registers():
        wanted = 16 if head else 8
        assert f"<{wanted} x float>" in next(iter(function.dispatcher.inspect_llvm().values()))
