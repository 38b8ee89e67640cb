"""What kernels consist of, translated to fewer instructions: it does what Python does, and errors still arrive."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.lowering import Lower
from numba.core.runtime import _nrt_python, rtsys

from jitgrad.kernels import pipeline
from jitgrad.kernels.codegen.rule_text import INLINE
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.kernel_text import KernelError

LINES = {
    "elements": "out[0] = x[1, 2]; out[1] = x[-1, -2]; out[2] = x[np.uint64(1), np.int32(-1)]; y[2, -1] = x[0, 0]",
    "rows": "row = x[-2]; out[0] = row[1]; out[1] = row.size; row[2] = 7; y[1][0] = 5; out[2] = row.shape[0]",
    "sizes": "out[0] = x.size; out[1] = x.shape[0]; out[2] = x.shape[1]; out[3] = x[1:].size; out[4] = x[:, 1:2].size",
    "filled rows": "x[1] = 3; y[:] = 2.5; x[0, 1:] = True; y[:, -1] = -1",
    "parts": "p = x[1:, :2]; out[0] = p[0, 1]; out[1] = p.shape[0]; p[-1, -1] = 9; q = p[0]; q[0] = 8",
    "beyond": "p = x[-9:9, 2:1]; out[0] = p.size; q = x[5:, -1:]; out[1] = q.size; out[2] = x[:-5].size; x[7:] = 4",
    "ranges": (
        "for i in range(3): out[i] += i\n    for j in range(-2, 2): out[j] += 10\n"
        "    for k in range(4, -1, -2): out[k] -= 1\n    for m in range(2, -2): out[m] = 99\n"
        "    for n in range(-3): out[n] = 98\n    out[0] += i + j + k"
    ),
    "nested": "for r in range(x.shape[0]):\n        for c in range(r, x.shape[1]): out[r] += x[r, c]",
    "unsigned": (
        "for i in range(np.uint64(1), np.uint64(3)): out[i] = x[i, i]\n    for i in range(np.int32(2)): out[i] += i"
    ),
    "left early": "for i in range(5):\n        if x[0, 0] + i > 2: break\n        out[i] = 1\n    out[4] = i",
}  # fmt: skip
ORDERS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "steps": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "reversed": lambda a: a[::-1, ::-1],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_it_does_what_python_does(name, order, dtype):
    text = f"def kernel(x, y, out):\n    {LINES[name].replace('; ', chr(10) + '    ')}\n"
    scope = {"np": np}
    exec(text, scope)
    given = [ORDERS[order](np.arange(12).reshape(3, 4).astype(dtype)), np.zeros((3, 4), dtype), np.zeros(5)]
    expected = [a.copy() for a in given]
    scope["kernel"](*expected)
    compile_text("kernel", text, allocates=False)(*given)
    for found, wanted in zip(given, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


SLICED = compile_text(
    "sliced", "def sliced(x, y, a, b, c, d):\n    x[a:b] = 1\n    y[a:b, c:d] += x[0]\n    y[c:, a] = x[c:d].size\n"
)


@settings(deadline=None)  # the first one compiles
@given(st.integers(1, 5), st.integers(1, 5), *[st.integers(-9, 9)] * 4)
def test_any_bounds_of_slices(rows, columns, a, b, c, d):
    a = max(-columns, min(a, columns - 1))  # an index, too
    x, y = np.zeros(rows), np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    expected = x.copy(), y.copy()
    SLICED.dispatcher.py_func(*expected, a, b, c, d)
    SLICED(x, y, a, b, c, d)
    np.testing.assert_array_equal(x, expected[0])
    np.testing.assert_array_equal(y, expected[1])


def test_references_are_counted_as_numba_counts_them():
    text = """
def pick(x, out):
    for i in range(3):
        made = np.empty((2, x.size), np.float64)
        made[:] = i
        part = made[1]
        made = np.zeros((1, 4), np.float64)
        out[i] = part[0] + made[0, 3]
"""
    kernel, out = compile_text("pick", text), np.zeros(3)
    kernel(np.zeros(1000), out)
    assert out.tolist() == [0, 1, 2]
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        kernel(np.zeros(1000), out)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free == 6


def test_errors_of_functions_that_are_called_arrive():
    text = (
        f"{INLINE}\ndef checked(n):\n    if n > 3:\n        raise ValueError('too large')\n    return n\n\n\n"
        f"{INLINE}\ndef twice(n):\n    return checked(n) + checked(n)\n\n\n"
        "def kernel(x, out):\n    for i in range(x.size):\n        out[i] = twice(x[i])\n"
    )
    kernel, out = compile_text("kernel", text, allocates=False), np.zeros(2)
    kernel(np.array([1.0, 2.0]), out)
    assert out.tolist() == [2, 4]
    with pytest.raises(ValueError, match="too large"):
        kernel(np.array([1.0, 4.0]), out)


def test_bits_of_numbers():
    text = (
        "def kernel(x, out):\n    out[0] = np.float32(x[0]).view(np.int32)\n"
        "    out[1] = np.int64(out[0]).view(np.float64)\n"
        "    out[2] = np.float64(x[1]).view(np.uint64) >> np.uint64(52)\n"
    )
    out = np.zeros(3)
    compile_text("kernel", text)(np.array([1.5, -2.0]), out)
    bits = np.float32(1.5).view(np.int32)
    assert out.tolist() == [bits, np.int64(bits).view(np.float64), 0xC00]
    with pytest.raises(KernelError, match="itemsize"):
        compile_text("wrong", "def wrong(x):\n    x[0] = np.float32(x[0]).view(np.int64)\n")(np.zeros(1))


@pytest.mark.skipif(pipeline.KernelPipeline.__name__ != "KernelPipeline", reason="Numba's own stages")
def test_there_are_fewer_instructions(tmp_path, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    lines = []

    class Counting(pipeline.MarkingLower):
        def lower(self):
            super().lower()
            lines.append(str(self.module).count("\n"))

    class Numba(Lower):
        def lower(self):
            super().lower()
            lines.append(str(self.module).count("\n"))

    text = (
        "def kernel(x, out):\n    for i in range(x.shape[0]):\n"
        "        for j in range(x.shape[1]):\n            out[i, j] = 2 * x[i, j]\n"
    )
    for number, lowering in enumerate((Counting, Numba)):
        monkeypatch.setattr(pipeline._KernelLowering, "lowering_class", lowering)
        x, out = np.ones((2, 3)), np.zeros((2, 3))
        compile_text("kernel", f"{text}# {number}\n", allocates=False)(x, out)
        assert out.tolist() == [[2.0] * 3] * 2
    assert 2 * lines[0] < lines[1]
