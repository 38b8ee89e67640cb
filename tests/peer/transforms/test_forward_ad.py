"""Forward mode by hand beside PyTorch's: tangents through views, writes in place and backward; errors."""

import numpy as np
import pytest

import jitgrad

from ..beside import Raised, leaves, outcome, same

torch = pytest.importorskip("torch")

VALUES = np.random.default_rng(1).standard_normal((3, 4))


def pushed(build):
    """A program that gives ``build`` a dual tensor and returns (value, tangent) of all that it returns."""

    def run(m, x):
        fw = m.autograd.forward_ad
        with fw.dual_level():
            found = build(m, fw.make_dual(x, x * 2 + 1), x)
            pairs = [fw.unpack_dual(f) for f in (found if isinstance(found, tuple) else (found,))]
            return [(p, t) for p, t in pairs]

    return run


def in_place_on_view(m, d, x):
    y = d.clone()
    y[0] *= 2
    y[:, 1].add_(d[0, 0])
    return y


def dual_into_plain(m, d, x):
    y = m.zeros(3, 4, dtype=m.float64)
    y.copy_(d)
    y.mul_(x)
    return y


def dual_into_view_of_plain(m, d, x):
    y = m.zeros(3, 4, dtype=m.float64)
    first = y[0]
    y[1] = d[2]
    return y, y[1] * 2, first * 1


def plain_over_dual(m, d, x):
    y = d * 1
    y.copy_(x)
    y2 = d * 1
    y2[0] = 3.0
    y3 = d * 1
    y3.zero_()
    return y, y2, y3


def view_written(m, d, x):
    y = d * 1
    v = y.view(4, 3)
    v.mul_(3)
    return y, v


def backward_of_dual(m, d, x):
    y = x.clone().requires_grad_()
    z = m.autograd.forward_ad.make_dual(y, x)
    (g,) = m.autograd.grad((z.sin() * z).sum(), z)
    return g


def backward_with_dual_gradient(m, d, x):
    y = x.clone().requires_grad_()
    (g,) = m.autograd.grad((y**2).sum(0), y, d[0])
    return g


def gradient_of_tangent(m, d, x):
    y = x.clone().requires_grad_()
    fw = m.autograd.forward_ad
    t = fw.unpack_dual((fw.make_dual(y, x) ** 3).sum()).tangent
    (g,) = m.autograd.grad(t, y)
    return g


def tangent_requires_grad(m, d, x):
    t = x.clone().requires_grad_()
    fw = m.autograd.forward_ad
    (g,) = m.autograd.grad(fw.unpack_dual((fw.make_dual(x, t) ** 3).sum()).tangent, t)
    return g


PROGRAMS = {
    "unpacked": pushed(lambda m, d, x: d),
    "elementwise": pushed(lambda m, d, x: (d.sin(), d * x, d / d, d**2, m.where(x > 0, d, x), d.clamp(0, 1))),
    "reductions": pushed(lambda m, d, x: (d.sum(), d.mean(0), d.max(1).values, d.prod(), d.std(), d.norm())),
    "shapes": pushed(lambda m, d, x: (d.t(), d.reshape(-1), d[1:, ::2], d.unbind(0)[1], d.expand(2, 3, 4), d[[2, 0]])),
    "products": pushed(lambda m, d, x: (
        d @ x.t(), x.t() @ d, m.nn.functional.linear(d, x), m.einsum("ij,kj->ik", d, d))),
    "losses": pushed(lambda m, d, x: (m.nn.functional.mse_loss(d, x), d.softmax(0), d.logsumexp(1), d.log_softmax(1))),
    "joins": pushed(lambda m, d, x: (m.cat([d, x]), m.stack([x, d], 1), d.cumsum(0), d.sort(0)[0], d.flip(0))),
    "no tangent": pushed(lambda m, d, x: (x * 2, d.detach(), d > 0, d.argmax(0))),
    "in place": pushed(lambda m, d, x: (d * 1).mul_(x).add_(d).neg_()),
    "in place on a view": pushed(in_place_on_view),
    "dual into plain": pushed(dual_into_plain),
    "dual into a view of plain": pushed(dual_into_view_of_plain),
    "plain over dual": pushed(plain_over_dual),
    "a view is written": pushed(view_written),
    "backward of a dual": pushed(backward_of_dual),
    "backward with a dual gradient": pushed(backward_with_dual_gradient),
    "gradient of a tangent": pushed(gradient_of_tangent),
    "gradient by the tangent": pushed(tangent_requires_grad),
    "complex": pushed(lambda m, d, x: (m.complex(d, x).abs(), m.complex(d, x) * m.complex(x, d), m.complex(d, x).real)),
    "no grad": pushed(lambda m, d, x: within(m.no_grad(), lambda: d * 2)),
    "prints": lambda m, x: within(m.autograd.forward_ad.dual_level(), lambda: [
        repr(m.autograd.forward_ad.make_dual(x[0, 0] * 0 + 1, x[0, 0] * 0 + 2))]),
    "dtypes differ": lambda m, x: dual(m, x, x.float()),
    "outside": lambda m, x: m.autograd.forward_ad.unpack_dual(
        within(m.autograd.forward_ad.dual_level(), lambda: m.autograd.forward_ad.make_dual(x, x))).primal,
    "flags": lambda m, x: within(m.autograd.forward_ad.dual_level(), lambda: [
        m.autograd.forward_ad.make_dual(x, x).requires_grad,
        (m.autograd.forward_ad.make_dual(x.clone().requires_grad_(), x) * 2).requires_grad]),
}  # fmt: skip


def within(mode, function):
    with mode:
        return function()


def dual(m, x, t):
    with m.autograd.forward_ad.dual_level():
        return m.autograd.forward_ad.make_dual(x, t)


def twice(m, x):
    with m.autograd.forward_ad.dual_level():
        d = m.autograd.forward_ad.make_dual(x, x)
        m.autograd.forward_ad.make_dual(d, x)


def nested(m, x):
    with m.autograd.forward_ad.dual_level(), m.autograd.forward_ad.dual_level():
        pass


def switched(m, x):
    """Tangents while forward mode is off, and on again."""
    fw, seen = m.autograd.forward_ad, []
    with fw.dual_level():
        d = fw.make_dual(x, x * 2)

        def note(*tensors):
            seen.append([fw._is_fwd_grad_enabled(), [fw.unpack_dual(t).tangent for t in tensors]])

        with fw._set_fwd_grad_enabled(False):
            y = d * 2
            note(d, y, fw.make_dual(x, x), d[0], d.sum())
            with fw._set_fwd_grad_enabled(True):
                note(d, y, d * y)
            note(d)
        note(d, y, d * y)
    return seen


def in_inference_mode(m, x):
    """Forward mode is off there."""
    fw = m.autograd.forward_ad
    with fw.dual_level():
        d = fw.make_dual(x, x * 2)
        with m.inference_mode():
            inside, made = d * 2, fw.make_dual(m.ones(2), m.ones(2))
            seen = [fw.unpack_dual(t).tangent for t in (d, inside, made)], fw._is_fwd_grad_enabled()
        return seen, [fw.unpack_dual(t).tangent for t in (d, inside, d * 2)], fw._is_fwd_grad_enabled()


def of_what_has_none(m, x):
    """jvp gets None, and not zeros, for whole numbers."""
    got = []

    class Both(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * 2, n + 1

        @staticmethod
        def jvp(ctx, dx, dn):
            got.append(dn)
            return dx * 2, None

    fw = m.autograd.forward_ad
    with fw.dual_level():
        found = Both.apply(fw.make_dual(x, x), m.tensor(3))
        return got, [fw.unpack_dual(f) for f in found]


ERRORS = {
    "no level": lambda m, x: m.autograd.forward_ad.make_dual(x, x),
    "shape": lambda m, x: dual(m, x, x[0]),
    "whole numbers": lambda m, x: dual(m, m.ones(2, dtype=m.int64), x),
    "whole tangent": lambda m, x: dual(m, x, m.ones(2, dtype=m.int64)),
    "twice": twice,
    "nested": nested,
    "no level to leave": lambda m, x: m.autograd.forward_ad.exit_dual_level(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    same(outcome(PROGRAMS[name], jitgrad, VALUES), outcome(PROGRAMS[name], torch, VALUES))


@pytest.mark.parametrize("run", [switched, in_inference_mode, of_what_has_none], ids=lambda f: f.__name__)
def test_functions(run):
    same(outcome(run, jitgrad, VALUES), outcome(run, torch, VALUES))


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    theirs = outcome(ERRORS[name], torch, VALUES)
    assert isinstance(theirs, Raised)
    assert outcome(ERRORS[name], jitgrad, VALUES) == theirs


def whole_numbers(m, z):
    return z.bool(), z.long(), z.int(), z > 0, z.bool().double() * z


def detached_in_place(m, z):
    y = z * 2
    same = y.detach_()
    return y, same, z * 1


@pytest.mark.parametrize("function", [whole_numbers, detached_in_place])
def test_no_tangents(function):
    def run(m, x):
        fw, moved = m.autograd.forward_ad, x * 2 + 1
        with fw.dual_level():
            found = [fw.unpack_dual(f) for f in function(m, fw.make_dual(x, moved))]
            tangents = [t for _, t in found]
        return leaves((tangents, m.func.jvp(lambda z: function(m, z), (x,), (moved,))))

    same(run(jitgrad, jitgrad.tensor(VALUES.tolist(), dtype=jitgrad.float64)), run(torch, torch.tensor(VALUES)))


def test_detaching_in_place_is_of_one_level():
    def run(m, x):
        moved = lambda b: m.func.jvp(lambda z: (z * b).detach_(), (b,), (b,))[0].sum() + b.sum()
        return m.func.grad(moved)(x)

    same(outcome(run, jitgrad, VALUES.tolist()), outcome(run, torch, VALUES.tolist()))


def test_sizes_have_no_tangents():
    def tangent(library):
        x, y = library.ones(3, dtype=library.float16), library.ones(2, 1, dtype=library.float16)
        return library.func.jvp(lambda a: library.broadcast_tensors(a, y)[0], (x,), (x * 2,))[1].tolist()

    assert tangent(jitgrad) == tangent(torch)
