"""What is read ahead changes nothing, wherever it lies."""

import numpy as np

from jitgrad.kernels.compiler import compile_text

TEXT = """
def gather(x, index, out):
    for i in range(index.size):
        prefetch(x, index[i] * {far})
        out[i] = x[index[i]]
"""


def test_places_within_and_far_outside(monkeypatch, tmp_path):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))  # what is loaded from disk is machine code alone
    x, index = np.arange(100, dtype=np.float32), np.array([3, 99, 0, 17])
    for far in (1, -(10**9), 10**12):
        gather, out = compile_text("gather", TEXT.format(far=far)), np.zeros(4, np.float32)
        gather(x, index, out)
        assert out.tolist() == index.tolist()
        assert "llvm.prefetch" in next(iter(gather.dispatcher.inspect_llvm().values()))
