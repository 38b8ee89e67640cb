"""The stages in which Numba compiles kernels, and what a process imports for them."""

import os
import subprocess
import sys

PROGRAM = """
import sys
{first}
import numpy as np
from jitgrad.kernels.codegen.rule_text import INLINE
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.statistics import statistics
from jitgrad.kernels.inlined_functions import _compiled_once

text = INLINE + '''
def twice(x):
    return x + x


def doubled(x, out):
    room = scratch(4, np.float32)
    for i in range(x.size):
        room[i % 4] = twice(x[i])
        out[i] = room[i % 4]
'''
x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
compile_text("doubled", text, allocates=False)(x, out)
assert out.tolist() == [0, 2, 4, 6, 8]
{last}
"""


def run(folder, first="", last=""):
    environment = {**os.environ, "JITGRAD_CACHE_DIR": str(folder)}
    program = PROGRAM.format(first=first, last=last)
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_what_compiling_and_loading_do_without(tmp_path):
    # Of an inlined function there is no machine code, and whether SciPy is there is known without importing it.
    compiled = """
assert statistics.compiled == 1
inlined = [r.library for f in _compiled_once.values() for r in f.overloads.values()]
assert [l.name.startswith("twice") and l._compiled_object is None for l in inlined] == [True]
assert "scipy.linalg" not in sys.modules
"""
    run(tmp_path, last=compiled)
    # A kernel that is on disk needs nothing of what compiles arrays.
    run(tmp_path, last="assert statistics.loaded == 1\nassert 'numba.np.arrayobj' not in sys.modules")


def test_a_numba_whose_parts_have_moved_compiles_by_itself(tmp_path):
    run(tmp_path, first="sys.modules['jitgrad.kernels.pipeline'] = None", last="assert statistics.compiled == 1")
