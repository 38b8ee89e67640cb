"""What ``__torch_function__`` is told, and what subclasses print, as PyTorch has it."""

import operator

import pytest
import torch

import jitgrad

LIBRARIES = [jitgrad, torch]


def told(library, function):
    """(the names of the functions that a subclass is told of in a call of ``function``, the repr of its result)."""

    class Told(library.Tensor):
        names = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.names.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = library.tensor([[1.0, 2.0], [3.0, 4.0]]).as_subclass(Told)
    Told.names.clear()
    out = function(library, x)
    return list(Told.names), type(out).__name__, str(out).replace("jitgrad.", "torch.")


BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.eq,
          operator.ne, operator.lt, operator.ge, operator.matmul]  # fmt: skip
CALLS = [
    *[lambda t, x, f=f: f(x, t.ones(2, 2)) for f in BINARY],
    *[lambda t, x, f=f: f(t.ones(2, 2), x) for f in BINARY],
    *[lambda t, x, f=f: f(2.0, x) for f in BINARY[:-1]],
    lambda t, x: 2.0**x, lambda t, x: -x, lambda t, x: abs(x), lambda t, x: x[0], lambda t, x: len(x),
    lambda t, x: x.shape, lambda t, x: x.dtype, lambda t, x: x.T, lambda t, x: x.grad, lambda t, x: x.data,
    lambda t, x: x.sum(0), lambda t, x: x.max(1).values, lambda t, x: t.stack([x, x]), lambda t, x: x.add_(1),
    lambda t, x: t.nn.functional.relu(x), lambda t, x: t.nn.functional.softmax(x, -1), lambda t, x: t.zeros_like(x),
    lambda t, x: t.nn.functional.linear(x, t.ones(3, 2)), lambda t, x: t.einsum("ij->j", x), lambda t, x: x.detach(),
    lambda t, x: x.size(), lambda t, x: x.long(), lambda t, x: x.tolist(), lambda t, x: x.clone().requires_grad_(),
    lambda t, x: t.cat([x, t.ones(1, 2)]), lambda t, x: x.view(-1), lambda t, x: repr(x),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_what_is_told(call):
    ours, theirs = (told(library, call) for library in LIBRARIES)
    assert ours == theirs


def test_operators_of_strangers():
    for library in LIBRARIES:

        class Stranger:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return func.__name__, [t.__name__ for t in types], len(args)

        x, s = library.ones(2), Stranger()
        found = [library.add(x, s), x + s, library.mean(s), library.cat([s, x]), library.nn.functional.relu(s),
                 x.add(s), library.where(s, x, x), x @ s, library.matmul(x, s)]  # fmt: skip
        if library is jitgrad:
            ours = found
    assert ours == found
