"""What a user's loop must not do: lose gradients, index beyond an array, write to an input. Errors name the line."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import jitgrad as torch
from jitgrad.debug.launch_tape import tape
from jitgrad.kernels.codegen.source import SourceError
from jitgrad.kernels.kernel_text import KernelError


def line_of(text):
    """The line of this file that ends with ``# text``, as errors name it."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [k for k, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return re.escape(f"{__file__}:{number}")


# -- gradients --------------------------------------------------------------------------------------


def product(a, b, out):
    for i in range(a.size):
        out[i] = a[i] * b[i]


def product_backward(g, b, grad_a):
    for i in range(g.size):
        grad_a[i] = g[i] * b[i]


@pytest.fixture
def vectors():
    return torch.arange(3.0).requires_grad_(), torch.arange(3.0).requires_grad_()


def test_backward_without_a_backward_loop_raises(vectors):
    a, b = vectors
    out = torch.kernel_pair(product)(a, b)
    assert out.requires_grad
    with pytest.raises(RuntimeError, match="Trying to backward through product but no autograd formula was registered"):
        out.sum().backward()
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch.autograd.grad(out.sum(), a, create_graph=True)


def test_an_input_that_requires_grad_needs_a_gradient(vectors):
    a, b = vectors
    op = torch.kernel_pair(product, product_backward)
    message = "'product' is not differentiable with respect to argument 'b'. This input cannot have requires_grad True"
    with pytest.raises(RuntimeError, match=message):
        op(a, b)
    with pytest.raises(RuntimeError, match=message):
        torch.func.jvp(lambda b: op(a.detach(), b), (b.detach(),), (b.detach(),))
    op(a, b.detach()).sum().backward()
    assert a.grad.tolist() == b.tolist()
    with torch.no_grad():
        assert not op(a, b).requires_grad


def test_a_declared_constant(vectors):
    a, b = vectors
    op = torch.kernel_pair(product, product_backward, nondifferentiable=("b",))
    op(a, b).sum().backward()
    assert a.grad.tolist() == b.tolist() and b.grad is None
    assert not torch.kernel_pair(product, nondifferentiable=("a", "b"))(a, b).requires_grad


def test_declarations_that_contradict_themselves():
    def nameless(g, b):
        pass

    def input_g(g, out):
        out[0] = g[0]

    def input_g_backward(g, grad_g):
        grad_g[0] = g[0]

    def gradient_in(grad_a, out):
        out[0] = grad_a[0]

    with pytest.raises(TypeError, match="nondifferentiable names 'c', but the inputs are"):
        torch.kernel_pair(product, nondifferentiable=("c",))
    with pytest.raises(TypeError, match="backward has 'grad_a', but nondifferentiable names its input"):
        torch.kernel_pair(product, product_backward, nondifferentiable=("a",))
    with pytest.raises(TypeError, match="backward has no output"):
        torch.kernel_pair(product, nameless)
    with pytest.raises(TypeError, match="'g' is an input and an output's gradient"):
        torch.kernel_pair(input_g, input_g_backward)
    with pytest.raises(TypeError, match="'grad_a' has a name that means a gradient"):
        torch.kernel_pair(gradient_in)


def test_results_that_would_be_lost_are_refused():
    def returned(g, b, grad_a):
        return g * b  # returned

    def renamed(g, b, grad_a):
        grad_a = g * b  # renamed

    def unused(g, b, grad_a):
        b[0]

    with pytest.raises(SourceError, match=f"returns a value.* writes into grad_a.*{line_of('returned')}"):
        torch.kernel_pair(product, returned)
    with pytest.raises(SourceError, match=rf"grad_a\[\.\.\.\] = to fill.*{line_of('renamed')}"):
        torch.kernel_pair(product, renamed)
    with pytest.raises(SourceError, match="unused never writes into grad_a"):
        torch.kernel_pair(product, unused)


def test_forms_that_only_look_like_faults():
    def flat(x, out):
        out = out.reshape(-1)
        for i in range(out.size):
            out[i] = x[i] if x.ndim == 1 else x[0, i]

    op = torch.kernel_pair(flat, shape=lambda x: (1, x[-1]))
    assert op(torch.arange(2.0)).tolist() == op(torch.arange(2.0)[None]).tolist() == [[0.0, 1.0]]


def test_a_number_in_the_place_of_a_tensor_with_a_gradient():
    def power(x, n, out):
        for i in range(x.size):
            out[i] = x[i] ** n

    def power_backward(g, x, n, grad_x, grad_n):
        for i in range(x.size):
            grad_x[i] = n * g[i] * x[i] ** (n - 1)
            grad_n[()] += g[i] * out_of(x[i], n)

    def out_of(v, n):
        return v**n * np.log(v)

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.kernel_pair(power, power_backward)(x, 2.0).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_literals_have_the_floats_dtype_whatever_comes_first():
    def halves(index, x, out):
        for i in range(index.size):
            out[i] = 0.5 * x[index[i]]

    index, x = torch.tensor([1, 0]), torch.tensor([3.0, 5.0])
    assert torch.kernel_pair(halves)(index, x).tolist() == [2.5, 1.5]
    # All integers: as in NumPy, the product is a float, stored as an integer.
    assert torch.kernel_pair(halves)(index, index * 10).tolist() == [0, 5]


# -- indices ----------------------------------------------------------------------------------------


def item_after(a, i, k):
    return a[i + k]  # helper


def shifted(x, k, out):
    for i in range(out.shape[0]):
        out[i] = (
            x[i] -
            item_after(x, i, k)
        )  # fmt: skip


def by_table(x, table, out):
    for i in range(table.shape[0]):
        row = x[table[i]]  # row
        for j in range(row.size):
            out[i, j] = row[j]


SHIFTED = torch.kernel_pair(shifted)


def test_an_index_out_of_bounds_names_array_index_and_line():
    assert SHIFTED(torch.arange(4.0), 0).tolist() == [0.0] * 4
    place = rf"a\[i \+ k\] in item_after .{line_of('helper')}"
    message = f"index 4 is out of bounds for dimension 0 with size 4 of 'a': {place}"
    with pytest.raises(IndexError, match=message):
        SHIFTED(torch.arange(4.0), 1)
    with pytest.raises(IndexError, match="index -9 is out of bounds"):
        SHIFTED(torch.arange(4.0), -9)


def test_the_first_call_of_each_combination_is_checked():
    def is_checked(*args, op=SHIFTED):
        with tape() as recorded:
            op(*args)
        return "_within(x, i, 0, " in recorded.entries[-1].text

    x = torch.ones(7)
    assert [is_checked(x, 0), is_checked(x, 0), is_checked(x, 0)] == [True, False, False]
    assert [is_checked(torch.ones(8), 0), is_checked(x.double(), 0), is_checked(x, -1)] == [True] * 3
    assert [is_checked(torch.ones(8), 0), is_checked(x.double(), 0), is_checked(x, -1)] == [False] * 3
    assert [is_checked(x, 0, op=torch.kernel_pair(shifted, check=True)) for _ in range(2)] == [True] * 2


def test_always_and_never():
    op = torch.kernel_pair(by_table, shape=lambda x, table: (*table, x[1]), check=True)
    x = torch.arange(6.0).reshape(3, 2)
    assert op(x, torch.tensor([2, 0])).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    with pytest.raises(IndexError, match=rf"index 7 .*size 3 of 'x': x\[table\[i\]\] in by_table.*{line_of('row')}"):
        op(x, torch.tensor([2, 7]))
    never = torch.kernel_pair(by_table, shape=lambda x, table: (*table, x[1]), check=False)
    assert never(x, torch.tensor([2, 0])).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert [checked for _, checked in never.forward_loop.loop.kernels] == [False]


def average(x, alpha, out):
    n = x.size
    out[0] = x[0]
    for t in range(1, n):
        out[t] = out[t - 1] + alpha * (x[t] - out[t - 1])  # average


def test_a_rank_that_the_text_rules_out_is_refused_before_anything_runs():
    def rows(x, out):
        n, m = x.shape
        for i in range(n):
            out[i, m - 1] = x[i, 0]

    op = torch.kernel_pair(average)
    with pytest.raises(RuntimeError, match=rf"1-D .* 'x', but got a 2-D one .*\[100, 100\].*{line_of('average')}"):
        op(torch.ones(100, 100), 0.5)
    with pytest.raises(IndexError, match=r"too many indices for tensor of dimension 0: out\[0\].*array is out\[\(\)\]"):
        op(torch.tensor(1.0), 0.5)
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 1: n, m = x.shape in rows"):
        torch.kernel_pair(rows)(torch.ones(3))
    with pytest.raises(RuntimeError, match="2-D tensor expected for 'x', but got a 3-D one"):
        torch.kernel_pair(rows)(torch.ones(3, 3, 3))


# -- writes to inputs ---------------------------------------------------------------------------------


def test_writes_to_inputs_are_refused():
    def plain(x, out):
        x[0] = 1.0  # plain
        out[0] = x[0]

    def renamed(x, out):
        same = x
        same[0] = 1.0  # by another name
        out[0] = x[0]

    def added(x, out):
        x += 1.0
        out[0] = x[0]

    def copied(x, out):
        x = x.copy()
        x[0] = 7.0
        out[0] = x[0]

    x = torch.ones(2)
    with pytest.raises(SourceError, match=rf"writes into its input x: x\[0\]; write into out.*{line_of('plain')}"):
        torch.kernel_pair(plain)
    with pytest.raises(SourceError, match=f"renamed writes into an input .{line_of('by another name')}"):
        torch.kernel_pair(renamed)(x)
    with pytest.raises(SourceError, match="added writes into its input x"):
        torch.kernel_pair(added)(x)
    assert torch.kernel_pair(copied)(x).tolist() == [7.0, 0.0]
    assert x.tolist() == [1.0, 1.0]


# -- errors of the compiler ---------------------------------------------------------------------------


def test_a_loop_that_cannot_be_compiled_names_the_users_line():
    def broken(x, out):
        for i in range(x.size):
            out[i] = x[i].nothing  # broken

    with pytest.raises(KernelError, match=f"Unknown attribute 'nothing' .*{line_of('broken')}") as caught:
        torch.kernel_pair(broken)(torch.ones(2))
    assert "jitgrad broken" not in str(caught.value) and "readonly" not in str(caught.value)


def test_writes_to_inputs_are_refused_without_checks_too():
    def fill(a):
        a[0] = 1.0

    def in_helper(x, out):
        fill(x)
        out[0] = x[0]

    def by_method(x, out):
        x.sort()
        out[0] = x[0]

    for loop in (in_helper, by_method):
        with pytest.raises(SourceError, match="writes into its input x; write into out"):
            torch.kernel_pair(loop, check=False)


def test_an_exception_of_the_loop_shows_the_users_line():
    def positive(x, out):
        for i in range(x.size):
            if x[i] < 0:
                raise ValueError("negative")  # raised
            out[i] = x[i]

    with pytest.raises(ValueError, match="negative") as caught:
        torch.kernel_pair(positive)(-torch.ones(2))
    last = caught.traceback[-1]
    assert re.fullmatch(line_of("raised"), f"{last.path}:{last.lineno + 1}")


# -- threads ------------------------------------------------------------------------------------------


def row_sums(x, out):
    columns = x.shape[1]
    for i in numba.prange(x.shape[0]):
        total = 0.0
        for j in range(columns):
            total += x[i, j]
        out[i] = total


def row_sums_backward(g, x, grad_x):
    for i in numba.prange(1, x.shape[0]):
        for j in numba.prange(x.shape[1]):
            grad_x[i, j] = g[i]


@pytest.mark.parametrize("count", [1, 3])
def test_rows_are_shared_among_threads(count):
    op = torch.kernel_pair(row_sums, row_sums_backward, shape=lambda x: x[:1], parallel=True)
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        for rows in (1, 5, 5, 0):
            x = torch.arange(rows * 2.0).reshape(rows, 2).requires_grad_()
            out = op(x)
            out.sum().backward()
            assert out.tolist() == x.sum(1).tolist()
            assert x.grad.tolist() == ([[0.0, 0.0]] + [[1.0, 1.0]] * (rows - 1))[:rows]
    finally:
        torch.set_num_threads(before)
    assert torch.kernel_pair(row_sums, shape=lambda x: x[:1])(torch.ones(2, 2)).tolist() == [2.0, 2.0]


def test_rows_that_depend_on_one_another_are_refused():
    def totals(x, out):
        total = 0.0
        for i in numba.prange(x.shape[0]):
            total += x[i]  # carried
            out[i] = total

    def columns(x, out):
        for i in numba.prange(x.shape[0]):
            for j in range(x.shape[1]):
                out[j] += x[i, j]  # shared

    def early(x, out):
        out[0] = 1.0  # early
        for i in numba.prange(x.shape[0]):
            out[i] = x[i]

    def late(x, out):
        for i in numba.prange(x.shape[0]):
            out[i] = x[i]
        out[0] = 1.0

    for loop, what in [
        (totals, f"carries 'total' from row to row.*{line_of('carried')}"),
        (columns, rf"writes to out\[j\] in every row.*{line_of('shared')}"),
        (early, f"stores into an array before prange.*{line_of('early')}"),
        (late, "has a loop over prange that is not its last statement"),
    ]:
        torch.kernel_pair(loop)
        with pytest.raises(SourceError, match=what):
            torch.kernel_pair(loop, parallel=True)


# -- Numba's variables ----------------------------------------------------------------------------------

PROGRAM = """
import jitgrad as torch

def half(v):
    return 0.5 * v

def shifted(x, k, out):
    for i in range(x.size):
        out[i] = half(x[i + k])

op = torch.kernel_pair(shifted)
op(torch.ones(3), 0)
assert op(torch.ones(3), 0).tolist() == [0.5] * 3
print([checked for _, checked in op.forward_loop.loop.kernels])
try:
    op(torch.ones(3), 1)
except IndexError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("variable", "forms", "error"),
    [
        ("NUMBA_BOUNDSCHECK", [True], r"index 3 .* of 'x': x\[i \+ k\] in shifted .*program.py:9"),
        ("NUMBA_DISABLE_JIT", [True, False], "index 3 is out of bounds for axis 0 with size 3"),
    ],
)
def test_settings_for_debugging(tmp_path, variable, forms, error):
    """NUMBA_BOUNDSCHECK is ``check=True``; under NUMBA_DISABLE_JIT loops are plain Python."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py")]
    done = subprocess.run(command, env={**os.environ, variable: "1"}, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == str(forms) and re.search(error, second)
