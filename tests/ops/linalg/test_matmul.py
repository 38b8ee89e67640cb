"""Products of every rank against NumPy: values, layouts, gradients, dtypes, graphs, errors."""

# ruff: noqa: E501  (errors are quoted in full)

import numpy as np
import pytest

import jitgrad as torch
from jitgrad.autograd import gradcheck, gradgradcheck
from jitgrad.core.layout import forget_plans
from jitgrad.kernels import product_parts
from jitgrad.kernels.loops.matmul import tile_product
from jitgrad.nn.functional import linear

RNG = np.random.default_rng(0)
SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)), ((6, 5, 2, 3), (3, 4)), ((6, 5, 2, 3), (6, 5, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
    ((4, 0, 3), (3, 2)), ((2, 3, 0), (0, 2)),
]  # fmt: skip


def array(shape, dtype="float64"):
    values = RNG.uniform(-3, 3, shape)
    if dtype.startswith("complex"):
        values = values + 1j * RNG.uniform(-3, 3, shape)
    return values.astype(dtype)


def names(node, depth=6):
    found = []
    while node is not None and len(found) < depth:
        found.append(node.name().rpartition("::")[2].removesuffix("Backward0"))
        node = next((n for n, _ in node.next_functions if n is not None), None)
    return " ".join(found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64", "int32", "uint8"])
def test_values_of_every_rank(dtype):
    for a, b in SHAPES:
        x, y = array(a, dtype), array(b, dtype)
        result = torch.tensor(x) @ torch.tensor(y)
        assert result.dtype.name == dtype
        rounding = 1e-4 if dtype in ("float32", "complex64") else 1e-12
        np.testing.assert_allclose(result.numpy(), x @ y, rtol=rounding, atol=rounding)


@pytest.mark.parametrize(("a", "b"), [s for s in SHAPES if 0 not in s[0]])
def test_gradients_of_every_rank(a, b):
    x, y = torch.tensor(array(a), requires_grad=True), torch.tensor(array(b), requires_grad=True)
    assert gradcheck(torch.matmul, (x, y)) and gradgradcheck(torch.matmul, (x, y))


def test_complex_gradients():
    x, y = (torch.tensor(array((3, 3), "complex128"), requires_grad=True) for _ in range(2))
    v = torch.tensor(array((3,), "complex128"), requires_grad=True)
    assert gradcheck(torch.mm, (x, y)) and gradcheck(torch.mv, (x, v)) and gradcheck(torch.dot, (v, x[0]))
    assert gradcheck(lambda *t: torch.addmm(*t, beta=0.5j, alpha=2j), (v, x, y))


VIEWS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
    "every second": lambda t: torch.stack([t, t], -1).flatten(-2)[..., ::2],
    "reversed": lambda t: t.flip(-1).flip(-1),
    "batch last": lambda t: t.movedim(0, -1).contiguous().movedim(-1, 0),
    "expanded": lambda t: t[..., :1].expand(t.shape),
}


@pytest.mark.parametrize("left", VIEWS)
@pytest.mark.parametrize("right", VIEWS)
def test_operands_in_any_layout(left, right):
    for a, b in (((4, 3), (3, 5)), ((2, 4, 3), (2, 3, 5))):
        x, y = torch.tensor(array(a), requires_grad=True), torch.tensor(array(b), requires_grad=True)
        p, q = VIEWS[left](x), VIEWS[right](y)
        result = p @ q
        np.testing.assert_allclose(result.detach().numpy(), p.detach().numpy() @ q.detach().numpy(), atol=1e-12)
        g = torch.tensor(array(result.shape))
        fast = torch.autograd.grad(p @ q, (x, y), g)
        slow = torch.autograd.grad(VIEWS[left](x) @ VIEWS[right](y), (x, y), g, create_graph=True)
        for f, s in zip(fast, slow, strict=True):
            np.testing.assert_allclose(f.numpy(), s.detach().numpy(), atol=1e-12)


BY_BLAS, BY_TILES = (0, ["dot_on_one", "matmul"]), (1 << 18, ["tile_product", "tile_products"])


@pytest.mark.parametrize(("most", "kernels"), [BY_BLAS, BY_TILES])
def test_transposed_operands_are_read_where_they_lie(monkeypatch, most, kernels):
    monkeypatch.setattr(product_parts, "_BY_TILES", most)
    forget_plans()
    x, w = torch.tensor(array((2, 80, 30))), torch.tensor(array((2, 50, 30)))
    with torch.debug.tape() as tape:
        results = torch.mm(x[0], w[0].t()), torch.bmm(x, w.transpose(1, 2))
    forget_plans()
    assert [e.kernel.name for e in tape] == kernels
    np.testing.assert_allclose(results[0], x.numpy()[0] @ w.numpy()[0].T, atol=1e-12)
    np.testing.assert_allclose(results[1], x.numpy() @ w.numpy().swapaxes(1, 2), atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_runs_a_product_by_a_transposed_matrix_is_chosen_once(monkeypatch, threads):
    monkeypatch.setattr(product_parts, "_BY_TILES", 1 << 18)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    forget_plans()
    monkeypatch.setattr(tile_product, "call", lambda *args: pytest.fail("a loop that counts its pieces anew"))
    x, w = torch.tensor(array((80, 30)), requires_grad=True), torch.tensor(array((50, 30)), requires_grad=True)
    for _ in range(3):
        x.grad = w.grad = None
        y = torch.mm(x, w.t())
        y.backward(torch.ones(80, 50))
        np.testing.assert_allclose(y.detach(), x.detach().numpy() @ w.detach().numpy().T, atol=1e-12)
        np.testing.assert_allclose(w.grad, np.repeat(x.detach().numpy().sum(0)[None], 50, 0), atol=1e-12)
    torch.set_num_threads(before)
    forget_plans()


def test_small_products_are_one_loop_whatever_is_transposed():
    x, w = torch.tensor(array((2, 4, 3)), requires_grad=True), torch.tensor(array((2, 5, 3)), requires_grad=True)
    with torch.debug.tape() as tape:
        torch.autograd.grad(torch.mm(x[0], w[0].t()), [x, w], torch.ones(4, 5))
    assert [e.kernel.name for e in tape if "product" in e.kernel.name] == ["small_product"] * 3
    with torch.debug.tape() as tape:
        torch.autograd.grad(torch.bmm(x, w.transpose(1, 2)), [x, w], torch.ones(2, 4, 5))
    assert [e.kernel.name for e in tape if "product" in e.kernel.name] == ["small_products"] * 3


def test_the_gradient_of_a_transposed_weight_is_row_major():
    x, w = torch.tensor(array((8, 3))), torch.tensor(array((5, 3)), requires_grad=True)
    torch.mm(x, w.t()).sum().backward()
    assert w.grad.is_contiguous()
    np.testing.assert_allclose(w.grad.numpy(), np.repeat(x.numpy().sum(0)[None], 5, 0))


GRAPHS = {
    ((3,), (3,)): "Dot AccumulateGrad",
    ((2, 3), (3,)): "Mv AccumulateGrad",
    ((3,), (3, 2)): "SqueezeBackward4 Mm Unsqueeze AccumulateGrad",
    ((2, 3), (3, 4)): "Mm AccumulateGrad",
    ((5, 2, 3), (3, 4)): "UnsafeView Mm View AccumulateGrad",
    ((5, 2, 3), (3,)): "UnsafeView Mv View AccumulateGrad",
    ((5, 2, 3), (5, 3, 4)): "UnsafeView Bmm View Expand AccumulateGrad",
    ((2, 3), (5, 3, 4)): "Clone Transpose UnsafeView Mm UnsafeView Clone",
    ((5, 2, 3), (1, 3, 4)): "UnsafeView Mm View AccumulateGrad",
}


@pytest.mark.parametrize("shapes", GRAPHS)
def test_graphs(shapes):
    x, y = (torch.tensor(array(s), requires_grad=True) for s in shapes)
    assert names((x @ y).grad_fn) == GRAPHS[shapes]


@pytest.mark.parametrize(("shape", "graph"), [
    ((2, 3), "Addmm AccumulateGrad"), ((5, 2, 3), "View Addmm AccumulateGrad"), ((3,), "View Addmm AccumulateGrad"),
])  # fmt: skip
def test_linear(shape, graph):
    x, w, b = array(shape), array((4, 3)), array((4,))
    tensors = tuple(torch.tensor(v, requires_grad=True) for v in (x, w, b))
    out = linear(*tensors)
    np.testing.assert_allclose(out.detach().numpy(), x @ w.T + b)
    assert names(out.grad_fn) == graph
    assert gradcheck(linear, tensors) and gradgradcheck(linear, tensors)
    np.testing.assert_allclose(linear(*tensors[:2]).detach().numpy(), x @ w.T)


@pytest.mark.parametrize("added", [(4,), (2, 4), (2, 1), (1, 4), (), (1,)])
def test_products_that_add(added):
    c, a, b, v = array(added), array((2, 3)), array((3, 4)), array((3,))
    tensors = [torch.tensor(t) for t in (c, a, b)]
    np.testing.assert_allclose(torch.addmm(*tensors).numpy(), c + a @ b)
    np.testing.assert_allclose(torch.addmm(*tensors, beta=0.5, alpha=2).numpy(), 0.5 * c + 2 * (a @ b))
    wrong = torch.full(added, float("nan"), dtype=torch.float64)
    assert not torch.addmm(wrong, *tensors[1:], beta=0).isnan().any().item()
    batches = torch.stack(tensors[1:2] * 3), torch.stack(tensors[2:] * 3)
    np.testing.assert_allclose(torch.baddbmm(tensors[0], *batches).numpy(), np.broadcast_to(c + a @ b, (3, 2, 4)))
    if added in ((), (1,)):
        np.testing.assert_allclose(torch.addmv(tensors[0], tensors[1], torch.tensor(v)).numpy(), c + a @ v)


def test_outer_inner_tensordot():
    a, b = array((3,)), array((4,))
    np.testing.assert_allclose(torch.outer(torch.tensor(a), torch.tensor(b)).numpy(), np.outer(a, b))
    x, y = array((2, 3, 4)), array((3, 4, 5))
    np.testing.assert_allclose(torch.tensordot(torch.tensor(x), torch.tensor(y)).numpy(), np.tensordot(x, y))
    z = array((4, 3, 2))
    for dims in (([0, 1], [2, 1]), ([1], [1]), ([0, 1, 2], [2, 1, 0])):
        np.testing.assert_allclose(
            torch.tensordot(torch.tensor(x), torch.tensor(z), dims).numpy(), np.tensordot(x, z, dims)
        )
    np.testing.assert_allclose(torch.inner(torch.tensor(x), torch.tensor(array((6, 4)))).shape, (2, 3, 6))
    u, v = array((3,), "complex128"), array((3,), "complex128")
    np.testing.assert_allclose(torch.vdot(torch.tensor(u), torch.tensor(v)).numpy(), np.vdot(u, v))


def test_nan_and_infinity_pass():
    x = torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0]])
    np.testing.assert_array_equal((x @ torch.ones(2, 2)).numpy(), [[np.nan] * 2, [np.inf] * 2])


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: ones(2, 3) @ ones(4, 5), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
        (lambda: ones(3) @ ones(4, 5), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (1x3 and 4x5)"),
        (lambda: ones(2, 3) @ ones(4), RuntimeError, "size mismatch, got input (2), mat (2x3), vec (4)"),
        (lambda: ones(3) @ ones(4), RuntimeError, "inconsistent tensor size, expected tensor [3] and src [4] to have the"),
        (lambda: torch.dot(ones(3, 1), ones(3)), RuntimeError, "1D tensors expected, but got 2D and 1D tensors"),
        (lambda: ones(2, 3, 4) @ ones(2, 5, 6), RuntimeError, "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5]."),
        (lambda: ones(2, 3, 4) @ ones(5, 4, 6), RuntimeError, "The size of tensor a (2) must match the size of tensor b (5)"),
        (lambda: ones(1)[0] @ ones(3), RuntimeError, "both arguments to matmul need to be at least 1D, but they are 0D and 1D"),
        (lambda: torch.mm(ones(2), ones(2, 2)), RuntimeError, "self must be a matrix"),
        (lambda: torch.mm(ones(2, 2), ones(2)), RuntimeError, "mat2 must be a matrix"),
        (lambda: torch.bmm(ones(2, 2), ones(2, 2, 2)), RuntimeError, "batch1 must be a 3D tensor"),
        (lambda: ones(2, 2) @ ones(2, 2).double(), RuntimeError, "expected m1 and m2 to have the same dtype, but got: float != double"),
        (lambda: ones(2, 2).bool() @ ones(2, 2).bool(), NotImplementedError, "\"addmm_impl_cpu_\" not implemented for 'Bool'"),
        (lambda: ones(2, 2) @ 3, TypeError, "unsupported operand type(s) for @: 'Tensor' and 'int'"),
        (lambda: torch.matmul(ones(2), [1, 2]), TypeError, "matmul(): argument 'other' (position 2) must be Tensor, not list"),
        (lambda: torch.addmm(ones(5), ones(2, 3), ones(3, 4)), RuntimeError, "The expanded size of the tensor (4) must match the existing size (5) at non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [5]"),
        (lambda: torch.addmm(ones(4).double(), ones(2, 3), ones(3, 4)), RuntimeError, "self and mat2 must have the same dtype, but got Double and Float"),
        (lambda: linear(ones(2, 3), ones(4, 2), ones(4)), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x4)"),
        (lambda: torch.outer(ones(2, 2), ones(2)), RuntimeError, "outer: Expected 1-D argument self, but got 2-D"),
    ],
)  # fmt: skip
def test_errors(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert words in str(error.value)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij->i", (2, 3)), ("ii", (3, 3)), ("ii->i", (3, 3)),
    ("iij->ji", (3, 3, 2)), ("i,j->ij", (3,), (4,)), ("ij,ij->", (2, 3), (2, 3)), ("ij,kj", (2, 3), (4, 3)),
    ("...ij,...jk", (2, 3), (5, 3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("i,i", (3,), (3,)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)), ("i,j,k->", (2,), (3,), (4,)), ("...i->...", (2, 3, 4)),
    ("i...->...i", (2, 3, 4)), ("b...,b...->...", (2, 3), (2, 3)), ("ij , jk", (1, 3), (3, 2)), ("ba,b->ab", (2, 3), (2,)),
]  # fmt: skip


@pytest.mark.parametrize("case", EQUATIONS, ids=[c[0] for c in EQUATIONS])
def test_einstein_sums(case):
    equation, *shapes = case
    arrays = [array(s) for s in shapes]
    tensors = tuple(torch.tensor(a, requires_grad=True) for a in arrays)
    np.testing.assert_allclose(torch.einsum(equation, *tensors).detach().numpy(), np.einsum(equation, *arrays), atol=1e-12)
    assert gradcheck(lambda *t: torch.einsum(equation, *t), tensors)


def test_other_forms_of_einstein_sums():
    x, y = torch.tensor(array((2, 3))), torch.tensor(array((3, 4)))
    expected = (x @ y).numpy()
    np.testing.assert_allclose(torch.einsum("ij,jk", [x, y]).numpy(), expected)
    np.testing.assert_allclose(torch.einsum(x, [0, 1], y, [1, 2], [0, 2]).numpy(), expected)
    np.testing.assert_allclose(torch.einsum(x, [..., 1], y, [1, 2]).numpy(), expected)


@pytest.mark.parametrize(
    ("equation", "shapes", "words"),
    [
        ("ij,jk", [(2, 3)], "fewer operands were provided than specified in the equation"),
        ("ij", [(2, 3), (2, 3)], "more operands were provided than specified in the equation"),
        ("ij->k", [(2, 3)], "output subscript k does not appear in the equation for any input operand"),
        ("ij->ii", [(2, 3)], "output subscript i appears more than once in the output"),
        ("i1", [(2, 3)], "invalid subscript given at index 1 in the equation string, subscripts must be in [a-zA-Z]"),
        ("ij,jk", [(2, 3), (4, 4)], "subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3"),
        ("ij", [(2, 3, 4)], "the number of subscripts in the equation (2) does not match the number of dimensions (3)"),
        ("...ijk", [(2, 3)], "the number of subscripts in the equation (3) is more than the number of dimensions (2)"),
        ("ii", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("i.j", [(2, 3)], "found '.' for operand 0 that is not part of any ellipsis"),
        ("...i...", [(2, 3)], "found '.' for operand 0 for which an ellipsis was already found"),
    ],
)
def test_errors_of_einstein_sums(equation, shapes, words):
    with pytest.raises(RuntimeError) as error:
        torch.einsum(equation, *(torch.ones(s) for s in shapes))
    assert f"einsum(): {words}" in str(error.value)


def test_views_of_an_einsum_that_is_not_recorded_are_one_each():
    x, y = torch.tensor(array((2, 3, 4))), torch.tensor(array((4, 3, 2))).permute(2, 1, 0)
    expected = torch.einsum("bij,bkj->kbi", x, y)
    for a, b in ((x, y), (x + 1, y), (x, (y * 1j).imag)):
        found = torch.einsum("bij,bkj->kbi", a, b)
        again = torch.einsum("bij,bkj->kbi", a.clone().requires_grad_(), b)
        np.testing.assert_allclose(found.numpy(), again.detach().numpy(), atol=1e-12)
        assert found.stride() == again.stride() == expected.stride()
        assert found.grad_fn is None and again.grad_fn is not None


def test_a_stacked_product_that_is_not_recorded_is_one_launch():
    x, w = torch.tensor(array((2, 3, 4))), torch.tensor(array((4, 5)))
    for y in (w, torch.tensor(array((2, 4, 5)))):
        with torch.debug.tape() as tape:
            found = x @ y
        assert [e.kernel.name for e in tape] == [["small_products", "small_product"][y.ndim == 2]]
        np.testing.assert_allclose(found.numpy(), x.numpy() @ y.numpy(), atol=1e-12)
        again = x.clone().requires_grad_() @ y
        assert again.grad_fn.name() == "UnsafeViewBackward0" and again.stride() == found.stride()


def test_a_kronecker_product_of_two_orders_of_dims():
    a, b = torch.arange(6.0).view(2, 3).t(), torch.arange(8.0).view(2, 4)
    np.testing.assert_array_equal(torch.kron(a, b).numpy(), np.kron(a.numpy(), b.numpy()))


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("sizes", [(3, 1, 700, 1), (5, 1, 33, 300), (5, 300, 33, 1), (1, 1, 600, 9), (2, 300, 5, 1)])
def test_stacks_of_vectors_by_matrices(sizes, turned):
    """Rows by matrices, matrices by columns, and one by the other, whichever of them is given transposed."""
    stack, n, inner, m = sizes
    shapes = (stack, n, inner), (stack, inner, m)
    given = [torch.from_numpy(array(s[:1] + s[:0:-1] if t else s)) for s, t in zip(shapes, turned, strict=True)]
    x, y = (a.transpose(1, 2) if t else a for a, t in zip(given, turned, strict=True))
    with torch.debug.tape() as tape:
        found = torch.bmm(x, y)
    assert [entry.kernel.name for entry in tape] == ["vector_products"]
    np.testing.assert_allclose(found.numpy(), x.numpy() @ y.numpy(), rtol=1e-12, atol=1e-12)
