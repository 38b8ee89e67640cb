"""Constants of vector loops, hidden from LLVM."""

import re

import numpy as np
import pytest
from llvmlite import binding

from jitgrad.kernels import pipeline, vector_constants
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.vector_constants import keep_constants

HEAD = """define void @f(ptr %x) {
entry:
  br label %vector.body

vector.body:                                      ; preds = %vector.body, %entry
  %index = phi i64 [ 0, %entry ], [ %next, %vector.body ]
  %place = getelementptr float, ptr %x, i64 %index
  %v0 = load <8 x float>, ptr %place, align 4
"""
TAIL = """  store <8 x float> %v{last}, ptr %place, align 4
  %next = add nuw i64 %index, 8
  %done = icmp eq i64 %next, 800
  br i1 %done, label %exit, label %vector.body

exit:                                             ; preds = %vector.body
  ret void
}}
"""


def loop(numbers):
    """The text of a loop that adds these numbers."""
    values = [np.float32(n).astype(float) for n in numbers]
    bits = [f"0x{np.float64(v).view(np.uint64):016X}" for v in values]
    lines = [f"  %v{k + 1} = fadd <8 x float> %v{k}, splat (float {b})" for k, b in enumerate(bits)]
    return HEAD + "\n".join(lines) + "\n" + TAIL.format(last=len(numbers))


@pytest.fixture
def avx2(monkeypatch):
    monkeypatch.setattr(vector_constants, "cpu_features", lambda: {"avx2"})


@pytest.mark.usefixtures("avx2")
def test_a_loop_with_more_constants_than_registers_reads_none():
    text = keep_constants(loop(np.arange(20) + 0.3))
    body = text[text.index("\nvector.body:") :]
    assert text.count('asm "", "=x,0"') == 20 and "splat" not in body
    assert len(set(re.findall(r"%vector\.body\.constant\d+", body))) == 20


@pytest.mark.usefixtures("avx2")
def test_equal_constants_are_made_once():
    assert keep_constants(loop([*(np.arange(17) + 0.3)] * 2)).count("asm") == 17


@pytest.mark.usefixtures("avx2")
@pytest.mark.skipif(binding.llvm_version_info[0] < 19, reason="prints vectors otherwise")
def test_llvm_reads_the_text():
    for numbers in (np.arange(20) + 0.3, np.arange(3) + 0.3):
        binding.parse_assembly(keep_constants(loop(numbers))).verify()


@pytest.mark.usefixtures("avx2")
def test_what_fits_registers_is_left_as_it_is():
    text = loop(np.arange(16) + 0.3)
    assert keep_constants(text) == text
    zeros = loop([0, -1, 2] * 6 + [0.5])
    assert "asm" not in keep_constants(zeros)


@pytest.mark.parametrize("features", [{"avx2", "avx512vl"}, {"neon"}, set()])
def test_other_processors_keep_their_constants(features, monkeypatch):
    monkeypatch.setattr(vector_constants, "cpu_features", lambda: features)
    text = loop(np.arange(20) + 0.3)
    assert keep_constants(text) == text


@pytest.mark.skipif(pipeline.KernelPipeline.__name__ != "KernelPipeline", reason="Numba's own stages")
def test_results_are_the_same(monkeypatch, tmp_path):
    numbers = [f"np.float32({k}.3)" for k in range(24)]
    terms = "\n".join(f"        y = (y - {n}) * np.float32(0.{k}7)" for k, n in enumerate(numbers, 1))
    source = f"def {{name}}(x, out):\n    for i in range(out.size):\n        y = x[i]\n{terms}\n        out[i] = y\n"
    x, results, kept = np.linspace(-3, 3, 1003, dtype=np.float32), [], []
    for name, change in (("kept", keep_constants), ("left", str)):
        monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path / name))
        monkeypatch.setattr(pipeline, "keep_constants", change)
        function = compile_text("polynomial", source.format(name="polynomial"), allocates=False)
        function(x, out := np.zeros_like(x))
        results.append(out)
        kept.append("asm" in next(iter(function.dispatcher.inspect_llvm().values())))
    np.testing.assert_array_equal(*results)
    plain = binding.get_host_cpu_features()
    used = plain.get("avx2", False) and not plain.get("avx512vl", False) and binding.llvm_version_info[0] >= 19
    assert kept == [used, False]
