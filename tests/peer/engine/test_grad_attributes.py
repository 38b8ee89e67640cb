"""``requires_grad``, ``grad`` and ``data`` as PyTorch's users set them: what is kept, and what is refused."""

import copy
import pickle
import warnings

import pytest

import jitgrad

from ..beside import outcome, same
from .programs import VALUES, Programs, names

torch = pytest.importorskip("torch")
program = Programs()


@program
def flags(m, x):
    a = x.clone().requires_grad_()
    b = a * 2
    c = b.detach()
    return [(t.requires_grad, t.is_leaf, t.grad_fn is None, t.output_nr, t._version) for t in (x, a, b, c, b[0])]


@program
def change_a_nonleaf(m, x):
    (x.requires_grad_() * 2).requires_grad_(False)


@program
def whole_numbers_cannot(m, x):
    m.ones(2, dtype=m.int64).requires_grad_()


@program
def whole_numbers_cannot_be_made(m, x):
    m.ones(2, dtype=m.int64, requires_grad=True)


@program
def assign_grad(m, x):
    x.requires_grad_()
    x.grad = m.ones(3, 4, dtype=m.float64)
    (x * 2).sum().backward()
    first = x.grad
    del x.grad
    return first, x.grad


@program
def assign_grad_of_another_shape(m, x):
    x.grad = m.ones(4, dtype=m.float64)


@program
def assign_grad_of_another_dtype(m, x):
    x.grad = m.ones(3, 4)


@program
def assign_grad_of_another_kind(m, x):
    x.grad = 3


@program
def grad_of_a_nonleaf_warns(m, x):
    y = x.requires_grad_() * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = y.grad
        _ = x.grad
    return found, [str(w.message)[:100] for w in caught]


@program
def set_data(m, x):
    a = x.clone().requires_grad_()
    b = a * 1
    a.data = m.zeros(3, 4, dtype=m.float64)
    b.sum().backward()
    return a, a.grad, a._version


@program
def set_data_of_another_shape(m, x):
    a = x.clone().requires_grad_()
    b = (a * a).sum()
    a.data = m.zeros(2, dtype=m.float64)
    return a.shape, a.requires_grad


@program
def write_through_data(m, x):
    a = x.clone().requires_grad_()
    b = (a * a).sum()
    a.data.zero_()
    b.backward()
    return a.grad, a._version


@program
def write_through_detach(m, x):
    a = x.clone().requires_grad_()
    b = (a * a).sum()
    a.detach().zero_()
    b.backward()


@program
def copies(m, x):
    a = x.clone().requires_grad_()
    (a * 2).sum().backward()
    b = copy.deepcopy(a)
    c = pickle.loads(pickle.dumps(a))
    return b, b.grad, b.requires_grad, c, c.requires_grad


@program
def deep_copy_of_a_nonleaf(m, x):
    copy.deepcopy(x.requires_grad_() * 2)


@program
def numpy_of_what_requires_grad(m, x):
    x.requires_grad_().numpy()


@program
def dtype_conversions(m, x):
    x.requires_grad_()
    y = x.float().double().to(m.float32)
    (y * 2).sum().backward()
    z = m.ones(2, requires_grad=True)
    (z.double() * m.ones(2, dtype=m.float64)).sum().backward()
    return x.grad, z.grad, names(y.grad_fn)


@pytest.mark.parametrize("name", program)
def test_program(name):
    same(outcome(program[name], jitgrad, VALUES), outcome(program[name], torch, VALUES))
