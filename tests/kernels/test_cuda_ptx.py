"""Machine code of CUDA kernels, where numba-cuda and NVVM are installed: no GPU is needed to compile."""

import math
import types

import numpy as np
import pytest

from jitgrad.kernels.codegen.emit_cpu import Argument
from jitgrad.kernels.cuda import emit as emit_cuda
from jitgrad.kernels.cuda import loops as cuda_loops
from jitgrad.kernels.cuda import matmul as cuda_matmul
from jitgrad.kernels.cuda import optimizer as cuda_steps
from jitgrad.kernels.cuda import provider as kernels
from jitgrad.kernels.elementwise import arithmetic as table  # noqa: F401  (declares the ops)
from jitgrad.kernels.elementwise.declaration import TABLE
from jitgrad.kernels.loops import adaptive_optimizers, optimizer
from jitgrad.kernels.program.fused_device import device_text
from jitgrad.kernels.program.fused_text import NAME, FusedLoop, Step

pytest.importorskip("numba_cuda")
if kernels.SIMULATED:
    pytest.skip("the simulator compiles nothing", allow_module_level=True)

import numba
import numba.cuda.compiler
import numba.cuda.dispatcher
from numba import cuda

CAPABILITY = (8, 0)
# libdevice reduces huge angles in float64; the words of these functions work in float64 throughout.
WIDE = {"sin", "cos", "tan", "sinc", "lgamma", "digamma", "polygamma"}
FLOATS = sorted(n for n, op in TABLE.items() if "float" in op.accepts.split() and not op.in_double)
IN_DOUBLE = sorted(n for n, op in TABLE.items() if op.in_double)
COMPLEX = sorted(n for n, op in TABLE.items() if "complex" in op.accepts.split())


@pytest.fixture(autouse=True)
def some_device(monkeypatch):
    """Device functions are compiled for the current GPU: name one."""
    device = types.SimpleNamespace(compute_capability=CAPABILITY)
    for module in (numba.cuda.dispatcher, numba.cuda.compiler):
        monkeypatch.setattr(module, "get_current_device", lambda: device)


def array(dtype, ndim=1):
    return numba.types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C")


def ptx(name, text, signature):
    scope = {"cuda": cuda, "libdevice": cuda.libdevice, "math": math, "np": np}
    exec(text, scope)
    try:
        return cuda.compile_ptx(scope[name], signature, cc=CAPABILITY)[0]
    except Exception as error:
        if "NVVM" in str(error) or "nvvm" in str(error):
            pytest.skip("NVVM is not installed")
        raise


def directions(op, dtype):
    """(rules, names of the input arrays, dtypes of the outputs) of forward and backward."""
    real = np.zeros(0, dtype).real.dtype.name
    out = {"bool": "bool", "real": real}.get(op.kind, dtype)
    yield [(op.rule, "out")], list(op.inputs), [out]
    rules = [(rule, f"grad_{n}") for n, rule in op.grads.items()]
    if rules:
        used = {p for rule, _ in rules for p in rule.parameters}
        yield rules, ["g", *(n for n in (*op.inputs, "out") if n in used)], [dtype] * len(rules)


def compiled(op, dtype, strided=False):
    for rules, inputs, outs in directions(op, dtype):
        scalars = [s for s in op.scalars if any(s in rule.parameters for rule, _ in rules)]
        arguments = [Argument(n, "array", condition=n in op.conditions) for n in inputs]
        arguments += [Argument(s, "scalar") for s in scalars]
        conjugate = op.holomorphic and dtype.startswith("complex")
        text = emit_cuda.elementwise_text("kernel", rules, arguments, outs, dtype, strided, conjugate, "uint32")
        arrays = [array("bool" if n in op.conditions else dtype) for n in inputs] + [array(o) for o in outs]
        numbers = [numba.from_dtype(np.dtype(dtype))] * len(scalars)
        geometry = [array("uint32")] if strided else []
        yield ptx("kernel", text, (*arrays, *numbers, *geometry, numba.int64))


@pytest.mark.parametrize("name", FLOATS)
def test_float32_kernels_compute_in_float32(name):
    for text in compiled(TABLE[name], "float32"):
        assert name in WIDE or ".f64" not in text


@pytest.mark.parametrize("name", IN_DOUBLE)
def test_kernels_in_double_precision_compile(name):
    for _ in compiled(TABLE[name], "float64"):
        pass


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_kernels_compile(name):
    for _ in compiled(TABLE[name], "complex64"):
        pass


@pytest.mark.parametrize("name", ["add", "mul", "exp", "where"])
def test_strided_kernels_divide_in_32_bits(name):
    for text in compiled(TABLE[name], "float32", strided=True):
        assert ".f64" not in text
        assert "rem.u32" in text or "div.u32" in text
        assert "rem.u64" not in text


def test_fused_loops_stay_in_the_dtype_and_divide_in_32_bits():
    pair, one = (Argument("x", "array"), Argument("y", "array")), (Argument("x", "array"),)
    given = [("mul", pair, ("x0", "r0_value")), ("add", pair, ("v0", "c0_value")), ("sigmoid", one, ("v1",)),
             ("mul", pair, ("v2", "o0_value"))]  # fmt: skip
    steps = tuple(
        Step(((TABLE[name].rule, "out"),), arguments, ("float32",), False, operands, (f"v{k}",))
        for k, (name, arguments, operands) in enumerate(given)
    )
    loop = FusedLoop("float32", steps, (("a0", "x0"),), (("once0", "o0_value"),), (), (("o0", "v3", "float32"),), (),
                     (("row0", "r0_value"),), (("column0", "c0_value"),))  # fmt: skip
    text, words = device_text(loop)
    arrays = [array("float32")] * len(loop.parameters)
    made = ptx(NAME, emit_cuda.self_contained(text, words, "float32"), (*arrays, numba.int64, numba.int64))
    assert ".f64" not in made
    assert "rem.u64" not in made and "rem.s64" not in made


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "complex64"])
def test_sums_compile(dtype):
    whole = [numba.int64] * 3
    out = array({"bool": "int64"}.get(dtype, dtype))
    accumulator = out.dtype.name
    for loop, more in ((cuda_loops.SUM_BLOCK, 0), (cuda_loops.SUM_COLUMN, 2)):
        text = loop.text(dtype, accumulator)
        made = ptx(loop.source.name, text, (array(dtype), out, *whole, *[numba.int64] * more))
        assert dtype != "float32" or ".f64" not in made
        assert loop is not cuda_loops.SUM_BLOCK or "bar.sync" in made


def test_products_and_fills_compile():
    f, whole = array("float32"), numba.int64
    made = ptx("_product", cuda_matmul.PRODUCT.text("float32", "float32"), (f, f, f, *[whole] * 9))
    assert ".f64" not in made
    assert "fma.rn.f32" in made
    ptx("_add_row", cuda_matmul.ADD_ROW.text("float32", "float32"), (f, f, whole, whole))
    ptx("_fill", cuda_loops.FILL.text("float32", "float32"), (f, numba.float32, whole))
    ptx("_divide", cuda_loops.DIVIDE.text("float32", "float32"), (f, numba.float32, whole))
    places = array("int64")
    ptx("_fill_strided", cuda_loops.FILL_STRIDED.text("float32", "float32"), (f, numba.float32, places, places, whole))
    ptx("_arange", cuda_loops.ARANGE.text("float32", "float32"), (f, numba.float64, numba.float64, whole))


LOOPS = [optimizer.sgd, optimizer.sgd_momentum, optimizer.adam, optimizer.rmsprop, *(
    getattr(adaptive_optimizers, name) for name in adaptive_optimizers.__all__)]  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_optimizers_steps_compile(loop):
    kernel = optimizer.foreach(loop, 1)
    plain = len(kernel.arrays) - kernel.counted
    made = cuda_steps.GridStrided(loop, tuple(kernel.arrays[plain:]))
    signature = (*[array("float32")] * plain, *[numba.float64] * (len(made.source.parameters) - plain))
    ptx(loop.name, made.text("float32", "float32"), signature)


def test_a_kernel_can_be_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("JITGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "_names", lambda: {"cuda": cuda, "math": math, "np": np})
    monkeypatch.setattr(kernels, "provider", lambda: cuda)
    text = "def kept(x, n):\n    for i in range(cuda.grid(1), n, cuda.gridsize(1)):\n        x[i] = 0\n"
    dispatcher = kernels.compile_cuda("kept", text)
    assert type(dispatcher._cache).__name__ == "CUDACache"
    assert [p.suffix for p in tmp_path.rglob("kept-*")] == [".py"]
