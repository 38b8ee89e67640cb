"""A view's backward hands an owned gradient on: no copy for the leaf, and nobody else sees the leaf's ``.grad``."""

import gc

import numpy as np
import pytest

import jitgrad as torch


def launched(function):
    with torch.debug.tape() as tape:
        function()
    return [entry.kernel.name for entry in tape]


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True)


# Views all of whose elements are those of the leaf, and the shape that they have for a leaf of (4, 6).
VIEWS = {
    "t": lambda x: x.t(), "transpose": lambda x: x.transpose(0, 1), "permute": lambda x: x.permute(1, 0),
    "view": lambda x: x.view(8, 3), "reshape of t": lambda x: x.t().reshape(24), "unsqueeze": lambda x: x.unsqueeze(1),
    "two": lambda x: x.t().unsqueeze(0), "there and back": lambda x: x.view(24).view(2, 12).t().t(),
    "expand": lambda x: x.expand(3, 4, 6), "same": lambda x: x.view(4, 6), "alias": lambda x: x.view_as(x),
    "flatten": lambda x: x.flatten(), "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_the_leaf_gets_its_own_memory(view):
    x = leaf(4, 6)
    out = VIEWS[view](x) * 3
    g = torch.ones(*out.shape, dtype=torch.float64)
    out.backward(g)
    wanted = 9.0 if view == "expand" else 3.0
    assert x.grad.tolist() == np.full((4, 6), wanted).tolist()
    assert x.grad._base is None and x.grad.is_contiguous() and x.grad.is_leaf and not x.grad.requires_grad
    x.grad.fill_(-1)
    assert bool((g == 1).all())


def test_a_weight_that_is_multiplied_transposed():
    w, x = leaf(5, 3), torch.ones(4, 3, dtype=torch.float64)
    out = x @ w.t()
    assert "copy" not in launched(lambda: out.backward(torch.ones(4, 5, dtype=torch.float64)))
    assert w.grad.stride() == (3, 1) and w.grad.tolist() == np.full((5, 3), 4.0).tolist()


def test_a_linear_layer_accumulates():
    layer, x = torch.nn.Linear(3, 5), torch.ones(4, 3)
    layer(x).sum().backward()
    grad, part = layer.weight.grad, layer.weight.grad.view(-1)
    layer(x).sum().backward()
    assert layer.weight.grad is grad and bool((part == 8).all())


@pytest.mark.parametrize("view", VIEWS)
def test_the_gradient_that_the_user_gave_is_not_taken(view):
    x = leaf(4, 6)
    out = VIEWS[view](x)
    g = torch.ones(*out.shape, dtype=torch.float64)
    out.backward(g)
    assert not np.shares_memory(x.grad.numpy(), g.numpy())
    x.grad.zero_()
    assert bool((g == 1).all())


@pytest.mark.parametrize("view", VIEWS)
def test_what_hooks_keep_stays_as_it_was(view):
    x, kept = leaf(4, 6), []
    y = VIEWS[view](x)
    y.register_hook(kept.append)
    z = y * 2
    z.register_hook(kept.append)
    (z * 2).sum().backward()
    x.grad.fill_(-1)
    assert [bool((k == n).all()) for k, n in zip(kept, (2, 4), strict=True)] == [True, True]


@pytest.mark.parametrize("view", VIEWS)
def test_retained_gradients_stay(view):
    x = leaf(4, 6)
    y = VIEWS[view](x)
    y.retain_grad()
    z = y * 2
    z.retain_grad()
    (z * 2).sum().backward()
    x.grad.fill_(-1)
    assert bool((y.grad == 4).all()) and bool((z.grad == 2).all())


def test_wanted_gradients_on_the_way():
    x = leaf(4, 6)
    y = x.t()
    z = y.reshape(24) * 2
    gz, gy, gx = torch.autograd.grad((z * 3).sum(), (z, y, x))
    gx = gx.clone()
    assert bool((gz == 3).all()) and bool((gy == 6).all()) and bool((gx == 6).all())


@pytest.mark.parametrize("view", VIEWS)
def test_two_runs_through_one_graph(view):
    x = leaf(4, 6)
    out = (VIEWS[view](x * 1) * 3).sum()
    out.backward(retain_graph=True)
    first = x.grad
    out.backward()
    assert x.grad is first and bool((first == (18.0 if view == "expand" else 6.0)).all())


def test_several_ways_to_one_leaf():
    x = leaf(4, 4)
    a = x * 1
    out = a.t() * 2 + a.view(4, 4) * 3 + a.reshape(16).view(4, 4) * 5 + a.t().t() + a * 7
    g = leaf(4, 4, seed=1).detach()
    before = g.clone()
    out.backward(g)
    np.testing.assert_allclose(x.grad.numpy(), 2 * g.numpy().T + 16 * g.numpy())
    assert bool((g == before).all())


def test_views_of_one_gradient_for_several_leaves():
    x, y = leaf(4, 4), leaf(4, 4, seed=1)
    (x.t() + y.view(4, 4)).mul(2).sum().backward()  # add passes one gradient to both
    x.grad.fill_(-1)
    assert bool((y.grad == 2).all())


def test_a_second_order():
    x = leaf(3, 4)
    (g,) = torch.autograd.grad((x.t() ** 3).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad((g.t() ** 2).sum(), x)
    np.testing.assert_allclose(h.numpy(), 36 * x.detach().numpy() ** 3)
    out = (x.t() ** 3).sum()
    out.backward(create_graph=True)
    assert x.grad.requires_grad
    first = x.grad
    (first.view(-1) ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.detach().numpy(), (3 * x**2 + 36 * x**3).detach().numpy())


def test_a_backward_that_keeps_its_gradients():
    kept = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            kept.append(g * 2)
            return kept[-1], kept[-1]

    x, y = leaf(4, 4), leaf(4, 4, seed=1)
    Doubled.apply(x.t(), y.t()).sum().backward()
    x.grad.fill_(-1)
    assert bool((y.grad == 2).all()) and bool((kept[0] == 2).all())


@pytest.mark.parametrize("size", [8, 1 << 18])  # of which the second is memory of the pool
def test_large_gradients_of_a_users_function_are_taken_too(size):
    places = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            found = g * 2
            places.append(found.data_ptr())
            return found

    x = torch.ones(size, requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.data_ptr() == places[0]


def test_one_gradient_returned_twice():
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            both = g * 2
            return both, both

    x, y = leaf(4, 4), leaf(4, 4, seed=1)
    Both.apply(x.t(), y.view(16).view(4, 4)).sum().backward()
    x.grad.fill_(-1)
    assert bool((y.grad == 2).all())


def test_a_view_of_a_part_keeps_no_more_than_it_needs():
    x = leaf(6)
    a, b = (x * 1).view(2, 3).unbind(0)
    (a * 2 + b * 3).sum().backward()
    assert x.grad.tolist() == [2, 2, 2, 3, 3, 3]
    y = leaf(1)
    (y.expand(1000) * leaf(1000).detach()).sum().backward()
    assert y.grad.numpy().base is None or y.grad.numpy().base.nbytes == 8


def test_observed_runs_give_the_same():
    x = leaf(4, 6)
    with torch.autograd.detect_anomaly():
        (x.t() * 3).sum().backward()
    assert bool((x.grad == 3).all()) and x.grad.is_contiguous()


def test_complex_and_conjugated():
    x = torch.tensor(np.array([[1 + 2j, 3 - 1j]]), requires_grad=True)
    (x.t().conj() * (2 + 1j)).sum().abs().backward()
    y = torch.tensor(np.array([[1 + 2j, 3 - 1j]]), requires_grad=True)
    (torch.conj_physical(y) * (2 + 1j)).sum().abs().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy())


def test_gradients_outlive_what_they_came_from():
    x = leaf(64, 64)
    y = x.t() * 3
    y.backward(torch.ones(64, 64, dtype=torch.float64))
    del y
    gc.collect()
    noise = [torch.zeros(64, 64, dtype=torch.float64) for _ in range(20)]
    assert bool((x.grad == 3).all()) and len(noise) == 20


@pytest.mark.parametrize("shape", [(4,), (3, 1), (1,), (), (1, 1), (3, 4)])
def test_sums_over_repeated_dims_are_owned(shape):
    x, y = leaf(3, 4), leaf(*shape, seed=1)
    out, g = x * y, leaf(3, 4, seed=2).detach()
    kernels = launched(lambda: out.backward(g))
    full = torch.from_numpy(g.numpy() * x.detach().numpy())
    np.testing.assert_allclose(y.grad.numpy(), full.sum_to_size(shape).numpy() if shape else full.sum().numpy())
    assert "copy" not in kernels and y.grad._base is None and y.grad.shape == shape


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_of_leaves_have_their_strides(create_graph):
    layer = torch.nn.Linear(2, 4)
    (layer(torch.rand(5, 2)).relu().square()).sum().backward(create_graph=create_graph)
    assert layer.weight.grad.stride() == (2, 1) and layer.weight.grad.requires_grad is create_graph
    turned = torch.rand(3, 2).t().requires_grad_()
    (turned.exp() @ torch.rand(3, 4)).sum().backward(create_graph=create_graph)
    assert turned.grad.stride() == turned.stride()
    if create_graph:
        layer.weight.grad.sum().backward()


# -- gradients of slices, added to what waits ----------------------------------------------------------------


def slices(x):
    yield x[0].sum()
    yield (x[1:3] * 2).sum()
    yield x[:, 1].exp().sum()
    yield (x[:, ::2] * x[:, 1::2]).sum()
    yield x[-1, 2] * 3
    yield x.narrow(1, 1, 2).t().sum(0)[1]
    yield x[2:2].sum()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "bfloat16"])
@pytest.mark.parametrize("middle", [False, True])
def test_gradients_of_slices_add_up(dtype, middle):
    x = torch.arange(12).reshape(3, 4).mul(0.1).to(getattr(torch, dtype)).requires_grad_()
    whole = x * 2 if middle else x
    total = sum(s.abs() for s in slices(whole)) + whole.abs().sum()
    alone = [torch.autograd.grad(s.abs(), x, retain_graph=True)[0] for s in [*slices(whole), whole.abs().sum()]]
    total.backward(retain_graph=True)
    rounding = 0.2 if dtype == "bfloat16" else 1e-5
    assert torch.allclose(x.grad, sum(alone), rounding, rounding)
    first = x.grad.clone()
    total.backward()
    assert torch.allclose(x.grad, 2 * first, rounding, rounding)


def test_slices_are_added_in_place():
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    total = (x[0] * x[1]).sum() + (x[:, 1:] * x[:, :3]).sum()
    with torch.debug.tape() as tape:
        total.backward()
    assert [e.kernel.name for e in tape].count("add_embedded") == 3
    assert [e.kernel.name for e in tape].count("embed") == 1


def test_slices_do_not_change_gradients_that_others_hold():
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    g = torch.ones(3)
    torch.autograd.backward([y, y[0]], [g, torch.tensor(5.0)])
    assert g.tolist() == [1, 1, 1] and x.grad.tolist() == [6, 1, 1]
    seen = []
    y = x * 1
    y.register_hook(seen.append)
    (y[0] + y[1] * 2 + y.sum()).backward()
    assert seen[0].tolist() == [2, 3, 1]


def test_only_slices_that_lead_on_are_added():
    x, z = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    total = x[0] * z[1] + x[1] * z[2] + x[2]
    assert torch.autograd.grad(total, x, retain_graph=True)[0].tolist() == [1, 1, 1]
    assert torch.autograd.grad(total, z)[0].tolist() == [0, 1, 1]


def test_slices_in_inference_mode():
    x = torch.ones(3, requires_grad=True)
    total = x[0] + x[1] * 2 + x[2] * 3
    with torch.inference_mode():
        total.backward()
    assert x.grad.tolist() == [1, 2, 3]
