"""``torch.jit``: its decorators leave functions and modules as they are.

There is no TorchScript: a scripted or traced function is the Python function, which computes the same. So what only
marks, compiles, freezes or optimises gives back what it got, ``is_scripting()`` is False, and what needs a program that
lives without Python (the graph, its code, a file of it) is refused. For speed there is ``jitgrad.compile``.
"""

from jitgrad.core.absent import absent_names
from jitgrad.futures import Future
from jitgrad.jit.marks import (
    Attribute,
    Final,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    isinstance,
    script,
    script_if_tracing,
    script_method,
    strict_fusion,
    unused,
)
from jitgrad.jit.modules import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    freeze,
    load,
    optimize_for_inference,
    save,
    trace,
    trace_module,
)
from jitgrad.jit.switches import (
    enable_onednn_fusion,
    fork,
    fuser,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    wait,
)

__all__ = [
    "Attribute", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule", "annotate",
    "enable_onednn_fusion", "export", "fork", "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing",
    "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip

Error = RuntimeError  # what a scripted program raised
_overload = _overload_method = unused  # typed forms, which only the compiler of TorchScript looks at
_script_if_tracing = script_if_tracing

absent_names(__name__, "CompilationUnit TracerWarning TracingCheckError TopLevelTracedModule export_opnames",
             "there is no TorchScript, and so no graph of it")  # fmt: skip
