"""What ``dir(torch)`` has for users and jitgrad has not, with the reasons. A name that is added leaves this list."""

import operator
import re
import types

import pytest
import torch

import jitgrad

# {reason: names, "*" for any end}. What is missing from these and from jitgrad is an oversight.
NAMES = {
    "quantised tensors are not here": (
        "QInt32Storage QInt8Storage QUInt* choose_qparams_optimized dequantize empty_quantized fake_quantize_* "
        "fbgemm_* fused_moving_avg_obs_fake_quant int_repr per_channel_* per_tensor_* q_* qint* qscheme "
        "quantize_per_* quantized_* quint*"
    ),
    "storage without arithmetic in PyTorch, and no dtype of NumPy's": (
        "bit bits* chalf complex32 float4_* float8_* int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 "
        "uint5 uint6 uint7"
    ),
    "TorchScript's classes, which no program makes": (
        "AliasDb *Type Argument ArgumentSpec Block BufferDict CallStack Capsule Code CompilationUnit "
        "CompleteArgumentSpec ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext "
        "ErrorReport ExecutionPlan FatalError FileCheck FunctionSchema Gradient Graph GraphExecutorState "
        "IODescriptor JITException LiteScriptModule LockingLogger LoggerBase ModuleDict Node NoopLogger "
        "OperatorInfo ParameterDict PyTorchFileReader PyTorchFileWriter Script* SerializationStorageContext "
        "StaticModule TracingState Type Use Value import_ir_module* merge_type_from_type_comment parse_* "
        "unify_type_list AggregationType AVG SUM"
    ),
    "measures, dispatch and set-up inside of PyTorch": (
        "BenchmarkConfig BenchmarkExecutionStats DisableTorchFunction DispatchKey DispatchKeySet "
        "ExcludeDispatchKeyGuard PRIVATE_OPS ThroughputBenchmark TYPE_CHECKING USE_GLOBAL_DEPS "
        "USE_RTLD_GLOBAL_WITH_LIBTORCH classproperty get_file_path init_num_threads "
        "prepare_multiprocessing_environment profiler_allow_cudagraph_cupti_* thread_safe_generator "
        "sym_constrain_range* while_loop native_norm legacy_contiguous_format"
    ),
    "typed storages of the old kind": "Storage StorageBase",
    "kernels of other devices and libraries by name": "batch_norm_* cudnn_* miopen_* mkldnn_*",
    "other devices' autocast": "*_autocast_ipu_* *_autocast_xla_* is_autocast_ipu_enabled is_autocast_xla_enabled",
    "nested tensors are not here": "jagged",
    "copies of what sparse tensors show: clone() does the same": (
        "ccol_indices_copy col_indices_copy crow_indices_copy indices_copy row_indices_copy values_copy"
    ),
}
MODULES = {
    "masked tensors are not here; what reduces takes a mask": (
        "masked.MaskedTensor masked.as_masked_tensor masked.is_masked_tensor masked.masked_tensor"
    ),
    "8-bit floats and blocks with scales are not here": (
        "nn.functional.ScalingType nn.functional.SwizzleType nn.functional.scaled_grouped_mm nn.functional.scaled_mm"
    ),
    "names inside of PyTorch": "nn.functional.assert_int_or_pair nn.functional.has_torch_function*",
    "of a GPU's tensor cores": "sparse.SparseSemiStructuredTensor* sparse.to_sparse_semi_structured",
    "PyTorch has it where it is built with cuDSS": "sparse.spsolve",
}
METHODS = {
    "quantised tensors are not here": "dequantize int_repr q_* qscheme",
    "no dtype of NumPy's": "chalf",
    "other devices and libraries": "ipu is_distributed mtia to_mkldnn xpu",
    "nested tensors are not here": "to_padded_tensor",
    "names inside of PyTorch": "const_data_ptr grad_dtype index volatile",
}


def missing(theirs, ours):
    names = (n for n in dir(theirs) if n[0] != "_" and not isinstance(getattr(theirs, n), types.ModuleType))
    return {n for n in names if not hasattr(ours, n)}


def missing_of_modules():
    """Functions and classes of modules, by MODULE.NAME."""
    found = set()
    for path in ("fft", "linalg", "masked", "nn", "nn.functional", "nn.init", "nn.utils", "signal.windows", "sparse",
                 "special"):  # fmt: skip
        theirs, ours = (operator.attrgetter(path)(lib) for lib in (torch, jitgrad))
        own = {n for n, v in vars(theirs).items() if callable(v) and is_own(v, f"torch.{path}")}
        found |= {f"{path}.{n}" for n in missing(theirs, ours) & own}
    return found


def is_own(value, module):
    """Whether a function is made in C++, in the module or in a part of it, not a name that its file imports."""
    home = getattr(value, "__module__", None) or "torch"
    return home.startswith((module, "torch._C", "torch._linalg")) or type(value) is types.BuiltinFunctionType


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the list is that of PyTorch 2.13")
@pytest.mark.parametrize("found, listed", [
    (lambda: missing(torch, jitgrad), NAMES), (lambda: missing(torch.Tensor, jitgrad.Tensor), METHODS),
    (missing_of_modules, MODULES),
], ids=["torch", "Tensor", "modules"])  # fmt: skip
def test_what_is_missing_has_a_reason(found, listed):
    patterns = " ".join(listed.values()).split()
    known = re.compile("|".join(re.escape(p).replace(r"\*", ".*") for p in patterns))
    absent = found()
    assert not {n for n in absent if not known.fullmatch(n)}
    assert not {p for p in patterns if "*" not in p and p not in absent}, "listed, but here"


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_removed_functions_name_what_takes_their_place(name):
    said = []
    for lib in (jitgrad, torch):
        with pytest.raises(RuntimeError) as error:
            getattr(lib, name)(lib.eye(2), lib.eye(2))
        said.append(str(error.value))
    assert said[0] == said[1]
    if name != "matrix_rank":
        with pytest.raises(RuntimeError) as error:
            getattr(jitgrad.eye(2), name)()
        assert str(error.value) == said[0]
