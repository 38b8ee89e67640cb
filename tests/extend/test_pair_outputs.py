"""Outputs of a pair of loops: by rule or by example, several, of several dtypes; what transforms make of them."""

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.autograd.forward_ad as fwAD
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.func import hessian, jacfwd, jacrev, jvp, vmap


def vector(*values):
    return torch.tensor(values, dtype=torch.float64)


# -- shapes and dtypes --------------------------------------------------------------------------------


def fill(x, k, out):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = k


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 3), [(2, 3), "float32"]),
        ("x", [(4, 5), "float32"]),
        (torch.zeros(1, 2, dtype=torch.int32), [(1, 2), "int32"]),
        (np.zeros((0, 2)), [(0, 2), "float64"]),
        (lambda x: (x[1], np.int64(1)), [(5, 1), "float32"]),
        (lambda k, x: (k, x[0]), [(7, 4), "float32"]),
        (lambda **known: (known["k"], len(known)), [(7, 2), "float32"]),
        (lambda x: "x", [(4, 5), "float32"]),
        (lambda x, k: torch.empty(x[0], k, dtype=torch.int64), [(4, 7), "int64"]),
        (None, [(4, 5), "float32"]),
    ],
)
def test_an_output_by_rule_or_by_example(shape, expected):
    out = torch.kernel_pair(fill, shape=shape)(torch.ones(4, 5), 7)
    assert [out.shape, out.dtype] == [expected[0], getattr(torch, expected[1])]
    assert out.tolist() == np.full(expected[0], 7).tolist()
    again = torch.kernel_pair(fill, shape=shape, dtype=torch.float64)(torch.ones(4, 5), 7)
    assert [again.shape, again.dtype] == [expected[0], torch.float64]


def test_a_number_is_a_shape_of_one_dimension():
    def count(x, out):
        for i in range(out.size):
            out[i] = i + x.size

    for shape in (3, (3,), lambda x: 3, lambda x: x.__class__([3])):
        assert torch.kernel_pair(count, shape=shape, dtype=np.int64)(torch.ones(2)).tolist() == [2, 3, 4]


def test_the_dtype_is_that_of_the_input_named():
    def picked(index, x, out):
        for i in range(index.size):
            out[i] = x[index[i]] * 2.5

    index, x = torch.tensor([1, 0]), torch.tensor([1.0, 3.0])
    assert torch.kernel_pair(picked, shape="index")(index, x).tolist() == [7, 2]
    out = torch.kernel_pair(picked, shape="x")(index, x.double())
    assert out.tolist() == [7.5, 2.5] and out.dtype is torch.float64


def sort_two(x, out_low, out_high):
    out_low[0], out_high[0] = min(x[0], x[1]), max(x[0], x[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": "z"}, r"sort_two: shape names 'z', but the inputs are \['x'\]"),
        ({"shape": ((1,),)}, r"shape describes 1 outputs, but the loop has \['out_low', 'out_high'\]"),
        ({"shape": (1, 1)}, r"shape must describe each of the outputs .* by the name of an input.*got \(1, 1\)"),
        ({"shape": ((1,), (1.5,))}, r"out_high is described by the name of an input, .*, but shape gives \(1.5,\)"),
        ({"shape": lambda y: ((1,), (1,))}, r"shape's parameter 'y' is unknown; .* of \['x'\]"),
        ({"dtype": (torch.int64,)}, r"dtype has 1 items, but the outputs are \['out_low', 'out_high'\]"),
        ({"dtype": "x"}, "dtype must be a dtype such as jitgrad.float64, .*, but got 'x'"),
        ({"nondifferentiable": "x"}, r"nondifferentiable takes a tuple of names; write \('x',\)"),
        ({"cuda": (sort_two, sort_two, sort_two)}, r"cuda must be a pair of loops, \(forward, backward\)"),
        ({"rule": lambda g_low, h: g_low}, "sort_two: rule's parameter 'h' is unknown; it may name"),
        ({"rule": lambda g_low, grad_x: g_low}, "rule has the parameter 'grad_x'; a rule returns the gradients"),
    ],
)
def test_declarations_that_describe_something_else(options, message):
    with pytest.raises(TypeError, match=message):
        torch.kernel_pair(sort_two, **options)


def test_calls_that_describe_something_else():
    x = torch.ones(2)

    def call(shape):
        return torch.kernel_pair(sort_two, shape=shape)(x)

    with pytest.raises(RuntimeError, match=r"negative dimension -1: \[-1\], which is what shape gives out_low of sort"):
        call(lambda x: ((x[0] - 3,), (1,)))
    with pytest.raises(TypeError, match=r"shape describes 3 outputs, but the loop has \['out_low', 'out_high'\]"):
        call(lambda x: (x, x, x))
    with pytest.raises(TypeError, match="out_high is described by .*, but shape gives None"):
        call(lambda x: (x, None))
    with pytest.raises(TypeError, match="shape names 'y', but"):
        call(lambda x: ("x", "y"))
    with pytest.raises(TypeError, match="shape says that out is like 'k', which must be a tensor, but got int"):
        torch.kernel_pair(fill, shape="k")(x, 1)


# -- dtypes of their own ------------------------------------------------------------------------------


def largest(x, out, out_at):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > x[i, out_at[i]]:
                out_at[i] = j
        out[i] = x[i, out_at[i]]


def largest_backward(g_out, out_at, grad_x):
    for i in range(grad_x.shape[0]):
        grad_x[i, out_at[i]] = g_out[i]


def rule_of_largest(g_out, x, out_at):
    return torch.zeros_like(x).scatter(1, out_at[:, None], g_out[:, None])


LARGEST = torch.kernel_pair(
    largest, largest_backward, shape=lambda x: (x[:1], x[:1]), dtype=(None, torch.int64), rule=rule_of_largest
)


def test_values_with_their_places():
    x = torch.tensor([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]], requires_grad=True)
    values, places = LARGEST(x)
    assert values.tolist() == [3.0, 6.0] and places.tolist() == [1, 2]
    assert values.requires_grad and not places.requires_grad and places.dtype is torch.int64
    assert values.dtype is torch.float32
    (values * vector(2.0, 3.0).float()).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    assert gradcheck(LARGEST, x.detach().double().requires_grad_())
    assert gradgradcheck(lambda t: LARGEST(t * t)[0], x.detach().double().requires_grad_())


def test_transforms_of_values_with_places():
    x = torch.tensor(np.random.default_rng(0).standard_normal((3, 2, 4)))
    values, places = vmap(LARGEST)(x)
    assert places.tolist() == x.argmax(2).tolist() and values.tolist() == x.amax(2).tolist()
    (value, place), (tangent, none) = jvp(LARGEST, (x[0],), (torch.ones_like(x[0]),))
    assert tangent.tolist() == [1.0, 1.0] and place.tolist() == places[0].tolist()
    assert none.tolist() == [0, 0]
    assert jacrev(lambda t: LARGEST(t)[0])(x[0]).tolist() == jacfwd(lambda t: LARGEST(t)[0])(x[0]).tolist()


def test_an_op_with_integer_outputs_alone_has_no_history():
    def rounded(x, out):
        for i in range(x.size):
            out[i] = round(x[i])

    def rounded_backward(g, grad_x):
        grad_x[0] = g[0]

    op = torch.kernel_pair(rounded, rounded_backward, shape="x", dtype=torch.int32)
    out = op(torch.tensor([1.2, 2.7], requires_grad=True))
    assert out.tolist() == [1, 3] and not out.requires_grad and out.grad_fn is None


def test_a_narrower_output_is_rounded_once():
    def total(x, out):
        for i in range(x.size):
            out[()] += x[i]

    def sums(x, out_wide, out_narrow):
        state = 0.1
        for i in range(x.size):
            state += x[i]
        out_wide[()] = state
        out_narrow[()] = state

    def sums_backward(g_wide, g_narrow, grad_x):
        for i in range(grad_x.size):
            grad_x[i] = g_wide[()] + g_narrow[()]

    x = torch.full((3,), 0.1, dtype=torch.float64)
    wide, narrow = torch.kernel_pair(sums, shape=((), ()), dtype=(None, torch.float32))(x)
    assert wide.item() == pytest.approx(0.4, rel=1e-15) and narrow.item() == np.float32(0.4)
    assert torch.kernel_pair(total, shape=(), dtype=torch.float64)(x.float()).dtype is torch.float64
    op = torch.kernel_pair(sums, sums_backward, shape=((), ()), dtype=(torch.float64, torch.float32))
    leaf = torch.zeros(2, requires_grad=True)
    torch.autograd.backward(op(leaf), [torch.tensor(2.0, dtype=torch.float64), torch.tensor(3.0)])
    assert leaf.grad.tolist() == [5.0, 5.0] and leaf.grad.dtype is torch.float32


def test_real_outputs_of_complex_inputs():
    def power(z, w, out):
        for i in range(z.size):
            out[i] = 0.5 * w[i] * (z[i].real ** 2 + z[i].imag ** 2)

    def power_backward(g, z, w, grad_z, grad_w):
        for i in range(z.size):
            grad_z[i] = g[i] * w[i] * z[i]
            grad_w[i] = 0.5 * g[i] * (z[i].real ** 2 + z[i].imag ** 2)

    op = torch.kernel_pair(power, power_backward, shape="w")
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    w = vector(1.0, 2.0).requires_grad_()
    assert op(z, w).tolist() == [2.5, 10.0]
    assert gradcheck(op, (z, w))
    assert op(z.detach().to(torch.complex64), w.detach().float()).dtype is torch.float32


# -- several outputs and the transforms -----------------------------------------------------------------


def sum_and_dot(x, y, out_sum, out_dot):
    for i in range(x.size):
        out_sum[i] = x[i] + y[i]
        out_dot[0] += x[i] * y[i]


def sum_and_dot_backward(g_sum, g_dot, x, y, grad_x, grad_y):
    for i in range(x.size):
        grad_x[i] = g_sum[i] + g_dot[0] * y[i]
        grad_y[i] = g_sum[i] + g_dot[0] * x[i]


def rule_of_sum_and_dot(g_sum, g_dot, x, y):
    return g_sum + g_dot * y, g_sum + g_dot * x


PLAIN = torch.kernel_pair(sum_and_dot, sum_and_dot_backward, shape=("x", (1,)))
WITH_RULE = torch.kernel_pair(sum_and_dot, sum_and_dot_backward, shape=("x", (1,)), rule=rule_of_sum_and_dot)


@pytest.mark.parametrize("number", [0, 1])
def test_gradients_where_one_output_is_used(number):
    x, y = vector(1.0, 2.0).requires_grad_(), vector(3.0, 5.0).requires_grad_()
    expected = ([1.0, 1.0], [1.0, 1.0]) if number == 0 else ([3.0, 5.0], [1.0, 2.0])
    for pair in (PLAIN, WITH_RULE):
        for create_graph in (False, True):
            found = torch.autograd.grad(pair(x, y)[number].sum(), (x, y), create_graph=create_graph)
            assert tuple(g.tolist() for g in found) == expected
        assert gradcheck(lambda a, b, pair=pair: pair(a, b)[number], (x, y))
    assert gradgradcheck(lambda a, b: WITH_RULE(a * b, b)[number], (x, y))


def test_second_order_through_a_rule_of_several_outputs():
    x, y = vector(1.0, 2.0), vector(3.0, 5.0)
    assert gradgradcheck(WITH_RULE, (x.requires_grad_(), y.requires_grad_()))
    assert hessian(lambda a: WITH_RULE(a, a)[1].sum())(x.detach()).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_a_rule_may_name_what_the_loop_does_not():
    def cube(x, out):
        for i in range(x.size):
            out[i] = x[i] ** 3

    def cube_backward(g, x, grad_x):
        for i in range(x.size):
            grad_x[i] = 3.0 * g[i] * x[i] * x[i]

    op = torch.kernel_pair(cube, cube_backward, rule=lambda g, out, x: 3.0 * g * out / x)
    x = vector(1.0, 2.0).requires_grad_()
    (first,) = torch.autograd.grad(op(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [3.0, 12.0] and second.tolist() == [6.0, 12.0]
    wrong = torch.kernel_pair(cube, cube_backward, rule=lambda g: (g, g), name="cubed")
    with pytest.raises(RuntimeError, match=r"rule of cubed .*\(expected 1, got 2\); it must return those of \['x'\]"):
        torch.autograd.grad(wrong(x).sum(), x, create_graph=True)


def test_a_number_before_a_tensor_with_gradients():
    def scaled(a, x, out):
        for i in range(x.size):
            out[i] = a * x[i]

    def scaled_backward(g, a, x, grad_a, grad_x):
        for i in range(x.size):
            grad_x[i] = a * g[i]
            grad_a[()] += x[i] * g[i]

    x = vector(1.0, 2.0).requires_grad_()
    for rule in (None, lambda g, a, x: ((g * x).sum(), a * g)):
        op = torch.kernel_pair(scaled, scaled_backward, shape="x", rule=rule)
        (g,) = torch.autograd.grad(op(3.0, x).sum(), x, create_graph=True)
        assert g.tolist() == [3.0, 3.0]


def test_without_a_rule_batches_work_and_tangents_say_what_to_do():
    x, y = vector(1.0, 2.0), vector(3.0, 5.0)
    both = torch.stack([x, y])
    sums, dots = vmap(PLAIN, in_dims=(0, None))(both, y)
    assert sums.tolist() == [[4.0, 7.0], [6.0, 10.0]] and dots.tolist() == [[13.0], [34.0]]
    gradients = vmap(torch.func.grad(lambda a: PLAIN(a, y)[1].sum()))(both)
    assert gradients.tolist() == [[3.0, 5.0]] * 2
    assert jacrev(PLAIN)(x, y)[1].tolist() == [[3.0, 5.0]]
    assert vmap(jacrev(lambda a: PLAIN(a, a)[1]))(both).tolist() == [[[2.0, 4.0]], [[6.0, 10.0]]]
    message = "Trying to use forward AD with sum_and_dot .* because its backward is a loop; give kernel_pair a rule="
    for ask in (
        lambda: jvp(PLAIN, (x, y), (x, y)),
        lambda: jacfwd(PLAIN)(x, y),
        lambda: hessian(lambda a: PLAIN(a, a)[1].sum())(x),
        lambda: jvp(jacrev(lambda a: PLAIN(a, y)[1]), (x,), (x,)),
    ):
        with pytest.raises(NotImplementedError, match=message):
            ask()
    with fwAD.dual_level(), pytest.raises(NotImplementedError, match=message):
        PLAIN(fwAD.make_dual(x, y), y)
    with pytest.raises(RuntimeError, match="trying to differentiate twice .* give kernel_pair a rule="):
        torch.autograd.functional.jvp(PLAIN, (x, y), (x, y))


def test_tangents_follow_from_a_rule():
    x, y = vector(1.0, 2.0), vector(3.0, 5.0)
    assert [t.tolist() for t in jvp(WITH_RULE, (x, y), (y, x))[1]] == [[4.0, 7.0], [39.0]]
    assert [t.tolist() for t in torch.autograd.functional.jvp(WITH_RULE, (x, y), (y, x))[1]] == [[4.0, 7.0], [39.0]]
    with fwAD.dual_level():
        assert fwAD.unpack_dual(WITH_RULE(fwAD.make_dual(x, y), y)[1]).tangent.tolist() == [34.0]


def test_tangents_of_constants_count_as_zeros():
    def scaled(x, y, out):
        for i in range(x.size):
            out[i] = x[i] * y[i]

    def scaled_backward(g, y, grad_x):
        for i in range(y.size):
            grad_x[i] = g[i] * y[i]

    op = torch.kernel_pair(scaled, scaled_backward, nondifferentiable=("y",), rule=lambda g, y: g * y)
    x, y = vector(1.0, 2.0), vector(3.0, 5.0)
    assert jvp(op, (x, y), (y, x))[1].tolist() == [9.0, 25.0]
    constant = torch.kernel_pair(scaled, nondifferentiable=("x", "y"))
    assert jvp(lambda b: constant(x, b), (y,), (x,))[1].tolist() == [0.0, 0.0]
