"""Convolutions by tiles, by slabs or directly: against sums of products, and their gradients against the transpose."""

import numpy as np
import pytest

import jitgrad as torch
import jitgrad.nn.functional as F
from jitgrad.debug.launch_tape import tape
from jitgrad.ops.nn.conv_methods import by_taps

CASES = [  # kind of kernel, samples, groups, channels, out channels, kernel, padding, dilation, sizes
    ("winograd", 3, 1, 32, 40, (3, 3), 1, 1, (9, 12)),
    ("winograd", 2, 2, 64, 64, (3, 3), 0, 1, (12, 11)),
    ("winograd", 40, 1, 33, 32, (3, 3), 2, 1, (4, 5)),
    ("slab", 2, 1, 17, 20, (3, 5), 1, 1, (13, 8)),
    ("slab", 2, 2, 32, 40, (3, 3), 2, 2, (16, 15)),
    ("slab", 1, 1, 16, 24, (3,), 1, 1, (40,)),
    ("slab", 1, 1, 16, 16, (2, 3, 3), 1, 1, (5, 7, 20)),
    ("slab", 1, 1, 20, 16, (5, 5), 2, 1, (60, 40)),
    ("direct", 3, 1, 1, 6, (5, 5), 2, 1, (28, 28)),
    ("direct", 5, 1, 6, 16, (5, 5), 0, 1, (14, 14)),
    ("direct", 2, 3, 9, 33, (3, 3), 1, 2, (13, 30)),
    ("direct", 2, 8, 8, 8, (3, 3), 1, 1, (9, 70)),
    ("direct", 1, 1, 3, 15, (7,), 3, 1, (40_000,)),
    ("direct", 2, 1, 2, 7, (2, 3, 3), 1, 1, (5, 7, 20)),
]


def given(case):
    """x, weight, bias and the options of a case, as arrays."""
    _, samples, groups, channels, outs, kernel, padding, dilation, sizes = case
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in
              ((samples, channels, *sizes), (outs, channels // groups, *kernel), outs)]  # fmt: skip
    return arrays, {"padding": padding, "dilation": dilation, "groups": groups}


def by_hand(x, weight, bias, padding, dilation, groups):
    """Sums of products in double precision."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    x = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * (x.ndim - 2)])
    sizes = [n - dilation * (k - 1) for n, k in zip(x.shape[2:], weight.shape[2:])]
    out = np.zeros((len(x), len(weight), *sizes)) + bias.reshape(-1, *[1] * len(sizes))
    outs, channels = len(weight) // groups, weight.shape[1]
    for at in np.ndindex(*weight.shape[2:]):
        part = x[(..., *[slice(a * dilation, a * dilation + n) for a, n in zip(at, sizes)])]
        for g in range(groups):
            w = weight[(slice(g * outs, (g + 1) * outs), slice(None), *at)]
            out[:, g * outs : (g + 1) * outs] += np.einsum(
                "oc,nc...->no...", w, part[:, g * channels : (g + 1) * channels]
            )
    return out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(case):
    (x, w, b), options = given(case)
    conv = getattr(F, f"conv{x.ndim - 2}d")
    dims = x.ndim - 2
    places = [n + 2 * case[6] - case[7] * (k - 1) for n, k in zip(case[8], case[5])]
    way = by_taps(w.shape, len(x), places, (1,) * dims, (case[6],) * dims, (case[7],) * dims, case[2], x.dtype)
    assert way is not None and way.products.name.startswith(case[0])
    out = conv(torch.tensor(x), torch.tensor(w), torch.tensor(b), **options)
    wanted = by_hand(x, w, b, **options)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_the_transpose(case):
    """<g, conv(dx, w)> = <grad of x, dx>, and so for the weights: convolution is linear in each."""
    (x, w, b), options = given(case)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    out = getattr(F, f"conv{x.ndim - 2}d")(*tensors, **options)
    rng = np.random.default_rng(1)
    g, dx, dw = (rng.standard_normal(a.shape).astype(np.float32) for a in (out.numpy(force=True), x, w))
    grads = [t.numpy().astype(np.float64) for t in torch.autograd.grad(out, tensors, torch.tensor(g))]
    none = np.zeros_like(b)
    for grad, direction, image in ((grads[0], dx, by_hand(dx, w, none, **options)),
                                   (grads[1], dw, by_hand(x, dw, none, **options))):  # fmt: skip
        size = np.linalg.norm(grad) * np.linalg.norm(direction)
        assert abs((grad * direction).sum() - (image * g).sum()) < 1e-6 * size
    np.testing.assert_allclose(grads[2], g.sum((0, *range(2, g.ndim)), dtype=np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("case", [c for c in CASES if c[2] == 1 and c[6] <= c[7] * (min(c[5]) - 1)], ids=str)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan], ids=str)
def test_an_unbounded_weight_of_a_transpose_reaches_what_it_reads(case, bad):
    """Its products with the zeros that a kernel puts around are none of the transpose's: they would be NaN."""
    (_, w, _), options = given(case)
    padding, dilation, kernel = case[6], case[7], case[5]
    w[(0, 0, *[0] * len(kernel))] = w[(-1, 0, *[n - 1 for n in kernel])] = bad
    y = np.random.default_rng(1).standard_normal((2, len(w), *case[8])).astype(np.float32)
    out = getattr(F, f"conv_transpose{len(kernel)}d")(torch.tensor(y), torch.tensor(w), **options).numpy()
    whole = [n + dilation * (k - 1) for n, k in zip(case[8], kernel)]
    wanted = np.zeros((2, w.shape[1], *whole))
    for at in np.ndindex(*kernel):
        reached = (..., *[slice(a * dilation, a * dilation + n) for a, n in zip(at, case[8])])
        with np.errstate(invalid="ignore"):  # both infinities in one sum
            wanted[reached] += np.einsum("oc,no...->nc...", w[(slice(None), slice(None), *at)].astype(np.float64), y)
    wanted = wanted[(..., *[slice(padding, n - padding) for n in whole])]
    scale = np.abs(wanted[np.isfinite(wanted)]).max()
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=2e-6 * scale)


@pytest.mark.parametrize("case", [CASES[k] for k in (0, 2, 3, 5, 6, 9, 13)], ids=str)
@pytest.mark.parametrize("bad", [np.inf, np.nan], ids=str)
def test_an_unbounded_number_reaches_the_sums_that_it_is_part_of(case, bad):
    """Neither the other results of a tile nor the gradients of other weights."""
    (x, w, b), options = given(case)
    padding, dilation, kernel, sizes = case[6], case[7], case[5], x.shape[2:]
    x[(1 % len(x), 1, *[0] * len(sizes))] = bad
    weight = torch.tensor(w, requires_grad=True)
    out = getattr(F, f"conv{len(sizes)}d")(torch.tensor(x), weight, torch.tensor(b), **options)
    wanted = by_hand(x, w, b, **options)
    scale = np.abs(wanted[np.isfinite(wanted)]).max()
    np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=1e-5, atol=2e-6 * scale)
    y = np.random.default_rng(1).standard_normal(out.shape).astype(np.float32)
    (grad,) = torch.autograd.grad(out, weight, torch.tensor(y))
    padded = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * len(sizes)]).astype(np.float64)
    for at in np.ndindex(*kernel):
        read = (..., *[slice(a * dilation, a * dilation + n) for a, n in zip(at, out.shape[2:])])
        wanted = np.einsum("nop,ncp->oc", y.reshape(*y.shape[:2], -1), padded[read].reshape(*x.shape[:2], -1))
        np.testing.assert_allclose(grad.numpy()[(..., *at)], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("case", [CASES[1], CASES[4]], ids=str)
def test_shares_of_channels_instead_of_parts_of_samples(case):
    """The sums of large weights are found once, each piece of work those of some channels or rows of tiles."""
    (x, w, _), options = given(case)
    sizes = [n + 2 * case[6] - case[7] * (k - 1) for n, k in zip(case[8], case[5])]
    way = by_taps(w.shape, 2, sizes, (1, 1), (case[6],) * 2, (case[7],) * 2, case[2], x.dtype)
    y = np.random.default_rng(1).standard_normal((2, w.shape[0], 1, *sizes)).astype(np.float32)
    found = []
    for parts, shares in ((2, 1), (1, 2), (1, 3)):
        sums = np.full((parts, *way.shape), np.nan, np.float32)
        way.sums.call(y, x[:, :, None], sums, *way.options, shares)
        found.append(sums.sum(0))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-5, atol=1e-6 * np.abs(found[0]).max())


def test_gradients_of_large_weights():
    """Strided, so by columns: four samples, whose sums of weights are found in shares of the channels."""
    rng = np.random.default_rng(0)
    x, w, y = (rng.standard_normal(s).astype(np.float32) for s in ((4, 160, 9, 9), (200, 160, 3, 3), (4, 200, 5, 5)))
    weight = torch.tensor(w, requires_grad=True)
    (grad,) = torch.autograd.grad(F.conv2d(torch.tensor(x), weight, stride=2, padding=1), weight, torch.tensor(y))
    padded, wanted = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]), np.empty(w.shape)
    for i, j in np.ndindex(3, 3):
        wanted[:, :, i, j] = np.einsum("nohw,nchw->oc", y, padded[:, :, i : i + 9 : 2, j : j + 9 : 2])
    np.testing.assert_allclose(grad.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", [CASES[1], CASES[4], CASES[10]], ids=str)
def test_second_order(case):
    """The gradient of a product of gradients, against the same in double precision by numbers apart."""
    (x, w, b), options = given(case)

    def energy(dtype):
        xs, ws = (torch.tensor(a, dtype=dtype, requires_grad=True) for a in (x, w))
        out = F.conv2d(xs, ws, **options)
        gx, gw = torch.autograd.grad(out.square().sum(), (xs, ws), create_graph=True)
        return torch.autograd.grad((gx * xs.detach()).sum() + gw.square().sum(), (xs, ws))

    for ours, exact in zip(energy(torch.float32), energy(torch.float64)):
        np.testing.assert_allclose(ours.numpy(), exact.numpy(), rtol=1e-3, atol=1e-5 * float(exact.abs().max()))


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[9]], ids=str)
def test_replay(case):
    """The launches, repeated on other values, give what a new call gives."""
    (x, w, b), options = given(case)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    run = lambda: (out := F.conv2d(*tensors, **options), *torch.autograd.grad(out.sum(), tensors))
    with tape() as recorded:
        first = run()
    for t in tensors:
        t._data[...] = np.roll(t._data, 1)
    recorded.replay()
    for replayed, eager in zip(first, run(), strict=True):
        assert torch.equal(replayed, eager)
