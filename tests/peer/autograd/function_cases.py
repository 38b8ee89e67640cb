"""Functions that run under PyTorch and here; what they return, warn of and raise, in comparable form."""

import re
import warnings

import pytest

import jitgrad

torch = pytest.importorskip("torch")


class Cases(list):
    """Functions of a library, collected by decoration."""

    def __call__(self, function):
        self.append(function)
        return function


def plain(value):
    """A comparable form of a result."""
    if isinstance(value, (torch.Tensor, jitgrad.Tensor)):
        node = value.grad_fn
        return (str(value.dtype).split(".")[1], tuple(value.shape), node and type(node).__name__, value.requires_grad,
                value.detach().cpu().tolist())  # fmt: skip
    if isinstance(value, Exception):
        text = re.sub(r" \(Triggered internally.*| at 0x\w+", "", str(value), flags=re.S)
        return type(value).__name__, text.replace("jitgrad.", "torch.").strip()
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None))) else re.sub(r" at 0x\w+", "", repr(value))


def run(function, library):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(library)
        except Exception as error:
            result = error
    told = sorted((w.category.__name__, plain(w.message)) for w in caught if "jit" not in str(w.message))
    return plain(result), told, library.is_grad_enabled()


def error_of(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return error


def double(torch, function, *args):
    """Gradients and gradients of gradients of the sum of cubes of what a function returns."""
    wanted = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    out = function(*args)
    total = sum((o**3).sum() for o in (out if isinstance(out, tuple) else (out,)))
    first = torch.autograd.grad(total, wanted, create_graph=True)
    second = torch.autograd.grad(sum((f**2).sum() for f in first), wanted, allow_unused=True)
    return [out, [f.detach() for f in first], second]


def leaf(torch, *values, dtype=None):
    return torch.tensor(values or (1.0, 2.0, 3.0), dtype=dtype, requires_grad=True)


def scale(torch, **overrides):
    """A Function that doubles, with parts replaced."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return type("Scale", (Scale,), {k: staticmethod(v) for k, v in overrides.items()})


def saving(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    return Square


def doubling(torch, dirty=lambda x, out: (x,), result=lambda x: x, save=lambda x: ()):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *others):
            x.mul_(2)
            out = result(x)
            ctx.mark_dirty(*dirty(x, out))
            ctx.save_for_backward(*save(x))
            return out

        @staticmethod
        def backward(ctx, g, *others):
            return (g * 2, *[None] * (len(ctx.needs_input_grad) - 1))

    return Twice
