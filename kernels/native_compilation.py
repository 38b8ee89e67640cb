"""LLVM modules compiled by Numba's code generator, and its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import config, types
from numba.core.callconv import RETCODE_USEREXC, excinfo_ptr_t
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

__all__ = ["build_raiser", "compiled_module", "numba_setting"]


@contextmanager
def numba_setting(name: str, value: Any) -> Iterator[None]:
    """A setting of Numba's for the time of a compilation.

    NUMBA_BOUNDSCHECK and NUMBA_DISABLE_JIT are for loops that users debug. jitgrad's strided kernels index beyond
    arrays of one element on purpose, so both would break them.
    """
    # Numba compiles under this lock (it is reentrant), so no other thread compiles with the changed setting.
    with global_compiler_lock:
        before = getattr(config, name)
        setattr(config, name, value)
        try:
            yield
        finally:
            setattr(config, name, before)


@global_compiler_lock
def compiled_module(name: str, build: Callable[[ir.Module], None]) -> Any:
    """The library of the module that ``build`` fills."""
    module = cpu_target.target_context.create_module(name)
    build(module)
    library = cpu_target.target_context.codegen().create_library(name)
    library.enable_object_caching()
    # LLVM's simple passes, function by function, put variables into registers. All that it has for whole modules takes
    # twice the time, and these functions, which wait for memory and for one another, are no quicker for it.
    level = type(config.OPT)
    with numba_setting("OPT", level(1)):
        library.add_ir_module(module)
    with numba_setting("OPT", level(0)), numba_setting("LOOP_VECTORIZE", 0):
        library.finalize()
    return library


def build_raiser(module: ir.Module) -> None:
    """Fill a module with ``raise_error``, which makes Python's exception from Numba's description of it."""
    context, error = cpu_target.target_context, ir.IntType(64)
    object_ = context.get_argument_type(types.pyobject)
    function = ir.Function(module, ir.FunctionType(object_, [error]), "raise_error")
    builder = ir.IRBuilder(function.append_basic_block())
    described = builder.inttoptr(function.args[0], excinfo_ptr_t)
    status = context.call_conv._get_return_status(builder, RETCODE_USEREXC, described)
    context.call_conv.raise_error(builder, context.get_python_api(builder), status)
    builder.ret(ir.Constant(object_, None))
