"""Where results go (``out=``, dtypes of it, shared memory) and what tensors are made of, beside PyTorch."""

from array import array

import numpy as np
import pytest

import jitgrad

from ...beside import outcome, same, torch


class Sequence:
    """What only has lengths and items."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return 3

    def __getitem__(self, place):
        if self.items is None:
            raise TypeError
        return self.items[place]


def into(make):
    """What a view, and the tensor that it shows, hold once ``make(library, view)`` has written to the view."""

    def run(t, x):
        whole = t.zeros(2, 3)
        make(t, whole[:, 1:])
        return whole

    return run


def itself():
    """A list that holds itself."""
    found = [0]
    found.append(found)
    return found


def shared(make):
    """What a tensor on memory of NumPy holds once the memory has changed."""

    def run(t, x):
        memory = np.ones(3, np.float32)
        made = make(t, memory)
        memory[0] = 5
        return made

    return run


def floats(t):
    return t.zeros(3)


CASES = {
    "arange into a view": into(lambda t, view: t.arange(0, 4, out=view)),
    "linspace into a view": into(lambda t, view: t.linspace(0, 3, 4, out=view)),
    "logspace into a view": into(lambda t, view: t.logspace(0, 3, 4, out=view)),
    "linspace into complex numbers": lambda t, x: t.linspace(0, 3, 4, out=t.zeros(2, 2, dtype=t.complex64)),
    "arange of another dtype than out": lambda t, x: t.arange(3, dtype=t.int64, out=t.zeros(3)),
    "eye of another dtype than out": lambda t, x: t.eye(3, dtype=t.int64, out=t.zeros(3, 3)),
    "sum of another dtype than out": lambda t, x: t.sum(floats(t), 0, dtype=t.float64, out=t.zeros(())),
    "mean of another dtype than out": lambda t, x: t.mean(floats(t), 0, dtype=t.float64, out=t.zeros(())),
    "mean in the dtype of out": lambda t, x: t.mean(floats(t), 0, out=t.zeros((), dtype=t.float64)),
    "prod of another dtype than out": lambda t, x: t.prod(floats(t), 0, dtype=t.float64, out=t.zeros(())),
    "cumsum of another dtype than out": lambda t, x: t.cumsum(floats(t), 0, dtype=t.float64, out=t.zeros(3)),
    "max, values of another dtype": lambda t, x: t.max(
        t.ones(2, 2), 0, out=(t.zeros(2, dtype=t.int32), t.zeros(2, dtype=t.int64))
    ),
    "max, indices of another dtype": lambda t, x: t.max(t.ones(2, 2), 0, out=(t.zeros(2), t.zeros(2))),
    **{
        f"{name}, {values} and {indices}": lambda t, x, name=name, rest=rest, values=values, indices=indices: getattr(
            t, name
        )(t.ones(2, 2), *rest, out=(t.zeros(size, dtype=getattr(t, values)), t.zeros(size, dtype=getattr(t, indices))))
        for name, rest, size in (("mode", (0,), (2,)), ("cummax", (0,), (2, 2)), ("frexp", (), (2, 2)))
        for values, indices in (("float64", "int64"), ("float32", "int8"))
    },
    "nonzero as a tuple, with out": lambda t, x: t.nonzero(x, as_tuple=True, out=t.zeros(3, dtype=t.int64)),
    "complex numbers as bools": lambda t, x: t.tensor([1e-323, 0j, 1e-323j, -1j], dtype=t.bool),
    "a sequence of one's own": lambda t, x: t.tensor(Sequence([1.0, 2.0, 3.0])),
    "a sequence without items": lambda t, x: t.tensor(Sequence(None)),
    "a list with a word": lambda t, x: t.tensor([0, "torch"]),
    "a list that holds itself": lambda t, x: t.tensor(itself()),
    "a list beside one that holds itself": lambda t, x: t.tensor([[1, 2], itself()]),
    "a dict": lambda t, x: t.tensor({0: 2, 1: 3}),
    "asarray of memory": shared(lambda t, memory: t.asarray(memoryview(memory), dtype=t.float32)),
    "asarray of memory, copied": shared(lambda t, memory: t.asarray(memoryview(memory), dtype=t.float32, copy=True)),
    "asarray of bytes": lambda t, x: t.asarray(b"abcdefgh", dtype=t.int32),
    "asarray of Python's array": lambda t, x: t.asarray(array("f", [1.0, 2.0])),
    "asarray of an array, no copy": shared(lambda t, memory: t.asarray(memory, copy=False)),
    "asarray of another dtype, no copy": lambda t, x: t.asarray(x, dtype=t.float64, copy=False),
    "asarray of a list, no copy": lambda t, x: t.asarray([1, 2], copy=False),
    "asarray of a number of NumPy, no copy": lambda t, x: t.asarray(np.float64(0.5), copy=False),
    "FloatTensor elsewhere": lambda t, x: t.FloatTensor(device="cuda"),
    "Tensor of a tensor on a device": lambda t, x: t.Tensor(x, device="cpu"),
    "new of a tensor on a device": lambda t, x: x.new(x, device="cpu"),
    "strides beyond memory": lambda t, x: t.empty_strided([8, 8], [2**61, 1], dtype=t.float64),
    "randperm beyond float32": lambda t, x: t.randperm(2**24 + 2, dtype=t.float32),
    "linspace of complex numbers as floats": lambda t, x: t.linspace(1j, 2, 3, dtype=t.float32),
    "logspace of complex numbers as floats": lambda t, x: t.logspace(1, 2j, 3, dtype=t.float64),
    "linspace of complex numbers into floats": lambda t, x: t.linspace(1j, 2, 3, out=t.zeros(3)),
    "uniform beyond the dtype": lambda t, x: t.empty(2).uniform_(-1e39, 1),
    "uniform over more than the dtype holds": lambda t, x: t.empty(2).uniform_(-3e38, 3e38),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_pytorch(name):
    ours, theirs = (outcome(CASES[name], library, [0.5, 1.5, -2.0]) for library in (jitgrad, torch))
    same(ours, theirs)
