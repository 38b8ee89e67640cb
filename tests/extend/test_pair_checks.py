"""Checks of a pair's gradients: by check_pair, and at the declaration where JITGRAD_CHECK is set."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

import jitgrad
import jitgrad as torch
from jitgrad.autograd.gradcheck import GradcheckError
from jitgrad.extend.kernel_pair import declaration_observers
from jitgrad.testing import check_pair


def scaled(x, w, k, out, out_sign):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = k * x[i, j] * x[i, j] * w[j]
            out_sign[i, j] = x[i, j] > 0


def right(g_out, x, w, k, grad_x, grad_w):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            grad_x[i, j] = 2.0 * k * g_out[i, j] * x[i, j] * w[j]
            grad_w[j] += k * g_out[i, j] * x[i, j] * x[i, j]


def wrong_for_w(g_out, x, w, k, grad_x, grad_w):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            grad_x[i, j] = 2.0 * k * g_out[i, j] * x[i, j] * w[j]
            grad_w[j] = k * g_out[i, j] * x[i, j] * x[i, j]


def rule(g_out, x, w, k):
    return 2 * k * g_out * x * w, (k * g_out * x * x).sum(0)


def place(function):
    return re.escape(f"{function.__name__} ({__file__}:{function.__code__.co_firstlineno})")


def example():
    return torch.tensor([[1.0, -2.0], [3.0, 0.5]]), torch.tensor([0.5, 1.5]), 2.0


def declared(backward, **options):
    return torch.kernel_pair(scaled, backward, shape=("x", "x"), dtype=(None, torch.bool), name="scaled", **options)


def test_right_pairs_pass():
    before = torch.get_rng_state().tolist()
    assert check_pair(declared(right), example())
    assert check_pair(declared(right, rule=rule, example=example))
    with torch.no_grad():
        assert check_pair(declared(right, example=example()))
    assert check_pair(declared(right, rule=rule), lambda: (example()[0].requires_grad_(), *example()[1:]))
    assert torch.get_rng_state().tolist() == before


def test_a_wrong_gradient_names_input_numbers_and_place():
    what = (
        r"the derivative of out\[0, 1\] with respect to w\[1\] is 8 by differences of forward, but backward gives 0"
    )
    with pytest.raises(GradcheckError, match=f"^scaled: wrong gradient in {place(wrong_for_w)}: {what}$"):
        check_pair(declared(wrong_for_w), example())


def test_a_rule_that_differs_from_the_loop():
    def other(g_out, x, w, k):
        return 2 * g_out * x * w, (k * g_out * x * x).sum(0)

    def flat(g_out, x, w, k):
        return (2 * k * g_out * x * w).sum(), (k * g_out * x * x).sum(0)

    def cut(g_out, x, w, k):
        return 2 * k * g_out * x.detach() * w, (k * g_out * x * x).sum(0)

    message = rf"^scaled: rule {place(other)} gives -5 for grad_x\[0, 1\], but the backward loop gives -10$"
    with pytest.raises(GradcheckError, match=message):
        check_pair(declared(right, rule=other), example())
    with pytest.raises(GradcheckError, match=r"gives grad_x the shape \(\), but it is \(2, 2\)"):
        check_pair(declared(right, rule=flat), example())
    with pytest.raises(GradcheckError, match=f"^scaled: wrong derivative of rule {place(cut)}: Jacobian mismatch"):
        check_pair(declared(right, rule=cut), example())


def test_a_gradient_that_is_not_a_number():
    def root(x, out):
        for i in range(x.size):
            out[i] = x[i] * abs(x[i])

    def root_backward(g, x, grad_x):
        for i in range(x.size):
            grad_x[i] = g[i] * 2.0 * x[i] * x[i] / abs(x[i])

    with pytest.raises(GradcheckError, match=r"with respect to x\[1\] is 0 by differences of .* backward gives nan"):
        check_pair(torch.kernel_pair(root, root_backward), (torch.tensor([1.0, 0.0]),))


def test_complex_outputs_have_gradchecks_text():
    def doubled(z, out):
        for i in range(z.size):
            out[i] = 2.0 * z[i]

    def doubled_backward(g, grad_z):
        for i in range(g.size):
            grad_z[i] = 2j * g[i]

    with pytest.raises(GradcheckError, match="doubled: wrong gradient in .*While considering the imaginary part"):
        check_pair(torch.kernel_pair(doubled, doubled_backward), (torch.tensor([1 + 2j]),))


def test_what_cannot_be_checked():
    with pytest.raises(TypeError, match="expected a kernel_pair, but got function"):
        check_pair(scaled)
    with pytest.raises(ValueError, match="scaled lacks arguments; pass them, or"):
        check_pair(declared(right))
    with pytest.raises(ValueError, match="scaled lacks a backward loop"):
        check_pair(declared(None), example())
    with pytest.raises(ValueError, match="needs a floating-point tensor for one of the inputs x, w"):
        check_pair(declared(right), (torch.ones(2, 2, dtype=torch.int64), torch.ones(2, dtype=torch.int64), 2.0))


def test_the_pair_that_the_folders_text_shows(tmp_path):
    text = re.search(r"where it stands::\n\n((?:    .*\n|\n)*)", jitgrad.extend.__doc__)[1]
    (tmp_path / "pair.py").write_text(textwrap.dedent(text))
    scope = {"jitgrad": jitgrad}
    exec(compile(textwrap.dedent(text), str(tmp_path / "pair.py"), "exec"), scope)
    assert check_pair(scope["row_max"])
    values, places = scope["row_max"](torch.tensor([[1.0, 3.0], [5.0, 4.0]]))
    assert values.tolist() == [3.0, 5.0] and places.tolist() == [1, 0]


PROGRAM = """
import jitgrad

def double(x, out):
    for i in range(x.size):
        out[i] = 2.0 * x[i]

def wrong(g, grad_x):
    for i in range(g.size):
        grad_x[i] = g[i]

def example():
    print("asked")
    return jitgrad.ones(3),

jitgrad.kernel_pair(double, wrong)
jitgrad.kernel_pair(double, wrong, example=example)
"""


@pytest.mark.parametrize("value", [None, "0", "1", "yes"])
def test_pairs_are_checked_where_they_are_declared(tmp_path, value):
    """Only with JITGRAD_CHECK=1; otherwise the example is not even made."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {k: v for k, v in os.environ.items() if k != "JITGRAD_CHECK"}
    environment |= {} if value is None else {"JITGRAD_CHECK": value}
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    last = (done.stderr.splitlines() or [""])[-1]
    if value == "1":
        assert done.stdout == "asked\n"
        assert re.search(r"double: wrong gradient in wrong \(.*program.py:8\): .* is 2 by", last)
    elif value == "yes":
        assert "JITGRAD_CHECK='yes' is unknown; use 1" in last
    else:
        assert [done.stdout, done.stderr, done.returncode] == ["", "", 0]


def test_a_pair_is_complete_for_observers_once_for_each_part():
    seen = []
    declaration_observers.append(lambda pair: seen.append(pair.tensor_rule is not None))
    try:
        declared(right)
        declared(right, rule=rule)
        assert seen == [False, True]

        @torch.kernel_pair
        def half(x, out):
            out[0] = 0.5 * x[0]

        @half.backward
        def half_backward(g, grad_x):
            grad_x[0] = 0.5 * g[0]

        @half.rule
        def half_rule(g):
            return 0.5 * g

        assert seen == [False, True, False, True]
    finally:
        declaration_observers.pop()
