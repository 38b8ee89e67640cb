"""Ops that choose elements need only the indices for backward: the values may be written to."""

import pytest

import jitgrad

ROWS = [[3.0, 1.0, 2.0], [0.5, 4.0, 1.0]]
CHOICES = {
    "max": lambda x: x.max(1), "min": lambda x: x.min(1), "median": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(1), "topk": lambda x: x.topk(2), "kthvalue": lambda x: x.kthvalue(2),
    "sort": lambda x: x.sort(1), "stable": lambda x: x.sort(1, stable=True),
}  # fmt: skip


@pytest.mark.parametrize("choose", CHOICES.values(), ids=CHOICES)
def test_values_may_be_written_to(choose):
    x, y = (jitgrad.tensor(ROWS, requires_grad=True) for _ in range(2))
    values, _ = choose(x)
    values.mul_(2)
    values.sum().backward()
    choose(y)[0].mul(2).sum().backward()
    assert x.grad.tolist() == y.grad.tolist()


@pytest.mark.parametrize("choose", CHOICES.values(), ids=CHOICES)
def test_indices_may_not(choose):
    values, indices = choose(jitgrad.tensor(ROWS, requires_grad=True))
    assert values.grad_fn._saved_indices.tolist() == indices.tolist()
    assert not hasattr(values.grad_fn, "_saved_result")
    indices.zero_()
    with pytest.raises(RuntimeError, match=r"LongTensor \[[\d, ]+\]\] is at version 1; expected version 0"):
        values.sum().backward()


def test_of_spread_and_mean_either_may_be_used_after_a_write_to_the_other():
    x = jitgrad.tensor(ROWS, requires_grad=True)
    spread, mean = jitgrad.std_mean(x, 1)
    mean.mul_(2)
    spread.sum().backward(retain_graph=True)
    y = jitgrad.tensor(ROWS, requires_grad=True)
    y.std(1).sum().backward()
    assert jitgrad.allclose(x.grad, y.grad)
    spread.mul_(2)
    with pytest.raises(RuntimeError, match="output 0 of StdMean, is at version 1"):
        spread.sum().backward(retain_graph=True)
