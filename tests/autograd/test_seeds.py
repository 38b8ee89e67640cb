"""What five published texts on autograd show and say, statement by statement.

1. "requires_grad=True with a tensor, backward() and retain_grad() in PyTorch" (a blog post)
2. "Understanding requires_grad, retain_grad, Leaf, and Non-leaf Tensors" (PyTorch's tutorial)
3. a notebook on ``grad_fn``, disabling gradients and repeated backward
4. a notebook on ``requires_grad_``, the arguments of ``backward`` and accumulation
5. notes on the concepts, and a script that checks them
"""

import re
import warnings

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad import nn

SECOND = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)
NON_LEAF = "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed."


def state(tensor):
    """(tensor, tensor.grad, tensor.is_leaf), printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str((tensor, tensor.grad, tensor.is_leaf))


# -- 1: backward and retain_grad ------------------------------------------------------------------


def test_1_leaf_accumulates_on_each_backward():
    my_tensor = torch.tensor(data=7.0, requires_grad=True)
    assert state(my_tensor) == "(tensor(7., requires_grad=True), None, True)"
    for total in ("1.", "2.", "3."):
        my_tensor.backward()
        assert state(my_tensor) == f"(tensor(7., requires_grad=True), tensor({total}), True)"


def test_1_three_tensors_with_retained_graph_and_grads():
    tensor1 = torch.tensor(data=7.0, requires_grad=True)
    tensor1.backward()
    assert state(tensor1) == "(tensor(7., requires_grad=True), tensor(1.), True)"
    tensor2 = tensor1 * 4
    tensor2.retain_grad()
    assert state(tensor2) == "(tensor(28., grad_fn=<MulBackward0>), None, False)"
    tensor2.backward(retain_graph=True)
    assert state(tensor1) == "(tensor(7., requires_grad=True), tensor(5.), True)"
    assert state(tensor2) == "(tensor(28., grad_fn=<MulBackward0>), tensor(1.), False)"
    tensor3 = tensor2 * 5
    tensor3.retain_grad()
    assert state(tensor3) == "(tensor(140., grad_fn=<MulBackward0>), None, False)"
    tensor3.backward()
    assert state(tensor1) == "(tensor(7., requires_grad=True), tensor(25.), True)"
    assert state(tensor2) == "(tensor(28., grad_fn=<MulBackward0>), tensor(6.), False)"
    assert state(tensor3) == "(tensor(140., grad_fn=<MulBackward0>), tensor(1.), False)"


def test_1_without_retain_graph_the_second_backward_raises():
    tensor1 = torch.tensor(data=7.0, requires_grad=True)
    tensor2 = tensor1 * tensor1
    tensor2.backward()
    with pytest.raises(RuntimeError, match=re.escape(SECOND)):
        tensor2.backward()


def test_1_detached_tensor_becomes_a_leaf_of_its_own():
    tensor1 = torch.tensor(data=7.0, requires_grad=True)
    tensor1.backward()
    tensor2 = tensor1 * 4
    tensor2.retain_grad()
    tensor2.backward()
    tensor3 = tensor2 * 5
    tensor3 = tensor3.detach_().requires_grad_(requires_grad=True)
    tensor3.retain_grad()
    assert state(tensor3) == "(tensor(140., requires_grad=True), None, True)"
    tensor3.backward()
    assert state(tensor1) == "(tensor(7., requires_grad=True), tensor(5.), True)"
    assert state(tensor2) == "(tensor(28., grad_fn=<MulBackward0>), tensor(1.), False)"
    assert state(tensor3) == "(tensor(140., requires_grad=True), tensor(1.), True)"


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize(("value", "grad", "shown"), [(7.0, 4.0, ("7.", "4.")), (7 + 0j, 4 + 0j, ("7.+0.j", "4.+0.j"))])
def test_1_a_gradient_can_be_set_by_hand(requires_grad, value, grad, shown):
    suffix = ", requires_grad=True" if requires_grad else ""
    my_tensor = torch.tensor(data=value, requires_grad=requires_grad)
    assert state(my_tensor) == f"(tensor({shown[0]}{suffix}), None, True)"
    my_tensor.grad = torch.tensor(data=grad)
    assert state(my_tensor) == f"(tensor({shown[0]}{suffix}), tensor({shown[1]}), True)"


def test_1_data_must_be_float_or_complex():
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        torch.tensor(7, requires_grad=True)


def test_1_a_set_gradient_must_be_a_tensor_of_the_same_type_and_size():
    my_tensor = torch.tensor([7.0, 8.0])
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None but got grad of type float"):
        my_tensor.grad = 4.0
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size '\\[3\\]' to a tensor of size"):
        my_tensor.grad = torch.zeros(3)
    with pytest.raises(RuntimeError, match="attempting to assign a gradient with dtype"):
        my_tensor.grad = torch.zeros(2, dtype=torch.float64)
    assert my_tensor.grad is None


# -- 2: leaf and non-leaf -------------------------------------------------------------------------


@pytest.fixture
def affine():
    """The tutorial's tensors: x, W, b, y, z, y_pred, loss."""
    x, y = torch.ones(1, 3), torch.ones(1, 2)
    W, b = torch.ones(3, 2, requires_grad=True), torch.ones(1, 2, requires_grad=True)
    z = (x @ W) + b
    y_pred = F.relu(z)
    return x, W, b, y, z, y_pred, F.mse_loss(y_pred, y)


def test_2_is_leaf(affine):
    x, W, b, y, z, y_pred, loss = affine
    assert f"{x.is_leaf=}" == "x.is_leaf=True" and f"{z.is_leaf=}" == "z.is_leaf=False"
    assert [t.is_leaf for t in (x, W, b, y)] == [True] * 4
    assert [t.is_leaf for t in (z, y_pred, loss)] == [False] * 3


def test_2_requires_grad_spreads(affine):
    x, W, _, _, z, _, _ = affine
    assert (f"{x.requires_grad=}", f"{W.requires_grad=}", f"{z.requires_grad=}") == (
        "x.requires_grad=False", "W.requires_grad=True", "z.requires_grad=True",
    )  # fmt: skip


def test_2_without_requires_grad_there_is_nothing_to_do():
    x, W, b, y = torch.ones(1, 3), torch.ones(3, 2), torch.ones(1, 2), torch.ones(1, 2)
    loss = F.mse_loss(F.relu(x @ W + b), y)
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    with pytest.raises(RuntimeError, match=message):
        loss.backward()


def test_2_gradients_of_the_parameters(affine):
    x, W, b, y, _, _, loss = affine
    assert W.grad is None
    loss.backward()
    assert f"{W.grad=}" == "W.grad=tensor([[3., 3.],\n        [3., 3.],\n        [3., 3.]])"
    assert f"{b.grad=}" == "b.grad=tensor([[3., 3.]])"
    assert f"{x.grad=}" == "x.grad=None" and f"{y.grad=}" == "y.grad=None"


def test_2_a_non_leafs_grad_is_none_with_a_warning(affine):
    z, loss = affine[4], affine[6]
    loss.backward()
    with pytest.warns(UserWarning, match=re.escape(NON_LEAF)) as caught:
        assert f"{z.grad=}" == "z.grad=None"
    assert "use .retain_grad() on the non-leaf Tensor" in str(caught[0].message)


def test_2_retained_grads(affine):
    _, W, b, _, z, y_pred, loss = affine
    for tensor in (z, y_pred, loss):
        tensor.retain_grad()
    loss.backward()
    assert f"{W.grad=}" == "W.grad=tensor([[3., 3.],\n        [3., 3.],\n        [3., 3.]])"
    assert f"{b.grad=}" == "b.grad=tensor([[3., 3.]])"
    assert f"{z.grad=}" == "z.grad=tensor([[3., 3.]])"
    assert f"{y_pred.grad=}" == "y_pred.grad=tensor([[3., 3.]])"
    assert f"{loss.grad=}" == "loss.grad=tensor(1.)"


def test_2_retain_grad_needs_requires_grad(affine):
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        affine[0].retain_grad()


def test_2_table_of_valid_states(affine):
    x, W, _, _, z, _, _ = affine
    states = [(t.is_leaf, t.requires_grad, t.retains_grad) for t in (x, W, z)]
    W.retain_grad()  # nothing to do for a leaf
    z.retain_grad()
    states += [(t.is_leaf, t.requires_grad, t.retains_grad) for t in (W, z)]
    assert states == [
        (True, False, False), (True, True, False), (False, True, False), (True, True, False), (False, True, True),
    ]  # fmt: skip
    assert x.requires_grad_().requires_grad and not x.requires_grad_(False).requires_grad
    assert z.requires_grad_(True) is z


def test_2_zeroing_by_none(affine):
    _, W, b, _, _, _, loss = affine
    loss.backward()
    W.grad = None
    b.grad = None
    assert W.grad is None and b.grad is None


# -- 3: grad_fn and repeated backward ----------------------------------------------------------------


def test_3_printed_grad_fns_and_gradients():
    x, y = torch.ones(5), torch.zeros(3)
    w, b = torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    z = torch.matmul(x, w) + b
    loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)
    assert re.fullmatch(r"<AddBackward0 object at 0x[0-9a-f]+>", f"{z.grad_fn}")
    assert re.fullmatch(r"<BinaryCrossEntropyWithLogitsBackward0 object at 0x[0-9a-f]+>", f"{loss.grad_fn}")
    loss.backward()
    expected = 1 / (1 + np.exp(-z.detach().numpy())) / 3
    np.testing.assert_allclose(w.grad.numpy(), np.tile(expected, (5, 1)), rtol=1e-5)
    np.testing.assert_allclose(b.grad.numpy(), expected, rtol=1e-5)


def test_3_no_grad_and_detach():
    x, w, b = torch.ones(5), torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    z = torch.matmul(x, w) + b
    assert z.requires_grad
    with torch.no_grad():
        z = torch.matmul(x, w) + b
        assert not z.requires_grad
    z = torch.matmul(x, w) + b
    z = z.detach()
    assert not z.requires_grad


def test_3_backward_three_times():
    inp = torch.eye(4, 5, requires_grad=True)
    out = (inp + 1).pow(2).t()
    out.backward(torch.ones_like(out), retain_graph=True)
    first = (
        "tensor([[4., 2., 2., 2., 2.],\n        [2., 4., 2., 2., 2.],\n        [2., 2., 4., 2., 2.],\n"
        "        [2., 2., 2., 4., 2.]])"
    )
    assert f"First call\n{inp.grad}" == f"First call\n{first}"
    out.backward(torch.ones_like(out), retain_graph=True)
    second = first.replace("4.", "8.").replace("2.", "4.")
    assert f"\nSecond call\n{inp.grad}" == f"\nSecond call\n{second}"
    inp.grad.zero_()
    out.backward(torch.ones_like(out), retain_graph=True)
    assert f"{inp.grad}" == first


# -- 4: requires_grad_, arguments of backward -----------------------------------------------------------


def test_4_exp_and_its_gradient():
    x = torch.tensor([3.0], dtype=torch.float64, requires_grad=False)
    y = torch.exp(x)
    assert (x.requires_grad, y.requires_grad) == (False, False)
    x.requires_grad_(True)
    y = torch.exp(x)
    assert (x.requires_grad, y.requires_grad) == (True, True)
    y.backward()
    with pytest.warns(UserWarning, match=re.escape(NON_LEAF)):
        assert y.grad is None
    assert str(x.grad) == "tensor([20.0855], dtype=torch.float64)"
    with pytest.raises(RuntimeError, match=re.escape("Trying to backward through the graph a second time")):
        y.backward()


def test_4_vector_valued_functions_need_weights():
    xx = torch.arange(4, dtype=torch.float32, requires_grad=True)
    yy = torch.pow(xx, 2)
    assert str(yy) == "tensor([0., 1., 4., 9.], grad_fn=<PowBackward0>)"
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        yy.backward()
    yy.backward(torch.ones_like(yy))
    assert str(xx.grad) == "tensor([0., 2., 4., 6.])"
    assert not yy.is_leaf and xx.is_leaf


def test_4_weighted_backward_accumulates():
    xx = torch.arange(4, dtype=torch.float32, requires_grad=True)
    shown = []
    for _ in range(5):
        yy = torch.pow(xx, 2)
        assert f"xx={xx} and yy={yy}" == (
            "xx=tensor([0., 1., 2., 3.], requires_grad=True) and yy=tensor([0., 1., 4., 9.], grad_fn=<PowBackward0>)"
        )
        yy.backward(torch.tensor([0.01, 0.1, 1.0, 10.0]))
        shown.append(f"{xx.grad}")
    assert shown == [
        "tensor([ 0.0000,  0.2000,  4.0000, 60.0000])",
        "tensor([  0.0000,   0.4000,   8.0000, 120.0000])",
        "tensor([  0.0000,   0.6000,  12.0000, 180.0000])",
        "tensor([  0.0000,   0.8000,  16.0000, 240.0000])",
        "tensor([  0.,   1.,  20., 300.])",
    ]


# -- 5: concepts and a checking script ------------------------------------------------------------------


def check(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grad = x.grad
    return f"is_leaf: {x.is_leaf}, requires_grad: {x.requires_grad}, grad_fn: {x.grad_fn}, grad: {grad}"


def test_5_requires_grad_of_a_result_cannot_be_cleared():
    y = nn.Linear(3, 5)(torch.rand(1, 3))
    message = (
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
    )
    with pytest.raises(RuntimeError, match=re.escape(message)):
        y.requires_grad = False


def test_5_ways_to_require_grad():
    x = torch.rand(3, requires_grad=True)
    assert x.requires_grad
    x = torch.rand(3)
    x.requires_grad = True
    assert x.requires_grad
    x = torch.rand(3)
    assert x.requires_grad_(True) is x and x.requires_grad
    leaf = "is_leaf: True, requires_grad: True, grad_fn: None, grad: None"
    assert check(nn.Parameter(torch.rand(3))) == leaf
    assert check(nn.Linear(3, 5).weight) == leaf


def test_5_operations_on_leaves():
    assert check(torch.rand(3)) == "is_leaf: True, requires_grad: False, grad_fn: None, grad: None"
    assert check(torch.rand(3, requires_grad=True)) == "is_leaf: True, requires_grad: True, grad_fn: None, grad: None"
    pattern = r"is_leaf: False, requires_grad: True, grad_fn: <AddBackward0 object at 0x[0-9a-f]+>, grad: None"
    assert re.fullmatch(pattern, check(torch.rand(3, requires_grad=True) + 1))
    assert check(torch.rand(3) + 1) == "is_leaf: True, requires_grad: False, grad_fn: None, grad: None"


def test_5_modules():
    lin, x = nn.Linear(3, 5), torch.rand(1, 3)
    y = lin(x)
    pattern = r"is_leaf: False, requires_grad: True, grad_fn: <AddmmBackward0 object at 0x[0-9a-f]+>, grad: None"
    assert re.fullmatch(pattern, check(y))
    gt = torch.rand(1, 5)
    loss = nn.L1Loss()(y, gt)
    assert loss.grad_fn.name() == "MeanBackward0"
    loss.backward()
    assert lin.weight.grad.shape == (5, 3)
    assert x.grad is None and gt.grad is None


def test_5_detach_and_clone():
    x = torch.rand(3, requires_grad=True)
    assert x.detach().is_leaf and not x.detach().requires_grad
    assert x.detach().data_ptr() == x.data_ptr()
    assert not x.clone().is_leaf and x.clone().data_ptr() != x.data_ptr()


def test_5_no_grad_as_decorator_and_enable_grad_inside():
    @torch.no_grad()
    def func(x):
        with torch.enable_grad():
            inner = x * 2
        return x * 2, inner

    outer, inner = func(torch.rand(3, requires_grad=True))
    assert not outer.requires_grad and inner.requires_grad


def test_5_inside_no_grad_backward_has_no_graph():
    x = torch.rand(1, requires_grad=True)
    with torch.no_grad():
        y = x * 2
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        y.backward()


def test_5_eval_is_not_no_grad():
    model = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5))
    model.eval()
    assert model(torch.rand(1, 3)).requires_grad
    with torch.no_grad():
        assert not model(torch.rand(1, 3)).requires_grad


def test_5_normals_of_a_distance_field():
    with torch.set_grad_enabled(True):
        points = torch.rand(4, 3)
        points.requires_grad_(True)
        sigma = (points * points).sum(dim=1).sqrt()
        normal = -torch.autograd.grad(torch.sum(sigma), points, create_graph=True)[0]
    lengths = (normal * normal).sum(dim=1)
    np.testing.assert_allclose(lengths.detach().numpy(), np.ones(4), rtol=1e-5)
    assert normal.requires_grad


def test_5_only_tensors_with_history_can_start_backward():
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        torch.rand(1).backward()
