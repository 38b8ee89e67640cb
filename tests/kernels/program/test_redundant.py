"""Launches that a program can do without."""

import jitgrad as torch
from jitgrad.kernels.program import Passes

NONE = Passes(dead=False, repeated=False, fusion=False, row_blocks=False)
DEAD = Passes(repeated=False, fusion=False, row_blocks=False)
REPEATED = Passes(dead=False, fusion=False, row_blocks=False)


def names(launches):
    return [m.kernel.name for m in launches]


def test_what_nobody_reads_is_not_computed(recorded, check):
    x = torch.rand(8)
    with recorded() as launches:
        a = x.exp()
        (a + 1).softmax(0)
        b = a * 2
        (b.sum() + 1).sqrt()
    assert names(check(launches, [], [b._data], DEAD, exact=True)) == ["exp_forward", "mul_forward"]
    assert len(check(launches, [], [b._data], NONE, exact=True)) == len(launches) > 5


def test_what_was_there_before_is_written(recorded, check):
    x = torch.rand(8)
    before = [(x._data, x._data.copy())]
    with recorded() as launches:
        x.mul_(2)
        x[2:4].neg_()
        x.exp()
    assert len(check(launches, before, [x._data], DEAD, exact=True)) == 2


def test_what_is_computed_twice(recorded, check):
    x, y = torch.rand(8), torch.rand(8)
    with recorded() as launches:
        a = x * y
        b = a.exp()
        c = x * y
        d = c.exp()
        e = b - 2 * d[2:3] + d.flip(0) + c
    made = check(launches, [], [e._data], REPEATED, exact=True)
    assert names(made).count("exp_forward") == 1 and len(made) == len(launches) - 2
    assert len(check(launches, [], [e._data, d._data], REPEATED, exact=True)) == len(launches) - 1
    assert check(launches, [], [e._data], NONE, exact=True) == launches


def test_what_has_changed_meanwhile_is_computed_again(recorded, check):
    x, y = torch.rand(8), torch.rand(8)
    before = [(x._data, x._data.copy())]
    with recorded() as launches:
        a = x * y
        x[0] = 5
        b = x * y
        c = b + a
    assert len(check(launches, before, [c._data], REPEATED, exact=True)) == len(launches)
    with recorded() as launches:
        a = x * y
        b = x * y
        a.add_(1)  # the first result is no longer there when the second is read
        c = b + a
        d = x * y
        d.neg_()  # the second result is written
        e = x.exp() * 2
        f = (x * 2).exp()
    assert len(check(launches, before, [c._data, d._data, e._data, f._data], REPEATED)) == len(launches)


def test_other_numbers_are_not_the_same(recorded, check):
    x = torch.rand(8)
    with recorded() as launches:
        a = x * 2.0 + x * 3.0 + x * 2.0
    assert len(check(launches, [], [a._data], REPEATED, exact=True)) == len(launches) - 1
