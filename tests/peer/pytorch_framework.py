"""PyTorch's test framework as far as its tests of autograd use it, and stand-ins for what jitgrad does not have."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.abc
import importlib.machinery
import inspect
import io
import itertools
import random
import sys
import tempfile
import types
import unittest

import pytorch_sparse
from pytorch_dtypes import dtype_sets, numpy_dtypes
from pytorch_optimizers import DecorateInfo, Optims, optimizer_tables
from pytorch_test_case import test_case

# Of subclasses that see PyTorch's dispatcher.
NO_METHODS = ("_make_subclass", "_make_wrapper_subclass")

# -- what jitgrad does not have ---------------------------------------------------------------------


class NotApplicable(Exception):
    """A test uses what jitgrad does not have."""


def stand_in(name):
    """A class in place of something missing: it may be imported, named and subclassed, but not used."""

    class Missing(type):
        def __getattr__(cls, attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return stand_in(f"{name}.{attribute}")

        def refuse(cls, *args, **kwargs):
            raise NotApplicable(name)

        __call__ = __enter__ = __instancecheck__ = refuse
        __iter__ = lambda cls: iter(())
        __bool__ = lambda cls: False
        __add__ = __radd__ = lambda cls, other: other
        __exit__ = lambda cls, *error: None

    return Missing(name.replace(".", "_"), (), {})


class StandInModule(types.ModuleType):
    """A module whose every attribute is a stand-in, but for those that it is given."""

    __path__ = ()

    def __init__(self, name, **given):
        super().__init__(name)
        vars(self).update(given)
        sys.modules[name] = self

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return stand_in(f"{self.__name__}.{attribute}")


def complete(module, label):
    """Let a module of jitgrad's answer with stand-ins for names that it does not have."""
    own = vars(module).get("__getattr__")

    def __getattr__(attribute):
        with contextlib.suppress(AttributeError):
            if own is not None:
                return own(attribute)
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return stand_in(f"{label}.{attribute}")

    module.__getattr__ = __getattr__


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``torch.X`` in jitgrad, and stand-ins for what is not there."""

    def __init__(self, mode):
        self.mode = mode

    def find_spec(self, name, path, target=None):
        """Answer for PyTorch's names; the internal test framework is a stand-in under torch, too."""
        if name.startswith(("torch.testing._internal", "functorch_additional_op_db", "torch.onnx")):
            module = StandInModule(name)
        elif self.mode == "jitgrad" and name.split(".")[0] in ("torch", "functorch"):
            try:
                module = importlib.import_module("jitgrad" + name.removeprefix("torch"))
            except ImportError:
                module = StandInModule(name)
        else:
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.found = module
        return spec

    def create_module(self, spec):
        """The module that was found."""
        return spec.found

    def exec_module(self, module):
        """It has run already."""


# -- PyTorch's test framework, as far as these tests use it -----------------------------------------


def decorator(*args, **kwargs):
    """Stands for decorators that only decide where a test runs: with arguments or without, nothing is changed."""
    first = args[0] if args else None
    is_test = inspect.isroutine(first) or (inspect.isclass(first) and issubclass(first, unittest.TestCase))
    return first if is_test else lambda test: test


def elsewhere(*args, **kwargs):
    """Stands for decorators of tests that need a GPU, a compiler or tables of ops."""
    skip = unittest.skip("not here")
    return skip(args[0]) if args and inspect.isfunction(args[0]) else skip


class NotHere:
    """The same, as a class that is made with arguments."""

    def __init__(self, *args, **kwargs):
        self.decorate = unittest.skip("not here")

    def __call__(self, test):
        return self.decorate(test)


class HigherOrderOperator:
    """One is defined where tests are; it can't be called."""

    def __init__(self, *args):
        self.py_impl = lambda key: decorator

    def __call__(self, *args):
        raise NotApplicable("torch._ops.HigherOrderOperator")


@contextlib.contextmanager
def without_collector():
    """Python's collector is off."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Parametrized:
    """``@parametrize("a,b", values)``."""

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [n.strip() for n in arg_str.split(",") if n.strip()]
        self.values = [v.value if isinstance(v, SubTest) else v for v in arg_values]

    def __call__(self, test):
        vars(test).setdefault("parameters", []).append(self)
        return test


class SubTest:
    """``subtest(value, name=...)``."""

    def __init__(self, arg_values, name=None, decorators=()):
        self.value = arg_values


class DTypes:
    """``@dtypes(...)``; those that the library lacks are left out."""

    attribute = "dtypes"

    def __init__(self, *dtypes):
        self.dtypes = dtypes[0] if len(dtypes) == 1 and isinstance(dtypes[0], (list, tuple)) else dtypes

    def __call__(self, test):
        setattr(test, self.attribute, self.dtypes)
        return test


class DTypesOfCPU(DTypes):
    """``@dtypesIfCPU(...)``."""

    attribute = "dtypes_of_cpu"


def variants(test):
    """(suffix, keyword arguments) of every test that a parametrized one stands for."""
    found = [("", {})]
    for p in getattr(test, "parameters", ()):
        rows = [dict(zip(p.names, v if len(p.names) > 1 else (v,), strict=True)) for v in p.values]
        found = [(f"{suffix}_{k}", {**given, **row}) for suffix, given in found for k, row in enumerate(rows)]
    if hasattr(test, "optims"):
        rows = list(test.optims.rows(test, test.optims.default))
        found = [(f"{suffix}{s}", {**given, **row}) for suffix, given in found for s, row in rows]
    dtypes = getattr(test, "dtypes_of_cpu", None) or getattr(test, "dtypes", None)
    if dtypes and isinstance(dtypes[0], (list, tuple)):  # several at once
        found = [
            (f"{s}_{'_'.join(str(d).split('.')[-1] for d in row)}", {**given, "dtypes": row})
            for s, given in found
            for row in dtypes
        ]
    elif dtypes:
        found = [(f"{s}_{str(d).split('.')[-1]}", {**given, "dtype": d}) for s, given in found for d in dtypes]
    return found


def instantiate(cls, *scope, **options):
    """Replace a class's parametrized tests by their variants; those of all devices by those of the CPU."""
    for name, test in list(vars(cls).items()):
        if not (name.startswith("test") and inspect.isfunction(test)) or getattr(test, "__unittest_skip__", False):
            continue
        takes_device = bool(scope) and "device" in inspect.signature(test).parameters
        if not takes_device and not hasattr(test, "parameters") and not hasattr(test, "optims"):
            continue
        delattr(cls, name)
        for suffix, given in variants(test):
            given = {**given, "device": "cpu"} if takes_device else given
            setattr(cls, name + suffix, functools.wraps(test)(functools.partialmethod(test, **given)))
    return cls


def framework(mode, torch, numpy):
    """Put the modules in place that tests import; return the class that they derive from."""
    case = test_case(torch, numpy)
    for name, method in pytorch_sparse.methods(torch).items():
        setattr(case, name, method)
    internal = "torch.testing._internal"
    StandInModule(internal)
    marks = "skipIfTorchDynamo skipIfWindows xfailIfS390X xfailIfTorchDynamo skipIfRocm markDynamoStrictTest slowTest"
    marks += " unMarkDynamoStrictTest skipIfCrossRef skipIfMps skipIfMPS skipIfNoLapack swap suppress_warnings"
    marks += " serialTest skipIfNoSciPy setBlasBackendsToDefaultFinally setLinalgBackendsToDefaultFinally"
    marks += " xfailIfLinux skipIfNoDill skipIfXpu"
    to_torch = numpy_dtypes(torch)
    StandInModule(
        f"{internal}.common_utils", **dict.fromkeys(marks.split(), decorator), TestCase=case, IS_WINDOWS=False,
        IS_MACOS=False, IS_FBCODE=False, IS_SANDCASTLE=False, TEST_WITH_TORCHDYNAMO=False, run_tests=lambda: None,
        load_tests=None, parametrize=Parametrized, subtest=SubTest, instantiate_parametrized_tests=instantiate,
        gradcheck=torch.autograd.gradcheck, gradgradcheck=torch.autograd.gradgradcheck,
        disable_gc=lambda test=None: without_collector()(test) if test else without_collector(),
        scoped_load_inline=elsewhere, freeze_rng_state=frozen(torch), numpy_to_torch_dtype_dict=to_torch,
        torch_to_numpy_dtype_dict={ours: theirs for theirs, ours in to_torch.items()}, TEST_NUMPY=True, TEST_CUDA=False,
        TEST_SCIPY=True, make_tensor=torch.testing.make_tensor, IS_PPC=False, IS_JETSON=False, TEST_WITH_ROCM=False,
        IS_ARM64=False, IS_REMOTE_GPU=False, TEST_PRIVATEUSE1_DEVICE_TYPE=False, iter_indices=indices_of,
        _TestParametrizer=object, set_default_dtype=default_dtype(torch),
        DeterministicGuard=lambda *a, **k: contextlib.nullcontext(),
        is_iterable_of_tensors=lambda v, empty=False: isinstance(v, (list, tuple)) and all(
            isinstance(t, torch.Tensor) for t in v),
        set_warn_always_context=lambda value: contextlib.nullcontext(), set_rng_seed=seeded(torch, numpy),
        BytesIOContext=io.BytesIO,
        TemporaryFileName=temporary_name, TemporaryDirectoryName=tempfile.TemporaryDirectory, TEST_DILL=False,
        IS_FILESYSTEM_UTF8_ENCODING=True, AlwaysWarnTypedStorageRemoval=lambda value: contextlib.nullcontext(),
        **pytorch_sparse.names(torch),
    )  # fmt: skip
    StandInModule("torch.utils._import_utils", import_dill=lambda: None)
    StandInModule(f"{internal}.common_cuda", _get_torch_cuda_version=lambda: (0, 0),
                  TEST_CUDA=False, TEST_MULTIGPU=False, SM70OrLater=False,
                  tf32_on_and_off=decorator, with_tf32_off=decorator, PLATFORM_SUPPORTS_FLASH_ATTENTION=False,
                  PLATFORM_SUPPORTS_MEM_EFF_ATTENTION=False, PLATFORM_SUPPORTS_CUDNN_ATTENTION=False)  # fmt: skip
    only_here = "onlyCPU onlyNativeDeviceTypes skipMeta skipLazy skipXLA precisionOverride dtypesIfCUDA dtypesIfMPS"
    only_here += " toleranceOverride skipCPUIfNoLapack skipCUDAIf skipCUDAIfNoMagma skipCUDAIfNoCusolver skipCUDAIfRocm"
    only_here += " skipCUDAIfNoMagmaAndNoCusolver skipCUDAVersionIn skipCUDAIfRocmVersionLessThan expectedFailureMeta"
    only_here += " skipMPS"
    StandInModule(f"{internal}.common_device_type", **dict.fromkeys(only_here.split(), decorator),
                  instantiate_device_type_tests=instantiate, dtypes=DTypes, dtypesIfCPU=DTypesOfCPU,
                  onlyCUDA=elsewhere, deviceCountAtLeast=elsewhere, largeTensorTest=elsewhere, ops=NotHere,
                  skipCUDAIfNotRocm=elsewhere, skipIf=lambda when, why: decorator, has_cusolver=bool,
                  skipCPUIf=lambda when, why: unittest.skip(why) if when else decorator, has_hipsolver=bool,
                  onlyNativeDeviceTypesAnd=lambda devices: decorator, tol=lambda **k: None,
                  OpDTypes=stand_in("OpDTypes"))  # fmt: skip
    StandInModule(f"{internal}.common_dtype", **dtype_sets(torch))
    StandInModule(f"{internal}.common_methods_invocations", DecorateInfo=DecorateInfo, op_db=[],
                  mask_not_all_zeros=lambda s: torch.randn(s) > 0)
    StandInModule(f"{internal}.common_mkldnn", bf32_on_and_off=decorator)
    StandInModule(f"{internal}.autograd_function_db", autograd_function_db=[])
    StandInModule(f"{internal}.custom_op_db", custom_op_db=[])
    StandInModule("functorch_additional_op_db", additional_op_db=[])
    StandInModule("torch.utils.flop_counter")
    Optims.default = torch.float32
    optimizer_tables(StandInModule(f"{internal}.common_optimizers"))
    if mode == "jitgrad":
        names = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap"]
        StandInModule("functorch", **{n: getattr(torch.func, n) for n in names})
        switches = importlib.import_module("jitgrad._C")
        torch._C = StandInModule("torch._C", Graph=object, _debug_only_are_vmap_fallback_warnings_enabled=bool,
                                 _debug_only_display_vmap_fallback_warnings=bool,
                                 **{n: getattr(switches, n) for n in vars(switches) if "torch_function" in n.lower()
                                    or "TorchFunction" in n})  # fmt: skip
        StandInModule("torch.utils._triton", has_triton=bool, has_triton_package=bool)
        StandInModule("torch._ops", HigherOrderOperator=HigherOrderOperator)
        foreach = "_get_fused_kernels_supported_devices", "_get_foreach_kernels_supported_devices"
        StandInModule("torch.utils._foreach_utils", _foreach_supported_types=[],
                      **dict.fromkeys(foreach, lambda: ["cpu"]))  # fmt: skip
        config = StandInModule("torch._dynamo.config", patch=decorator)
        torch._dynamo = StandInModule("torch._dynamo", config=config, allow_in_graph=decorator, disable=decorator)
        torch.profiler.itt = types.SimpleNamespace(is_available=bool)
        lacking_names = torch, torch.nn, torch.nn.functional, torch.utils, torch.autograd, torch.backends
        for module in (*lacking_names, torch.backends.mkldnn, torch.backends.cuda):
            complete(module, module.__name__.replace("jitgrad", "torch"))
        for name in NO_METHODS:
            setattr(torch.Tensor, name, stand_in(f"torch.Tensor.{name}"))
    return case


def seeded(torch, numpy):
    """``set_rng_seed``: every generator that tests draw from starts afresh."""

    def set_rng_seed(seed=0):
        for start in (torch.manual_seed, random.seed, numpy.random.seed):
            start(seed)

    return set_rng_seed


@contextlib.contextmanager
def temporary_name(**options):
    """The name of a file that is gone afterwards."""
    with tempfile.TemporaryDirectory(**options) as folder:
        yield f"{folder}/file"


def indices_of(tensor):
    """``iter_indices``: the index of every element."""
    return range(tensor.size(0)) if tensor.dim() == 1 else itertools.product(*map(range, tensor.size()))


def default_dtype(torch):
    """``set_default_dtype`` as a context."""

    @contextlib.contextmanager
    def setting(dtype):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    return setting


def frozen(torch):
    """``freeze_rng_state``."""

    @contextlib.contextmanager
    def freeze():
        state = torch.get_rng_state()
        try:
            yield
        finally:
            torch.set_rng_state(state)

    return freeze
