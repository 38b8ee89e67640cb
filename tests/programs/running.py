"""Runs a program of this folder under a library: only the name of what it imports is changed."""

import re
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["run"]


def run(program, library, steps):
    """The losses of the first steps of ``program``, a file beside this one, under "jitgrad" or "torch"."""
    path = Path(__file__).with_name(f"{program}.py")
    text = re.sub(r"\bjitgrad\b", library, path.read_text(encoding="utf-8"))
    module = sys.modules[f"{program}_of_{library}"] = ModuleType(f"{program}_of_{library}")
    exec(compile(text, str(path), "exec"), vars(module))
    return module.main(steps)
