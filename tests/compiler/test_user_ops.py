"""A user's own ops in compiled functions: pairs of loops, elementwise classes."""

import pytest

import jitgrad as torch
from tests.compiler.alike import check, normal


def average(x, alpha, out):
    out[0] = x[0]
    for t in range(1, x.size):
        out[t] = out[t - 1] + alpha * (x[t] - out[t - 1])


def average_backward(g, alpha, grad_x):
    carry = 0.0
    for t in range(g.size - 1, 0, -1):
        carry = g[t] + (1.0 - alpha) * carry
        grad_x[t] = alpha * carry
    grad_x[0] = g[0] + (1.0 - alpha) * carry


@pytest.mark.parametrize("mode", [None, True, False])
def test_pairs_of_loops(mode):
    moving_average = torch.kernel_pair(average, average_backward, **({} if mode is None else {"check": mode}))

    def step(x):
        x = x.detach().requires_grad_()
        moving_average(x, 0.1).square().sum().backward()
        return x.grad

    check(lambda: (step, lambda k: (normal(50, seed=k),), list))


def top(x, out, out_at):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > x[i, out_at[i]]:
                out_at[i] = j
        out[i] = x[i, out_at[i]]


def top_backward(g_out, out_at, grad_x):
    for i in range(grad_x.shape[0]):
        grad_x[i, out_at[i]] = g_out[i]


def test_pairs_of_several_outputs():
    op = torch.kernel_pair(top, top_backward, shape=lambda x: (x[:1], x[:1]), dtype=(None, torch.int64))

    def step(x):
        x = x.detach().requires_grad_()
        values, places = op(x * 2)
        (values * values).sum().backward()
        return x.grad, values.detach(), places

    check(lambda: (step, lambda k: (normal(4, 5, seed=k),), list))
