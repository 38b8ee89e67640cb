"""Kernels that make arrays, in processes that find them on disk."""

import os
import subprocess
import sys

PROGRAM = """
import sys
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.statistics import statistics
text = "def ones_up_to(n):\\n    x = np.zeros(n, np.float64)\\n    for i in range(n):\\n        x[i] = i\\n"
text += "    return x\\n"
made = compile_text("ones_up_to", text)(4)
print(made.tolist(), statistics.loaded, "numba.np.arrayobj" in sys.modules)
import numba, numpy as np
print(numba.njit(lambda n: np.zeros(n).sum() + np.arange(n).sum())(4))
"""


def test_modules_that_only_compiling_needs_are_not_imported(tmp_path):
    """The second process takes the kernel from disk, and can compile afterwards."""
    environment = {**os.environ, "JITGRAD_CACHE_DIR": str(tmp_path)}
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        found.append(done.stdout.splitlines())
    values = "[0.0, 1.0, 2.0, 3.0]"
    assert found == [[f"{values} 0 True", "6.0"], [f"{values} 1 False", "6.0"]]
