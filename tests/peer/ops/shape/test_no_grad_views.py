"""Views made while nothing is recorded, beside PyTorch: what they say of themselves, and which uses are refused."""

import numpy as np
import pytest

import jitgrad

from ...beside import outcome, same

torch = pytest.importorskip("torch")

VALUES = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -0.75]])
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def modes(m):
    return m.no_grad, m.inference_mode


def told(m, call):
    """What a call returns, or its error's words."""
    try:
        return call()
    except RuntimeError as error:
        return str(error)


@program
def it_says_what_its_base_says(m, x):
    x.requires_grad_()
    found = []
    for mode in modes(m):
        with mode():
            view = x[0]
            found += [view.requires_grad, view.is_leaf, view.grad_fn is None, repr(view)]
        later = view * 2
        found += [later.requires_grad, type(later.grad_fn).__name__, later.grad_fn.next_functions]
        later.sum().backward()
        found += [view.grad, x.grad]
    return found


@program
def views_of_it_are_recorded(m, x):
    x.requires_grad_()
    found = []
    for mode in modes(m):
        with mode():
            view = x[0]
        inner = view.view(3, 1)
        found += [inner.requires_grad, type(inner.grad_fn).__name__]
        found += [told(m, lambda view=view: view.mul_(2)), told(m, lambda inner=inner: inner.mul_(2))]
    return found


@program
def written_to_it_has_no_history_to_tell(m, x):
    y = x.requires_grad_() * 2
    found = []
    for mode in modes(m):
        with mode():
            view = y[0]
            y.mul_(2)
        found += [view.requires_grad, repr(view), told(m, lambda view=view: view.grad_fn)]
        found += [told(m, lambda view=view: view * 3), told(m, lambda view=view: view.sum().backward())]
        with m.no_grad():
            found.append(view * 3)
    return found


@program
def it_may_become_a_variable_of_its_own(m, x):
    x.requires_grad_()
    with m.no_grad():
        view = x[0]
    view.requires_grad_(False)
    still = view.requires_grad
    view.requires_grad_()
    (view * 3).sum().backward()
    return still, view.grad, x.grad


@program
def nothing_leads_to_it(m, x):
    x.requires_grad_()
    with m.no_grad():
        view = x[0]
    found = m.autograd.grad((view * x[1]).sum(), [view, x], allow_unused=True)
    return found, told(m, lambda: m.autograd.grad((view * 2).sum(), view))


@program
def views_that_were_variables_before(m, x):
    found = []
    for mode in modes(m):
        with mode():
            y = x.view(6)
        y.requires_grad_()
        found.append(told(m, lambda y=y: y.view(2, 3).div_(2)))
    return found


@program
def integers_have_no_part_in_it(m, x):
    x.requires_grad_()
    with m.no_grad():
        bits = x.detach().view(m.int64)
        return bits.requires_grad, (bits + 1).requires_grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    same(outcome(PROGRAMS[name], jitgrad, VALUES), outcome(PROGRAMS[name], torch, VALUES))
