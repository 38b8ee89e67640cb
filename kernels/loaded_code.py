"""What a kernel that comes from disk needs of Numba, and no more.

Of each Numba function that a kernel contains its file has the constants, and names the module. Numba imports that, for
globals that only Python code reads; ``numba.np.arrayobj``, which every kernel that makes arrays has a function of,
takes longer than all else of the way back from disk.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from numba.core.environment import Environment, lookup_environment

__all__ = ["unpickled"]


def unpickled(payload: bytes) -> Any:
    """What a kernel's file holds."""
    return _Reader(io.BytesIO(payload)).load()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What is unpickled under a name."""
        found = super().find_class(module, name)
        return _without_imports(found) if (module, name) == ("numba.core.environment", "_rebuild_env") else found


def _without_imports(rebuild: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's function that makes the environment of a function, for modules that nobody has imported, too.

    Compiled code reads constants alone. Numba's object mode, which jitgrad doesn't use, reads globals.
    """

    def environment(module: str, constants: Any, name: str) -> Any:
        if module in sys.modules or not module.startswith("numba.") or lookup_environment(name) is not None:
            return rebuild(module, constants, name)
        made = Environment.from_fndesc(SimpleNamespace(env_name=name, lookup_globals=lambda: {"__name__": module}))
        made.consts[:] = constants
        return made

    return environment
