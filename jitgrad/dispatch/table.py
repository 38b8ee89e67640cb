"""The functions of the elementwise table by name, for ops that are composed of them: ``table.where(mask, x, 0)``.

Declarations in ``jitgrad.kernels.elementwise`` have no Python function that could be imported; here each has one,
also those that are not public (``table.div_floor``). ``table.NAME.operation`` is the op itself, with its in-place and
general forms. The stub beside this file lists the names, so a type checker refuses one that is not there.
"""

from __future__ import annotations

from typing import Any

from jitgrad.dispatch.elementwise_publish import OPERATIONS

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name not in OPERATIONS:
        raise AttributeError(f"no op called {name!r} is declared in jitgrad.kernels.elementwise")
    # Set as an attribute, so that Python calls this once for each name.
    function = globals()[name] = OPERATIONS[name].function
    return function
