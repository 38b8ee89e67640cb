"""Forward mode, from the same declarations as backward."""

import copy
import weakref

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.autograd.forward_ad as fwAD
from jitgrad.dispatch.elementwise import ElementwiseOp
from jitgrad.dispatch.inplace_ops import InplaceOp
from jitgrad.dispatch.registry import OPS
from jitgrad.testing import op_samples


def first_result(function, args, kwargs):
    """The op's first result, in real numbers; an op that draws numbers draws the same each time."""
    torch.manual_seed(0)
    value = function(*args, **kwargs)
    value = value[0] if isinstance(value, (tuple, list)) else value
    return torch.view_as_real(value) if value.dtype.is_complex else value


@pytest.mark.parametrize("name", sorted(OPS))
def test_tangent_agrees_with_backward(name):
    """<u, J t> computed forward equals <J^T u, t> computed backward, for every declared op."""
    if name in ("_ctc_loss", "standard_gamma_of"):
        pytest.skip("as PyTorch's it has no tangents")
    for function, args, kwargs in op_samples(name):
        if name == "embedding" and len(args) > 2:
            continue  # backward leaves that row out, forward mode does not: as in PyTorch
        rng = np.random.default_rng(0)
        where = [k for k, a in enumerate(args) if isinstance(a, torch.Tensor) and a.dtype is torch.float64]
        names = function.op.inputs if isinstance(function, ElementwiseOp) else OPS[name].parameters
        rules = function.op.grads if isinstance(function, ElementwiseOp) else OPS[name].grads
        where = [k for k in where if list(names)[k] in rules]
        if not where:
            continue
        tangents = {k: torch.tensor(rng.standard_normal(args[k].shape)) for k in where}
        plain = [a.detach().requires_grad_() if k in tangents else a for k, a in enumerate(args)]
        out = first_result(function, plain, kwargs)
        if not out.requires_grad:
            continue
        u = torch.tensor(rng.standard_normal(out.shape))
        grads = torch.autograd.grad(out, [plain[k] for k in where], u, allow_unused=True)
        backward = sum((g * tangents[k]).sum().item() for k, g in zip(where, grads, strict=True) if g is not None)
        with fwAD.dual_level():
            duals = [fwAD.make_dual(a.detach(), tangents[k]) if k in tangents else a for k, a in enumerate(plain)]
            primal, tangent = fwAD.unpack_dual(first_result(function, duals, kwargs))
            np.testing.assert_allclose(primal.numpy(force=True), out.numpy(force=True))
            forward = (tangent * u).sum().item() if tangent is not None else 0.0
        assert forward == pytest.approx(backward, rel=1e-8, abs=1e-10)


WRITING = sorted(
    n for n, op in OPS.items() if isinstance(op, type) and issubclass(op, InplaceOp) and hasattr(op, "grad_x")
)


@pytest.mark.parametrize("name", WRITING)
def test_writing_in_place_gives_the_copy_s_tangent(name):
    op = OPS[name]
    for apply, (x, *rest), _ in op_samples(name):
        tangent = torch.tensor(np.random.default_rng(0).standard_normal(x.shape))
        with fwAD.dual_level():
            torch.manual_seed(0)
            expected = fwAD.unpack_dual(apply(fwAD.make_dual(x, tangent), *rest))
            dual = fwAD.make_dual(x.clone(), tangent)
            torch.manual_seed(0)
            assert op.inplace(dual, *rest) is dual
            primal, found = fwAD.unpack_dual(dual)
            np.testing.assert_array_equal(primal.numpy(), expected.primal.numpy())
            np.testing.assert_array_equal(found.numpy(), expected.tangent.numpy())


def test_elementwise_in_place():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
        y = torch.zeros(2)
        assert y.add_(x) is y  # a plain tensor becomes dual
        y.mul_(y)
        y += 1.0
        primal, tangent = fwAD.unpack_dual(y)
        assert primal.tolist() == [2.0, 5.0]
        assert tangent.tolist() == [2.0, 40.0]
        assert fwAD.unpack_dual(x).tangent.tolist() == [1.0, 10.0]
        y[0] = 3.0
        assert primal.tolist() == [3.0, 5.0]
        assert fwAD.unpack_dual(y).tangent.tolist() == [0.0, 40.0]


def test_a_composed_function():
    x, t = torch.tensor([0.5, 1.0]), torch.tensor([1.0, 2.0])
    with fwAD.dual_level():
        y = torch.exp(fwAD.make_dual(x, t) * 2.0).sum() + 1.0
        primal, tangent = fwAD.unpack_dual(y)
    np.testing.assert_allclose(tangent.item(), (2 * np.exp(2 * x.numpy()) * t.numpy()).sum(), rtol=1e-6)
    np.testing.assert_allclose(primal.item(), np.exp(2 * x.numpy()).sum() + 1, rtol=1e-6)


def test_tangents_end_with_their_level():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2), torch.ones(2))
        assert fwAD.unpack_dual(x).tangent is not None
    assert fwAD.unpack_dual(x).tangent is None
    with fwAD.dual_level():
        assert fwAD.unpack_dual(x).tangent is None


def test_errors():
    with pytest.raises(RuntimeError, match="no level exists"):
        fwAD.make_dual(torch.ones(2), torch.ones(2))
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match="different size than that of the original Tensor"):
            fwAD.make_dual(torch.ones(2), torch.ones(3))
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            fwAD.make_dual(torch.ones(2, dtype=torch.int64), torch.ones(2))
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fwAD.exit_dual_level()


F = torch.nn.functional
OF_TWO = {
    "linear": lambda x, w: F.linear(x, w.outer(w), w),
    "layer_norm": lambda x, w: F.layer_norm(x * 2, (3,), w, w),
    "mse_loss": lambda x, w: F.mse_loss(x, w),
    "matmul": lambda x, w: x.sin() @ w.outer(w),
    "index_add": lambda x, w: x.index_add(0, torch.tensor([0, 1]), w[:2] * x[:2]),
    "einsum": lambda x, w: torch.einsum("i,j,i->j", x, w, x),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_tangents_depend_on_what_has_none(name):
    """The gradient of a tangent with respect to an operand that is held fixed, beside finite differences."""
    x, t = torch.tensor([0.4, -0.3, 0.9]).double(), torch.tensor([1.0, 0.3, -0.4]).double()

    def size_of_tangent(w):
        with fwAD.dual_level():
            return (fwAD.unpack_dual(OF_TWO[name](fwAD.make_dual(x, t), w)).tangent ** 2).sum()

    w = torch.tensor([0.7, 1.3, -0.5]).double().requires_grad_()
    (found,) = torch.autograd.grad(size_of_tangent(w), w)
    steps = torch.eye(3).double() * 1e-5
    numeric = [(size_of_tangent(w.detach() + s) - size_of_tangent(w.detach() - s)).item() / 2e-5 for s in steps]
    np.testing.assert_allclose(found.numpy(), numeric, rtol=1e-5, atol=1e-8)


def test_tangents_can_be_switched_off():
    x = torch.tensor(2.0)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, torch.ones_like(x))
        with fwAD._set_fwd_grad_enabled(False):
            assert not fwAD._is_fwd_grad_enabled()
            fixed = d * d
        assert fwAD._is_fwd_grad_enabled()
        assert fwAD.unpack_dual(fixed).tangent is None
        assert fwAD.unpack_dual(d * d - fixed).tangent.item() == 4.0


def test_tangents_are_off_inside_a_function():
    seen = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(fwAD._is_fwd_grad_enabled())
            return x * x

    Square.apply(torch.ones(3))
    assert seen == [False]
    assert fwAD._is_fwd_grad_enabled()


def test_what_was_written_to_under_a_level_is_the_same_tensor_again_afterwards():
    weight, rows = torch.nn.Parameter(torch.zeros(3)), torch.zeros(2, 3)
    row, tangent = rows[0], weakref.ref(moved := torch.ones(3))
    for _ in range(2):
        with fwAD.dual_level():
            x = fwAD.make_dual(torch.ones(3), moved)
            with torch.no_grad():
                weight.copy_(x * 2)
            row.add_(x)
            assert fwAD.unpack_dual(rows).tangent[0].tolist() == [1, 1, 1]
            loss = (weight * weight).sum()
    assert type(weight) is torch.nn.Parameter and type(rows) is type(row) is torch.Tensor
    loss.backward()
    assert weight.grad.tolist() == [4, 4, 4] and rows[0].tolist() == [2, 2, 2]
    row.mul_(weight)
    assert rows.grad_fn.name() == "torch::autograd::CopySlices" and row._base is rows
    del x, moved
    assert tangent() is None


@pytest.mark.parametrize(
    "f", [lambda x: x.std(), lambda x: x.norm(), lambda x: x.norm(3), lambda x: x.norm(1.5), lambda x: x.std(0, True)]
)
def test_forward_mode_takes_the_subgradients_that_backward_takes(f):
    x = torch.zeros(3, dtype=torch.float64)
    assert torch.func.jacfwd(f)(x).tolist() == torch.func.jacrev(f)(x).tolist() == [0, 0, 0]


def test_the_second_derivative_of_a_power_of_zero_is_zero():
    exponents = torch.tensor([0.0, 2.0])
    assert torch.func.hessian(lambda x: (x**exponents).sum())(torch.zeros(2)).tolist() == [[0, 0], [0, 2]]


def test_deep_copies_of_dual_tensors_are_plain_ones():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.ones(2), torch.ones(2))
        twin = copy.deepcopy(x)
        assert type(twin) is torch.Tensor and twin.tolist() == [1, 1]
        assert fwAD.unpack_dual(twin).tangent is None


def test_dual_tensors_print_their_tangent():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.tensor([1.0]), torch.tensor([2.0]))
        assert repr(x) == "tensor([1.], tangent=tensor([2.]))"
    assert repr(x) == "tensor([1.])"


def test_a_tangent_that_does_not_fit_the_line_is_printed_below():
    with fwAD.dual_level():
        x = fwAD.make_dual(torch.zeros(2, 1), torch.ones(2, 1))
        assert repr(x) == "tensor([[0.],\n        [0.]], tangent=tensor([[1.],\n        [1.]]))"
        y = fwAD.make_dual(torch.zeros(4, 1), torch.ones(4, 1))
        assert repr(y).splitlines()[3:5] == ["        [0.]],", "       tangent=tensor([[1.],"]


def test_a_dual_tensor_is_a_view_of_its_primal():
    leaf = torch.ones(2, requires_grad=True)
    with fwAD.dual_level():
        x = fwAD.make_dual(leaf, torch.ones(2))
        assert not x.is_leaf and x._is_view() and x.grad_fn.name() == "ViewBackward0"
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            x.mul_(2)
        (x**3).sum().backward()
        assert leaf.grad.tolist() == [3, 3]
        with pytest.warns(UserWarning, match="not a leaf"):
            assert x.grad is None
        plain = torch.ones(2)
        fwAD.make_dual(plain, torch.ones(2)).mul_(3)
        assert plain.tolist() == [3, 3]
