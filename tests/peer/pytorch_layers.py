"""PyTorch's tables of layers and losses, from the installed torch's sources, and what its tests of nn need besides."""

from __future__ import annotations

import ast
import contextlib
import sys
import types
import unittest
from pathlib import Path

import hypothesis.strategies
from pytorch_framework import StandInModule, decorator, elsewhere


class Marks(StandInModule):
    """A module of the framework, most of whose names are decorators for other devices."""

    def __getattr__(self, attribute):
        if attribute.startswith(("expectedFailure", "skipCUDA", "skipMPS", "skipCPU", "disable", "skipXLA", "skipIf")):
            return decorator
        return super().__getattr__(attribute)


class Flags(contextlib.ContextDecorator):
    """``torch.backends.cudnn.flags``, which change nothing."""

    def __init__(self, *args, **flags):
        self.flags = flags

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


_PRECISIONS = {"float32": 1e-5, "float64": 1e-5, "float16": 1e-2, "bfloat16": 1e-1}  # the tests' tolerances

def complete_framework(library, text, soft_imports, import_softly):
    """Fill the stand-ins of PyTorch's test framework up with what tests of nn import.

    Its ``common_nn`` is the real one, where the ``text`` of a file of tests names it.
    """
    internal = "torch.testing._internal"
    utils, cuda, devices = (
        sys.modules[f"{internal}.{name}"] for name in ("common_utils", "common_cuda", "common_device_type")
    )
    library.testing._internal = sys.modules[internal]
    vars(sys.modules[internal]).update(common_utils=utils, common_cuda=cuda, common_device_type=devices)
    vars(utils).update(
        is_iterable=lambda value: hasattr(value, "__iter__"), to_gpu=lambda value, types=None: value,
        _assertGradAndGradgradChecks=check_gradients(utils), GRADCHECK_NONDET_TOL=0.0, TEST_WITH_CROSSREF=False,
        gcIfJetson=decorator, skipIfNotMiopenSuggestNHWC=decorator, IS_JETSON=False,
        dtype2prec_DONTUSE={getattr(library, name): limit for name, limit in _PRECISIONS.items()},
        get_function_arglist=lambda f: __import__("inspect").getfullargspec(f).args, TEST_WITH_ASAN=False,
        TEST_WITH_TSAN=False, TEST_WITH_UBSAN=False, skipIfNNModuleInlined=lambda *a, **k: decorator,
        set_rng_seed=lambda seed=None: library.manual_seed(1234 if seed is None else seed), MACOS_VERSION=0.0,
        skipIfRocmVersionLessThan=lambda *a: decorator, NOTEST_CPU=False,
    )  # fmt: skip
    vars(cuda).update(
        TEST_CUDNN=False, tf32_is_not_fp32=bool, tf32_off=decorator, tf32_on=decorator, SM90OrLater=False,
        PLATFORM_SUPPORTS_FUSED_ATTENTION=False, PLATFORM_SUPPORTS_FUSED_SDPA=False, SM80OrLater=False,
        TEST_CUDNN_VERSION=0, tf32_enabled=Flags,
    )  # fmt: skip
    vars(devices).update(
        toleranceOverride=lambda *a: decorator, largeTensorTest=lambda *a, **k: unittest.skip("too large"),
        onlyCUDAAndPRIVATEUSE1=elsewhere, get_all_device_types=lambda: ["cpu"],
    )  # fmt: skip
    utils.__class__ = devices.__class__ = Marks
    if library.__name__ == "jitgrad":
        library.backends.miopen = library.backends.cudnn
        library._nnpack_available = library._running_with_deploy = bool
    StandInModule("test_cpp_extensions_open_device_registration")  # for a device that a test makes itself
    arrays = StandInModule(f"{internal}.hypothesis_utils", tensor=lambda **options: hypothesis.strategies.none())
    sys.modules[internal].hypothesis_utils = arrays
    if "common_nn" not in text:
        return
    path = next(p for p in (Path(e, "torch/testing/_internal/common_nn.py") for e in sys.path) if p.exists())
    tree = ast.fix_missing_locations(soft_imports().visit(ast.parse(path.read_text())))
    module = types.ModuleType(f"{internal}.common_nn")
    module.import_softly = import_softly
    sys.modules[module.__name__] = module
    exec(compile(tree, str(path), "exec"), vars(module))
    module.new_module_tests = module.get_new_module_tests()
    sys.modules[internal].common_nn = module


def check_gradients(utils):
    """``_assertGradAndGradgradChecks``."""

    def check(case, f, inputs, **options):
        case.assertTrue(utils.gradcheck(f, inputs, **options))
        case.assertTrue(utils.gradgradcheck(f, inputs, **options))

    return check
