"""What libraries take from ``torch._dynamo``, PyTorch's compiler: marks without effect. See ``jitgrad.compile``."""

from __future__ import annotations

from typing import Any

from jitgrad._dynamo import config
from jitgrad.compiler import disable, is_compiling, reset
from jitgrad.compiler.marks import allow_in_graph, assume_constant_result, list_backends
from jitgrad.compiler.optimized_module import OptimizedModule
from jitgrad.core.absent import absent_names

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "disallow_in_graph",
    "forbid_in_graph", "graph_break", "is_compiling", "list_backends", "mark_dynamic", "mark_static",
    "mark_static_address", "maybe_mark_dynamic", "nonstrict_trace", "reset",
]  # fmt: skip

disallow_in_graph = forbid_in_graph = nonstrict_trace = allow_in_graph


def mark_dynamic(t: Any, index: Any = None, **options: Any) -> None:
    """Nothing: a compiled function makes a recording for each shape."""


mark_static = mark_static_address = maybe_mark_dynamic = mark_dynamic


def graph_break(msg: str = "") -> None:
    """Nothing."""


absent_names(__name__, "explain export optimize optimize_assert run lookup_backend register_backend",
             "jitgrad.compile records functions in another way")  # fmt: skip
