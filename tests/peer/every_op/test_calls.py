"""Calls of elementwise ops beside PyTorch: errors, aliases, special arguments."""

import pytest
import torch

from .comparison import OURS, THEIRS, assert_same, attempt

EXPRESSIONS = """\
f + 'a'
f == 'a'
f < 'a'
f + None
f + [1, 2]
t.add(f, 'a')
t.exp('a')
t.exp(1.0)
t.maximum(f, 1)
t.logical_and(f, 1)
t.atan2(f, 1)
t.add(i, i, alpha=2.5)
i // 0
i % 0
i // t.tensor([0])
i % t.tensor([0])
t.fmod(i, 0)
t.div(i, 0, rounding_mode='trunc')
i / 0
i ** -1
i ** t.tensor([-1])
2 ** t.tensor([-1])
i ** -1.0
i.pow_(0.5)
i.add_(1.5)
i.div_(2)
i.add_(f)
b.add_(1)
u + 300
u + (-1)
u * 1.5
t.clamp(f)
t.clamp(f, 2, 1)
t.clamp(f, t.tensor([2.0]), t.tensor([1.0]))
t.clamp(i, 0.5)
t.clamp(b, 0, 1)
t.where(f, f, f)
t.where(b, f, i)
t.where(b, 1, 2.0)
t.where(b, 1, 2)
t.where(b, f, 1)
t.where(b, f, t.tensor(1.0, dtype=t.float64))
t.where(b, f, 1j)
t.where(u, f, f)
f.where(b, 3)
t.div(f, f, rounding_mode='foo')
f > 1j
t.lerp(f, i, 2)
t.addcdiv(i, i, i)
t.addcmul(f, i, i)
t.isclose(f, i)
t.isclose(f, f + 1e-9)
t.allclose(f, f)
~f
-b
+b
f & 1
1 << i
t.ones(2, 3) + t.ones(4)
t.ones(3).add_(t.ones(2, 3))
t.ones(3).expand(2, 3).add_(1)
t.ones(3, requires_grad=True).add_(1)
f.__rsub__(1)
divmod(f, f)
abs(f)
2 - b
b - 2
f.lt_(2)
f.logical_and_(f)
f.eq_(1.5)
i.bitwise_and_(3)
f.true_divide(2)
t.complex(i, i)
t.imag(f)
t.round(i, decimals=1)
t.round(f, decimals=-1)
b.exp_()
i.exp_()
F.softshrink(f, -1)
F.gelu(f, approximate='a')
F.hardtanh(f, 2, 1)
F.celu(f, 0)
F.relu(f, inplace=True)
F.elu(f, 2, True)
t.relu_(f)
f.relu_()
t.multiply(f, 2)
t.absolute(f)
t.negative(f)
t.greater_equal(f, 1)
t.arctan2(f, f)
t.fix(f)
t.square(b)
t.float_power(i, 2)
hash(f) == id(f)
f.ne(f).sum()
t.add(f, f, out=t.empty(1))
t.sigmoid(f, out=t.empty(1))
t.pow(f, 2, out=t.empty(1))
t.clamp(f, 0, 1, out=t.empty(1))
t.sub(f, 1, alpha=2)
t.rsub(f, 1, alpha=2)
""".splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression):
    results = []
    for lib in (OURS, THEIRS):
        t = lib.t
        names = {"t": t, "F": lib.f, "f": t.tensor([1.5]), "i": t.tensor([4]), "b": t.tensor([True])}
        names["u"] = t.tensor([200], dtype=t.uint8)
        results.append(attempt(lambda names=names: eval(expression, names)))
    ours, theirs = results
    if isinstance(theirs, (torch.Tensor, Exception)):
        assert_same(ours, theirs, 1e-6, expression)
    else:
        assert ours == theirs
