"""What crosses the borders of a function in parts: graphs, views, variables of functions inside, or without a value."""

import warnings

import pytest

import jitgrad as torch
from tests.compiler.alike import check, normal, parts


def test_nested_functions():
    def make():
        def step(x, *rest, scale=2.0, **options):
            shift = x.sum()

            def inner(y):
                return y * scale + shift

            total = inner(x) * 2
            if total.sum() > 0:
                scale = 3.0
            later = [inner(r).exp() for r in rest]
            shift = shift * 2
            return total + inner(x), later, sum(r.sum() for r in rest) + options["c"]

        def arguments(k):
            return normal(4, seed=k), normal(4, seed=k + 1)

        return lambda *a: step(*a, c=1.0), arguments, list

    check(make, recordings=None)

    def made():
        def outer(x):
            best = 0

            def note(y):
                nonlocal best
                best = max(best, y.sum().item())
                return y * 2

            y = note(x) + 1
            z = (y * y).sum()
            w = note(y)
            return z + best, w.exp()

        return outer, lambda k: (normal(4, seed=k),), list

    check(made, recordings=None)


def test_gradients_of_what_crosses_a_border():
    weight = normal(4).requires_grad_()

    def step(x):
        h = torch.tanh(x * weight)
        out = (h * weight).exp()
        if out.sum() > 1000:
            return None
        (of_h,) = torch.autograd.grad(out.sum(), h, retain_graph=True)
        (of_weight,) = torch.autograd.grad(out.sum(), weight, create_graph=True)
        (twice,) = torch.autograd.grad(of_weight.sum(), weight)
        return of_h * 2, of_weight.detach() * 2, twice * 2

    check(lambda: (step, lambda k: (normal(4, seed=k),), list), recordings=0)

    def hooked(x):
        h = torch.tanh(x * weight)
        out = (h * weight).exp().sum()
        h.retain_grad()
        seen = []
        h.register_hook(lambda g: seen.append(g.sum().item()))
        if out.item() > 1000:
            return None
        out.backward()
        weight.grad = None
        return h.grad * 2, seen[0]

    check(lambda: (hooked, lambda k: (normal(4, seed=k),), list), recordings=0)


def test_variables_that_may_have_no_value():
    def make():
        def step(x, n):
            for k in range(n):
                y = torch.tanh(x) * k
                if y.sum().item() > 100:
                    break
            if n > 0:
                x = x + y * 2
            z = x.exp() * 2
            del x
            return z

        return step, lambda k: (normal(4, seed=k), k % 3), list

    compiled = check(make, calls=8, recordings=None)
    assert parts(compiled)

    @torch.compile
    def unbound(x):
        if x.sum() > 0:
            y = x * 2
        return y * 3 + x.exp()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            assert torch.equal(unbound(torch.ones(3)), torch.full((3,), 6.0) + torch.ones(3).exp())
            with pytest.raises(UnboundLocalError):
                unbound(-torch.ones(3))


def test_views_and_lists_stay_what_they_are():
    def make():
        def step(x):
            base = x * 2
            view = base.view(-1)
            both = [base, view]
            if base.sum().item() > 100:
                return None
            base.add_(1)
            both.append(view * 2)
            return view + 1, both[0] * 2, len(both), view._version

        return step, lambda k: (normal(4, seed=k),), list

    check(make, recordings=0)
