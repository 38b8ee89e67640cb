"""Tensors beside NumPy's arrays and numbers: arithmetic, NumPy's functions, NumPy's ints as dims and sizes."""

import pytest

from ...expressions import check, listed

# a, i: arrays; t, k, b: tensors of floats, ints and bools; m: a matrix; r: a tensor that requires grad.
EXPRESSIONS = listed("""
t == a
t != a
t < a
a == t
a != t
t == a[:2]
t == np.array('a')
a == r
r == a
t + a
t - a
t * a
t / a
t // a
t % a
t ** a
m @ a
m @ m.numpy()
t + np.array(2.0)
t + a.astype(np.float32)
k & i
k | i
k << i
k + i
b & np.array([True, False, True])
divmod(t, a)
a / t
a + t
a - t
a * t
a @ t
r + a
r.detach() + a
np.float64(2) + t
np.float64(2) - t
np.float64(2) / t
np.float64(2) ** t
np.float64(2) == t
np.float64(2) <= t
np.float64(2) * k
np.int64(2) * t
np.int64(2) << k
np.float32(1) + k
np.complex128(1j) * t
t + np.str_('a')
t + np.array(1, dtype=np.uint16)
np.sin(t)
np.add(t, a)
np.add(a, t)
np.add(t, t)
np.isnan(t)
np.matmul(m, a)
np.cumsum(t)
np.reshape(m, 9)
np.multiply.outer(t, a)
np.add.reduce(t)
np.sin(t, out=np.zeros(3))
np.sin(r)
np.linspace(t[0], t[1], 3)
np.concatenate([t, a])
t.__array_wrap__(a)
t.__array_wrap__(a > 0)
t.__array_wrap__(1)
t.sum(np.int64(0))
m.sum((np.int64(0), 1))
m.sum([torch.tensor(0)])
m.mean(torch.tensor(0))
m.softmax(np.int64(0))
m.softmax(torch.tensor(0))
m.cumsum(torch.tensor(0))
m.max(np.int64(0))
m.prod(np.int64(0))
m.var(np.int64(0))
m.all(np.int64(0))
m.logsumexp(np.int64(0))
m.argmax(np.int64(0))
m.median(np.int64(0))
m.squeeze(np.int64(0))
m.movedim(torch.tensor(0), torch.tensor(1))
m.transpose(torch.tensor(0), np.int64(1))
m.select(torch.tensor(0), np.int64(1))
torch.stack([t, t], np.int64(0))
m.reshape(np.array(9))
torch.zeros(np.array(3))
torch.zeros(np.array([3, 2]))
torch.zeros(np.float64(3))
torch.full((np.int64(2),), np.float32(3))
torch.add(t, a)
torch.mul(a, t)
torch.dot(t, a)
""")
STATEMENTS = ["t += a", "t -= a", "t *= a", "t @= a", "k += a", "a += t", "a *= t", "a[:] = t", "a[:] = r", "t[:] = a"]


SETUP = """
a = np.array([1.0, 2.0, -3.0]); i = np.array([1, 2, 1])
t = torch.tensor([1.0, 2.0, 3.0]).double(); k = torch.tensor([1, 2, 2]); b = torch.tensor([True, False, True])
m = torch.arange(9.0).double().view(3, 3); r = torch.ones(3).double().requires_grad_()
"""


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression):
    check(expression, SETUP)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement(statement):
    check(f"{statement}; {statement.split()[0].split('[')[0]}", SETUP)
