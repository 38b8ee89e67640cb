"""Who computes the gradients, each in a process of its own: the loop by Numba, by hand, jitgrad, torch and JAX.

JAX may live in another environment: JAX_PYTHON names its interpreter, which needs NumPy and JAX alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .problems import PROBLEMS

__all__ = ["CONTENDERS", "LoopContender", "serve"]

BENCH = Path(__file__).parents[1]
SAMPLE = 0.012  # seconds of a sample, as those of figures/contenders.py
LONG = 1.0  # a call that takes longer is made once
Work = Callable[[], Any]


class Absent(Exception):
    """A contender has no program for a problem."""


def _program(programs: dict[str, Any], name: str) -> Any:
    if name not in programs:
        raise Absent(name)
    return programs[name]


def plain_loop(name: str) -> Work:
    """The value alone, by Numba: the measure of all others."""
    compiled, arguments = import_module("numba").njit(PROBLEMS[name].function), PROBLEMS[name].arguments()
    return lambda: (compiled(*arguments), ())


def by_hand(name: str) -> Work:
    """What `adjoints` has."""
    from .adjoints import ADJOINTS

    gradient, arguments = _program(ADJOINTS, name), PROBLEMS[name].arguments()

    def work() -> Any:
        value, *gradients = gradient(*arguments)
        return value, gradients

    return work


def jitgrad_gradient(name: str) -> Work:
    """What jitgrad derives from the function, called from Python."""
    jitgrad, problem = import_module("jitgrad"), PROBLEMS[name]
    if not hasattr(jitgrad, "numba_grad"):
        raise Absent("this checkout derives no adjoints")
    function = jitgrad.differentiable(problem.function)
    gradient, arguments = jitgrad.numba_grad(function, argnums=problem.argnums, value=True), problem.arguments()

    def work() -> Any:
        value, *gradients = gradient(*arguments)
        return value, gradients

    return work


def by_torch(name: str) -> Work:
    """Recorded op by op."""
    torch = import_module("torch")
    torch.set_num_threads(1)  # like the loops; its ops are small
    written = import_module("loops.torch_programs")
    _program(written.TORCH_PROGRAMS, name)
    return written.torch_gradient(torch, name)


def by_jax(programs: str) -> Callable[[str], Work]:
    """One of the dicts of `jax_programs`."""

    def make(name: str) -> Work:
        os.environ["NPROC"] = "1"  # read when XLA starts its threads; more of them don't help a scan
        jax = import_module("jax")
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # a call returns when its results are there
        written = import_module("loops.jax_programs")
        _program(getattr(written, programs), name)
        return written.jax_gradient(jax, getattr(written, programs), name)

    return make


CONTENDERS: dict[str, Callable[[str], Work]] = {
    "njit": plain_loop,
    "by hand": by_hand,
    "jitgrad": jitgrad_gradient,
    "torch": by_torch,
    "jax": by_jax("PLAIN"),
    "jax tuned": by_jax("TUNED"),
}


class Served:
    """A work, how long a call takes, and the numbers that it has computed."""

    def __init__(self, work: Work, compiles: bool):
        self.work, self.count = work, 0
        if compiles:
            work()
        start = time.perf_counter()
        value, gradients = work()
        self.once = time.perf_counter() - start
        of = [np.asarray(g, np.float64) for g in gradients]
        value = value.detach() if hasattr(value, "detach") else value
        self.numbers = [float(value), *(float(v) for g in of for v in (g.sum(), np.linalg.norm(g)))]

    def seconds(self) -> float:
        """One sample."""
        if self.once > LONG:
            return self.once
        count = max(1, round(SAMPLE / self.once))
        self.work()  # caches hold the other process's data
        start = time.perf_counter()
        for _ in range(count):
            self.work()
        return (time.perf_counter() - start) / count


def serve(contender: str) -> None:
    """Answer lines on standard input, "request: name", with numbers; with a sentence where there are none."""
    made: dict[str, Served | str] = {}
    for line in sys.stdin:
        request, name = line.rstrip("\n").split(": ", 1)
        if name not in made:
            made.clear()  # the arrays of another problem would stay in memory
            made[name] = _served(contender, name)
        served = made[name]
        if isinstance(served, str):
            print("!", served, flush=True)
        elif request == "numbers":
            print(*served.numbers, flush=True)
        else:
            print(served.seconds(), flush=True)


def _served(contender: str, name: str) -> Served | str:
    try:
        return Served(CONTENDERS[contender](name), compiles=contender != "torch")
    except (Absent, ModuleNotFoundError):
        return "-"
    except Exception as error:  # whatever a contender can't do, the others go on
        return f"{type(error).__name__}: {error}".splitlines()[0]


class LoopContender:
    """A process that times problems as one of `CONTENDERS`."""

    def __init__(self, name: str):
        python = os.environ.get("JAX_PYTHON", sys.executable) if name.startswith("jax") else sys.executable
        code = "import sys; sys.path.insert(0, sys.argv[1]); from loops.contenders import serve; serve(sys.argv[2])"
        self.process = subprocess.Popen(
            [python, "-c", code, str(BENCH), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def numbers(self, problem: str) -> list[float] | str:
        """The value, and of each gradient the sum and the norm; or why there are none ("-": there is no program)."""
        return self._answer("numbers", problem)

    def seconds(self, problem: str) -> float:
        """One sample."""
        answer = self._answer("seconds", problem)
        assert not isinstance(answer, str), answer
        return answer[0]

    def _answer(self, request: str, problem: str) -> list[float] | str:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(f"{request}: {problem}", file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer or answer[0] == "!":
            return answer[1:].strip() or "its process has ended"
        return [float(word) for word in answer.split()]

    def close(self) -> None:
        """End the process."""
        self.process.communicate()
