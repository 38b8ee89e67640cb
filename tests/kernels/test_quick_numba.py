"""The shorter ways that Numba is given while it compiles: what they find is what Numba finds, and they end with it."""

import operator

import numpy as np
import pytest
from llvmlite.binding import ffi
from numba.core import event, interpreter, ir, types
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.registry import cpu_target
from numba.core.typing import templates

from jitgrad.kernels import compiler, numba_dispatcher
from jitgrad.kernels.kernel_text import KernelError
from jitgrad.kernels.quick_numba import quick_numba

PARTS = [
    (types.Function, "get_call_type"), (templates._TemplateTargetHelperMixin, "_get_target_registry"),
    (ir.Inst, "_rec_list_vars"), (ffi.lib._lock, "_cblist"),
]  # fmt: skip


def test_it_ends_with_the_compilation():
    assert numba_dispatcher.quick_numba is quick_numba  # not the replacement for a Numba whose parts have moved
    before = [getattr(owner, name) for owner, name in PARTS]
    with quick_numba():
        assert all(getattr(owner, name) is not b for (owner, name), b in zip(PARTS, before, strict=True))
    compiler.compile_text("right", "def right(x):\n    x[0] = 1\n")(np.zeros(3))
    with pytest.raises(KernelError):
        compiler.compile_text("wrong", "def wrong(x):\n    x.nothing()\n")(np.zeros(3))
    assert [getattr(owner, name) for owner, name in PARTS] == before


def test_signatures_that_are_known_are_not_looked_for():
    asked = []
    with quick_numba():
        add = cpu_target.typing_context.resolve_value_type(operator.add)
        given = types.float32, types.float64
        add.get_call_type(cpu_target.typing_context, given, {})
        template = add.templates[0]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(template, "apply", lambda *args: asked.append(args))
            assert add.get_call_type(cpu_target.typing_context, given, {}).return_type == types.float64
    assert not asked


def test_variables_of_statements_are_those_that_numba_finds():
    def function(x, y, *rest, k=2):
        table = {"a": x, "b": (y, [k, x])}
        for i in range(3):
            if x > y or i in rest:
                y = table["a"] + (x[i:k, ...] if k else -y)
        return y

    identity = FunctionIdentity.from_function(function)
    made = interpreter.Interpreter(identity).interpret(ByteCode(identity))
    statements = [s for block in made.blocks.values() for s in block.body]
    expected = [s.list_vars() for s in statements]
    with quick_numba():
        assert [s.list_vars() for s in statements] == expected
    assert any(len(v) > 2 for v in expected)


def test_who_listens_to_calls_of_llvm_hears_of_them():
    heard = []

    class Listener(event.Listener):
        def on_start(self, told):
            heard.append(told.kind)

        def on_end(self, told):
            heard.append(told.kind)

    listener = Listener()
    event.register("numba:llvm_lock", listener)
    try:
        with quick_numba():
            ffi.lib.LLVMPY_GetGlobalContext()
    finally:
        event.unregister("numba:llvm_lock", listener)
    assert heard == ["numba:llvm_lock"] * 2
