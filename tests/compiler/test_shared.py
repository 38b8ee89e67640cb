"""Tensors that a recording knows in two ways, or that count writes together: the next run may have them apart."""

import pytest

import jitgrad as torch
from tests.compiler.alike import check


def test_one_gradient_of_two_tensors():
    def make():
        a, b = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
        a.grad = b.grad = torch.zeros(3)

        def arguments(k):
            if k == 2:
                a.grad = None
            if k == 4:
                a.grad = torch.zeros(3)
            return (torch.ones(3),)

        def step(x):
            (a * b * x).sum().backward()

        return step, arguments, lambda: (a.grad, b.grad)

    check(make, recordings=None)


def test_an_argument_that_is_a_gradient():
    def make():
        w = torch.ones(3, requires_grad=True)
        w.grad = torch.zeros(3)

        def step(b):
            (w * b.sum()).sum().backward()

        return step, lambda k: (torch.full((3,), 9.0) if k in (3, 4) else w.grad,), lambda: w.grad

    check(make, recordings=None)


def gradient_in_a_variable(first):
    def make():
        w = torch.ones(2, requires_grad=True)
        w.grad = kept = torch.zeros(2)

        def arguments(k):
            if k == 3:
                w.grad = torch.zeros(2)
            return (torch.ones(2),)

        def step(x):
            before = kept * 1 if first else None
            (w * x).sum().backward()
            return kept * 1, before

        return step, arguments, lambda: (w.grad, kept)

    return make


def test_a_gradient_that_a_variable_has_as_well():
    check(gradient_in_a_variable(first=True), recordings=2)
    check(gradient_in_a_variable(first=False), recordings=2)


def test_a_version_counter_of_an_argument_and_another_tensor():
    def make():
        base = torch.zeros(12)
        written, given = base[6:9], []

        def arguments(k):
            given[:] = [base[:3] if k in (0, 1, 4) else torch.ones(3)]
            return given

        def step(x):
            written.add_(1)
            return x * 2

        return step, arguments, lambda: (written, given)

    check(make, recordings=2)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("both", [False, True])
def test_a_version_counter_of_two_arguments(both, first):
    def make():
        base, given = torch.zeros(12), []

        def arguments(k):
            given[:] = [base[:3], base[3:6]] if k % 2 == first else [torch.ones(3), torch.ones(3)]
            return given

        def step(x, y):
            if both:
                x.add_(1)
            y.mul_(x)

        return step, arguments, lambda: given

    check(make, recordings=None)


def test_gradients_that_are_parts_of_one_tensor():
    def make():
        p, q = (torch.ones(2, requires_grad=True) for _ in range(2))
        flat, other = torch.zeros(4), torch.zeros(4)
        p.grad, q.grad = flat[:2], flat[2:]

        def arguments(k):
            if k == 3:
                p.grad = other[:2]
            return (torch.ones(2),)

        def step(x):
            (p * x + q * x).sum().backward()

        return step, arguments, lambda: (flat, other)

    check(make, recordings=None)


def read_and_written(p):
    p.grad.mul_(0.5)
    return p.grad


def updated(p):
    with torch.no_grad():
        p.sub_(p.grad)


def differentiated(p):
    (p * p).sum().backward()
    return p.grad.sign()


@pytest.mark.parametrize("step", [read_and_written, updated, differentiated])
@pytest.mark.parametrize("inside", ["itself", "list", "dict"])
def test_gradients_of_arguments(step, inside):
    def make():
        leaves = [torch.ones(2, requires_grad=True) for _ in range(3)]
        for k, leaf in enumerate(leaves):
            leaf.grad = torch.full((2,), k + 1.0)

        def arguments(k):
            leaf = leaves[k % 2 if k < 5 else 2]
            return ({"itself": leaf, "list": [leaf], "dict": {"p": leaf}}[inside],)

        def function(given):
            return step(given["p"] if inside == "dict" else given[0] if inside == "list" else given)

        return function, arguments, lambda: (leaves, [p.grad for p in leaves])

    check(make, calls=8, recordings=1)


def test_leaves_without_gradients_between_those_that_have_one():
    def make():
        leaves = []

        def arguments(k):
            if k % 2 == 0:
                leaves.append(torch.ones(2, requires_grad=True))
            return (leaves[-1],)

        def step(x):
            (x * 2).sum().backward()

        return step, arguments, lambda: [x.grad for x in leaves]

    check(make, recordings=2)
