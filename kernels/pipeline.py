"""Numba's stages for emitted text, less what that has no use for: a quarter of the time of compiling.

Numba would compile each function that a kernel inlines to machine code of its own, which nobody runs. It looks for
closures, comprehensions, ``with`` blocks and whole-array expressions, which rules, words and loops don't have (a user's
loop may, and takes Numba's own way). And it imports SciPy's linear algebra to know whether that is installed.

The classes that this derives from are in part private to Numba: `compiler` does without this file where one is missing.
What a version of Numba no longer calls is then not left out, which is slower and right.
"""

from __future__ import annotations

import functools
import importlib
from importlib.util import find_spec
from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering

from jitgrad.kernels.brief_lowering import BriefLower
from jitgrad.kernels.loop_marks import MarkingLower
from jitgrad.kernels.numba_context import needs_no_wrapper, python_function

__all__ = ["InlinedPipeline", "KernelPipeline", "prepare"]

# By name, since versions of Numba differ in which there are.
_NEEDLESS = {
    "AnnotateTypes", "DumpParforDiagnostics", "InlineClosureLikes", "InlineOverloads", "MakeFunctionToJitFunction",
    "NopythonRewrites", "WithLifting",
}  # fmt: skip


class _KernelLibrary(JITCodeLibrary):
    """A kernel's machine code."""

    def _optimize_functions(self, module: Any) -> None:
        # A kernel is simplified before others are inlined into it: some loops are not made vectors otherwise.
        if module.name == "wrapper":  # for Python: the passes over the whole module suffice
            module.data_layout = self._codegen._data_layout
        else:
            super()._optimize_functions(module)


class _InlinedLibrary(JITCodeLibrary):
    """LLVM's code of a function that is linked into kernels and optimised there; there is no machine code of it."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


def _never_called(library: Any, description: Any, environment: Any) -> Any:
    """What stands for an inlined function as the key of its implementation, as its wrapper for Python would."""
    module, name = description.lookup_module(), description.qualname.rpartition(".")[2]
    return _dynfunc.make_function(module, name, "", 0, environment, (library,))


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(NativeLowering):
    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type[Any]:
        return MarkingLower

    def run_pass(self, state: Any) -> bool:
        # The passes over functions also remove pairs of increments and decrements of references to arrays.
        if not state.flags.nrt:
            _set_library(state, _KernelLibrary)
        if needs_no_wrapper(state.args, state.return_type):
            state.flags.no_cpython_wrapper = True
            state.targetctx.get_executable = python_function  # of the context of this compilation
        return super().run_pass(state)


@register_pass(mutates_CFG=True, analysis_only=False)
class _InlinedLowering(NativeLowering):
    _name = "inlined_lowering"

    @property
    def lowering_class(self) -> type[Any]:
        return BriefLower

    def run_pass(self, state: Any) -> bool:
        _set_library(state, _InlinedLibrary)
        state.targetctx.get_executable = _never_called  # of the context of this compilation
        return super().run_pass(state)


def _set_library(state: Any, kind: type[Any]) -> None:
    state.library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
    state.library.enable_object_caching()


@functools.cache
def _find_blas() -> None:
    """Let Numba take SciPy's BLAS for there if SciPy is, instead of importing it, which takes 0.15 s.

    It is imported when a user's loop calls ``np.dot``. Kernels that are on disk need neither of Numba's modules.
    """
    linalg: Any = importlib.import_module("numba.np.linalg")
    check = getattr(linalg, "ensure_blas", None)
    if check is None or find_spec("scipy") is None:
        return
    linalg.ensure_blas = lambda: None
    try:
        arraymath: Any = importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = check
    arraymath.ensure_blas = check


def prepare() -> None:
    """Import and register what Numba would at the first kernel, which takes a quarter of a second."""
    _find_blas()
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()


class _Pipeline(CompilerBase):
    lowering: type[Any]

    def __init__(self, *args: Any):
        _find_blas()
        super().__init__(*args)

    def define_pipelines(self) -> list[Any]:
        """Numba's stages in their order, without those that are needless."""
        manager = PassManager("kernel")
        for stage, description in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if stage.__name__ not in _NEEDLESS:
                manager.add_pass(self.lowering if stage is NativeLowering else stage, description)
        manager.finalize()
        return [manager]


class KernelPipeline(_Pipeline):
    """For a kernel that rules and words, or a loop of ours, make up."""

    lowering = _KernelLowering


class InlinedPipeline(_Pipeline):
    """For a function that is only ever inlined."""

    lowering = _InlinedLowering
