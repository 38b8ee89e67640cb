"""Every elementwise op of the table, from its declaration: a new op appears here by itself.

With JITGRAD_FEW_BENCHMARKS set, as in CI, where a benchmark need only run, each class has a few ops.
"""

import os
from functools import partial

import jitgrad
from jitgrad.dispatch.registry import OPS
from jitgrad.kernels.elementwise.declaration import TABLE
from jitgrad.testing import elementwise_sample

from .rounds import AgainstTorch, optional, seconds_of_work, take_turns

SIZES = (1_000, 1_000_000)
# One of each kind: other sizes and layouts run the same rules, and strided loops are compiled anew.
CHOSEN = ("abs", "add", "div", "exp", "gelu", "log", "mul", "pow", "sigmoid", "where")
if os.environ.get("JITGRAD_FEW_BENCHMARKS"):
    EVERY = CHOSEN = CHOSEN[:3]
else:
    EVERY = tuple(sorted(TABLE))
DIFFERENTIABLE = tuple(name for name in EVERY if TABLE[name].grads)
WORDS = ("exp", "log", "tanh", "sigmoid", "erf", "sin")
LAYOUTS = ("contiguous", "strided")


def dtype_of(op):
    """float32 where the op takes it, else what it is for."""
    kinds = {"float": jitgrad.float32, "int": jitgrad.int64, "complex": jitgrad.complex64}
    return next(dtype for kind, dtype in kinds.items() if kind in op.accepts)


def operands_of(name, size, layout=LAYOUTS[0]):
    """The op's generated sample; strided operands are every second column of wider ones."""
    rows = 10
    columns = size // rows
    shape = (rows, columns) if layout == LAYOUTS[0] else (rows, 2 * columns)
    tensors = elementwise_sample(OPS[name], dtype_of(TABLE[name]), shape)
    return tensors if layout == LAYOUTS[0] else [t[:, ::2] for t in tensors]


class Forward:
    """The op without recording, on a thousand elements."""

    params = [EVERY]
    param_names = ["op"]

    def setup(self, name, size=SIZES[0], layout=LAYOUTS[0]):
        self.work = partial(OPS[name], *operands_of(name, size, layout))

    track_seconds = seconds_of_work


class Backward:
    """The gradients of all inputs that have one, from a kept graph."""

    params = [DIFFERENTIABLE]
    param_names = ["op"]

    def setup(self, name, size=SIZES[0], layout=LAYOUTS[0]):
        operands = operands_of(name, size, layout)
        pairs = zip(TABLE[name].inputs, operands, strict=True)
        leaves = [t.requires_grad_() for n, t in pairs if n in TABLE[name].grads]
        out = OPS[name](*operands)
        g = jitgrad.ones_like(out)
        self.work = partial(jitgrad.autograd.grad, out, leaves, g, retain_graph=True)

    track_seconds = seconds_of_work


class ForwardLayouts(Forward):
    """Some ops at both sizes, and on operands that are views with gaps."""

    params = [CHOSEN, SIZES, LAYOUTS]
    param_names = ["op", "n", "layout"]


class BackwardLayouts(Backward):
    """The gradients of the same."""

    params = [CHOSEN, SIZES, LAYOUTS]
    param_names = ["op", "n", "layout"]


class WordsAgainstTorch(AgainstTorch):
    """The words that a million elements show best."""

    params = [WORDS]
    param_names = ["op"]

    def track_forward(self, name):
        torch = optional("torch")
        (x,) = operands_of(name, 1_000_000)
        y = torch.from_numpy(x.numpy())
        ours, theirs = getattr(jitgrad, name), getattr(torch, name)
        times = take_turns({"jitgrad": lambda: ours(x), "torch": lambda: theirs(y)}, 1.0)
        return times["jitgrad"].fastest / times["torch"].fastest
