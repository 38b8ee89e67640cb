"""``jitgrad.differentiable``: what a gradient costs beside the loop that it is derived from, and what it keeps.

``compare.py loops`` puts adjoints written by hand, torch and JAX beside it.
"""

import os
import sys
from pathlib import Path

import jitgrad

from .rounds import take_turns

sys.path.insert(0, str(Path(__file__).parents[1]))
from loops.problems import PROBLEMS

FEW = slice(None, 2 if os.environ.get("JITGRAD_FEW_BENCHMARKS") else None)


class Loops:
    """Value and gradients of a loop."""

    params = [tuple(PROBLEMS)[FEW]]
    param_names = ["loop"]
    timeout = 120

    def track_ratio(self, name):
        import numba

        problem = PROBLEMS[name]
        arguments = problem.arguments()
        plain = numba.njit(error_model="numpy", nogil=True)(problem.function)
        gradient = jitgrad.numba_grad(problem.function, problem.argnums, value=True)
        times = take_turns({"loop": lambda: plain(*arguments), "gradient": lambda: gradient(*arguments)}, 1.0)
        return times["gradient"].fastest / times["loop"].fastest

    track_ratio.unit = "value and gradients / value"

    def track_kept_bytes(self, name):
        problem = PROBLEMS[name]
        op = jitgrad.differentiable(problem.function)
        values = [jitgrad.tensor(v, requires_grad=True) if k in problem.argnums else v
                  for k, v in enumerate(problem.arguments(problem.small))]  # fmt: skip
        node = op(*values).grad_fn
        return sum(getattr(v, "nbytes", 0) for v in node.kept.values)

    track_kept_bytes.unit = "bytes, small size"
