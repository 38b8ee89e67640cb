"""run: a script or module for which ``import torch`` means jitgrad, run as Python itself runs it."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

from jitgrad import compat

__all__ = ["run_module", "run_script"]


def run_script(path: str, arguments: Sequence[str] = ()) -> int:
    """Run ``python path arguments`` with PyTorch's name meaning jitgrad; return the exit status.

    The script sees its own ``sys.argv``, ``sys.path[0]`` and ``__main__``, and an uncaught error shows only its frames.
    """
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))

    def load() -> tuple[CodeType, dict[str, Any]]:
        place = os.path.abspath(path)
        with io.open_code(place) as file:
            text = file.read()
        return compile(text, place, "exec", dont_inherit=True), {"__file__": place, "__cached__": None}

    if not os.path.exists(path):
        reason = "[Errno 2] No such file or directory"
        print(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: {reason}", file=sys.stderr)
        return 2
    return _run(load)


def run_module(name: str, arguments: Sequence[str] = ()) -> int:
    """Run ``python -m name arguments`` with PyTorch's name meaning jitgrad; return the exit status."""
    sys.argv[:] = ["-m", *arguments]  # until it is found, as in Python
    sys.path.insert(0, os.getcwd())
    compat.install()
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):  # not of the module, but of one it needs
            raise
        spec = None
    loader: Any = spec.loader if spec is not None else None
    if spec is None or not hasattr(loader, "get_code"):
        print(f"{sys.executable}: No module named {name}", file=sys.stderr)
        return 1
    sys.argv[0] = spec.origin or name

    def load() -> tuple[CodeType, dict[str, Any]]:
        found = {"__file__": spec.origin, "__cached__": spec.cached, "__spec__": spec, "__package__": spec.parent}
        return loader.get_code(spec.name), {**found, "__loader__": loader}

    return _run(load)


def _run(load: Callable[[], tuple[CodeType, dict[str, Any]]]) -> int:
    """Run code as ``__main__``; the exit status. What it raises is shown as Python shows it, without our frames."""
    compat.install()
    main = ModuleType("__main__")
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main  # for good, since threads and functions called at exit look at it, too
    try:
        code, names = load()
        vars(main).update(names)
        exec(code, vars(main))
    except SystemExit:
        raise
    except BaseException as error:
        return _shown(error)
    return 0


def _shown(error: BaseException) -> int:
    """Show an error that a program has not caught; the exit status."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__") == __name__:
        frames = frames.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, frames
    sys.excepthook(type(error), error.with_traceback(frames), frames)
    if not isinstance(error, KeyboardInterrupt):
        return 1
    if os.name == "posix":  # Python ends by the signal itself, so that a shell stops its own script, too
        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 130
