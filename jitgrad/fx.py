"""``torch.fx``: programs as graphs of symbols, which are not here. Its names can be imported, not used."""

from __future__ import annotations

from jitgrad.core.absent import absent_names

absent_names(__name__, "Graph GraphModule Interpreter Node Proxy Tracer Transformer replace_pattern symbolic_trace",
             "functions are not traced by symbols; jitgrad.compile records launches")  # fmt: skip


def wrap(fn_or_name: object) -> object:
    """``fn_or_name`` itself: a mark for the tracer."""
    return fn_or_name


def has_side_effect(fn: object) -> object:
    """``fn`` itself."""
    return fn
