"""Storages, default devices and a program's settings against PyTorch."""

import warnings

import pytest
import torch

import jitgrad


def x(lib):
    return lib.arange(6.0).view(2, 3)


def placed(lib, storage, dtype="float32", *place):
    source = x(lib)
    y = lib.zeros(0, dtype=getattr(lib, dtype))
    y.set_(storage(source), *place)
    offset = y.storage_offset()
    if y.dtype is source.dtype:
        y.view(-1)[0] = 9
    return y, source, offset


def default_dtype(lib, name):
    lib.set_default_dtype(getattr(lib, name))
    try:
        made = lib.tensor([1.5]), lib.tensor([1]) / 2, lib.zeros(2), lib.tensor([1.5]).double(), lib.arange(2.0)
        return *made, lib.ones(2) + 1.5, lib.tensor([1, 2]).exp(), lib.nn.Linear(2, 2).weight.dtype
    finally:
        lib.set_default_dtype(lib.float32)


def default_type(lib):
    lib.set_default_tensor_type(lib.DoubleTensor)
    made = lib.tensor([1.5]), lib.get_default_dtype()
    lib.set_default_tensor_type("torch.FloatTensor")
    return made


def on_device(lib):
    with lib.device("cpu"):
        return lib.zeros(2).device, lib.get_default_device()


def flags_of_mkldnn(lib):
    flags = lib.backends.mkldnn
    with flags.flags(enabled=False, deterministic=True):
        within = flags.enabled, flags.deterministic, flags.fp32_precision
    before = flags.set_flags(_enabled=False)[:2], flags.enabled
    flags.set_flags(_enabled=True)
    return within, before, flags.enabled, flags.deterministic


CASES = {
    "precision": lambda lib: lib.get_float32_matmul_precision(),
    "deterministic": lambda lib: [lib.use_deterministic_algorithms(True), lib.get_deterministic_debug_mode(),
                                  lib.are_deterministic_algorithms_enabled(), lib.use_deterministic_algorithms(False)],
    "warn only": lambda lib: [lib.set_deterministic_debug_mode("warn"),
                              lib.is_deterministic_algorithms_warn_only_enabled(), lib.set_deterministic_debug_mode(0)],
    "unknown mode": lambda lib: lib.set_deterministic_debug_mode("x"),
    "unknown number of a mode": lambda lib: lib.set_deterministic_debug_mode(7),
    "no threads": lambda lib: lib.set_num_interop_threads(0),
    "backends": lambda lib: [
        lib.backends.mps.is_available(), lib.backends.cudnn.enabled, lib.backends.cudnn.benchmark,
        lib.backends.cudnn.allow_tf32,
        lib.backends.cuda.matmul.allow_tf32, lib.backends.cpu.get_cpu_capability(),
    ],
    "flags of mkldnn": flags_of_mkldnn,
    "gradients of convolutions": lambda lib: lib.nn.functional.grad.conv1d_input(
        (1, 1, 3), lib.ones(1, 1, 2), lib.ones(1, 1, 2)),
    "typename": lambda lib: [lib.typename(lib.zeros(2)), lib.typename(3)],
    "bytes": lambda lib: [(s.nbytes(), len(s), s.size(), str(s.device), s.is_shared(), s[3], s.tolist())
                          for s in [x(lib).untyped_storage()]],
    "untyped": lambda lib: x(lib)[1].untyped_storage(),
    "typed": lambda lib: x(lib)[1].storage(),
    "type of a storage": lambda lib: x(lib).storage().type(),
    "storage of numbers": lambda lib: lib.FloatStorage([1, 2]),
    "is_storage": lambda lib: [lib.is_storage(x(lib).untyped_storage()), lib.is_storage(x(lib))],
    "same storage": lambda lib: [a.untyped_storage().data_ptr() == a[1:].untyped_storage().data_ptr()
                                 for a in [x(lib)]],
    "set to part": lambda lib: placed(lib, lambda t: t.untyped_storage(), "float32", 1, (2, 2), (2, 1)),
    "set to row": lambda lib: placed(lib, lambda t: t.storage(), "float32", 1, (2,)),
    "set to tensor's": lambda lib: placed(lib, lambda t: t, "float32", 1, (2,), (1,)),
    "set to bytes": lambda lib: placed(lib, lambda t: t.untyped_storage(), "int32"),
    "set to another dtype": lambda lib: placed(lib, lambda t: t, "int32"),
    "shared": lambda lib: [x(lib).is_shared(), x(lib).name, x(lib).is_mkldnn],
    "bfloat16 by strides": lambda lib: lib.arange(8, dtype=lib.bfloat16)[::2].as_strided((2, 2), (1, 2), 1),
    "default device": lambda lib: lib.get_default_device(),
    "device as a context": on_device,
    "no such type": lambda lib: lib.set_default_tensor_type("torch.FooTensor"),
    "no type": lambda lib: lib.set_default_tensor_type(3),
    "default type": default_type,
    "default bfloat16": lambda lib: default_dtype(lib, "bfloat16"),
    "default float16": lambda lib: default_dtype(lib, "float16"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_as_pytorch(case):
    found = []
    for lib in (jitgrad, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found.append(repr(CASES[case](lib)).replace("jitgrad.", "torch."))
            except (RuntimeError, TypeError, AttributeError) as error:
                found.append((type(error), str(error)))
    assert found[0] == found[1]
