"""Random programs under random nests of jitgrad.func's transforms, compared with torch.func."""

import random

import numpy as np
import torch

import jitgrad

from .seeds import generators

SHAPES = {"x": (3, 4), "y": (4,), "w": (3, 1)}

UNARY = [
    lambda t, a: a.sin(), lambda t, a: a.tanh(), lambda t, a: (a * 0.3).exp(), lambda t, a: a.sigmoid(),
    lambda t, a: (a * a + 0.5).log(), lambda t, a: (a.abs() + 0.3).sqrt(), lambda t, a: a.relu(), lambda t, a: a**3,
    lambda t, a: 1 / (a * a + 1), lambda t, a: a.clamp(-0.7, 0.9), lambda t, a: t.nn.functional.softplus(a),
    lambda t, a: t.nn.functional.gelu(a), lambda t, a: t.where(a > 0.1, a, 2 * a),
]  # fmt: skip
BINARY = [
    lambda t, a, b: a + b, lambda t, a, b: a * b, lambda t, a, b: a - 2 * b, lambda t, a, b: t.maximum(a, b),
    lambda t, a, b: a / (b * b + 1), lambda t, a, b: t.atan2(a, b * b + 0.5), lambda t, a, b: t.where(a > b, a, b * 2),
    lambda t, a, b: t.addcmul(a, b, b, value=0.3), lambda t, a, b: t.lerp(a, b, 0.3), lambda t, a, b: t.hypot(a, b + 3),
]  # fmt: skip
# Of a tensor and one of its dims, which has at least two elements.
ALONG = [
    lambda t, a, d: a.sum(d), lambda t, a, d: a.mean(d, keepdim=True), lambda t, a, d: a.cumsum(d),
    lambda t, a, d: a.softmax(d), lambda t, a, d: a.log_softmax(d), lambda t, a, d: a.logsumexp(d),
    lambda t, a, d: a.amax(d), lambda t, a, d: a.prod(d), lambda t, a, d: a.var(d, correction=0),
    lambda t, a, d: a.flip(d),
    lambda t, a, d: a.max(d).values, lambda t, a, d: a.roll(1, d), lambda t, a, d: a.unsqueeze(d),
    lambda t, a, d: a.sort(d).values, lambda t, a, d: t.cat([a, a * 2], d), lambda t, a, d: t.stack([a, a.sin()], d),
    lambda t, a, d: a.narrow(d, 0, 1), lambda t, a, d: a.select(d, -1), lambda t, a, d: a.movedim(d, 0),
    lambda t, a, d: a.cumprod(d), lambda t, a, d: a.norm(dim=d), lambda t, a, d: a.std(d),
]  # fmt: skip
WHOLE = [
    lambda t, a: a.reshape(-1), lambda t, a: a.sum(), lambda t, a: a.mean(), lambda t, a: a.flatten(),
    lambda t, a: t.outer(a.reshape(-1)[:3], a.reshape(-1)[-2:]), lambda t, a: a.clone().mul_(1.5),
    lambda t, a: a.reshape(-1) @ a.reshape(-1).cos(), lambda t, a: written(t, a),
    lambda t, a: a[None].expand(2, *a.shape), lambda t, a: t.einsum("i,j->ij", a.reshape(-1)[:2], a.reshape(-1)[:2]),
    lambda t, a: a[..., None] @ a[..., None, :] if a.dim() else a.exp(),
]  # fmt: skip


def written(t, a):
    """A copy with a part that was written to in place."""
    b = a.reshape(-1).clone()
    b[0] = b[-1] * 2
    b[1:].add_(0.5)
    return b.tanh()


def program(seed):
    """f(lib) -> (x, y, w) -> a tensor: 4 to 9 random steps, each on earlier results."""

    def build(lib):
        def run(x, y, w):
            rng = random.Random(seed)
            values = [x, y, w]
            for _ in range(rng.randint(4, 9)):
                values.append(step(lib, rng, values))
            return values[-1] + x.sum() * 0.1

        return run

    return build


def step(lib, rng, values):
    kind = rng.choice(["unary", "binary", "along", "along", "whole"])
    a, b = rng.choice(values[-4:]), rng.choice(values)
    which, dim = rng.random(), rng.random()

    def pick(table):
        return table[int(which * len(table))]

    if a.numel() > 200:
        return a.sum()
    if kind == "binary" and fits(a, b):
        return pick(BINARY)(lib, a, b)
    if kind == "along" and a.dim() and all(a.shape):
        if a.shape[int(dim * a.dim())] > 1:
            return pick(ALONG)(lib, a, int(dim * a.dim()))
    if kind == "whole" and a.numel() > 2:
        return pick(WHOLE)(lib, a)
    return pick(UNARY)(lib, a)


def fits(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a.shape), reversed(b.shape), strict=False))


def total(f):
    return lambda *args: f(*args).sum()


# A nest: from (func, f, which argument) to a function of (x, y, w), or of batches of them.
NESTS = {
    "grad": lambda t, f, k: t.grad(total(f), k),
    "grad of grad": lambda t, f, k: t.grad(total(t.grad(total(f), k)), (k + 1) % 3),
    "vjp": lambda t, f, k: lambda *args: pulled(t, f, args),
    "jvp": lambda t, f, k: lambda *args: t.jvp(f, args, args[::1]),
    "jacrev": lambda t, f, k: t.jacrev(f, k),
    "jacfwd": lambda t, f, k: t.jacfwd(f, k),
    "hessian": lambda t, f, k: t.hessian(total(f), k),
    "jvp of grad": lambda t, f, k: lambda *args: t.jvp(t.grad(total(f), k), args, args),
    "grad of jvp": lambda t, f, k: t.grad(lambda *args: t.jvp(total(f), args, args)[1], k),
    "vmap": lambda t, f, k: lambda *args: t.vmap(f, batched(k))(*stacked(args, k)),
    "vmap of grad": lambda t, f, k: lambda *args: t.vmap(t.grad(total(f), k), batched(k))(*stacked(args, k)),
    "grad of vmap": lambda t, f, k: t.grad(lambda *args: t.vmap(f, batched(k))(*stacked(args, k)).sum(), k),
    "vmap of jvp": lambda t, f, k: lambda *args: t.vmap(lambda *a: t.jvp(f, a, a), batched(k))(*stacked(args, k)),
    "jacfwd of vmap": lambda t, f, k: t.jacfwd(lambda *args: t.vmap(f, batched(k))(*stacked(args, k)), k),
    "vmap of vmap": lambda t, f, k: lambda *args: t.vmap(t.vmap(f, batched(k)), batched(0))(
        *stacked(stacked(args, k), 0)
    ),
}


def pulled(t, f, args):
    out, pull = t.vjp(f, *args)
    return pull(out)


def batched(k):
    """in_dims: argument ``k`` is a batch along its dim 0, the next one along its last, the third is not."""
    return tuple(0 if n == k else -1 if n == (k + 1) % 3 else None for n in range(3))


def stacked(args, k):
    """Arguments for ``batched(k)``, batches of two."""
    places = batched(k)
    return tuple(
        a if d is None else (a[None] * factors(a, (2, *[1] * a.dim()))) if d == 0 else a[..., None] * factors(a, (2,))
        for a, d in zip(args, places, strict=True)
    )


def factors(like, shape):
    lib = jitgrad if isinstance(like, jitgrad.Tensor) else torch
    return lib.tensor([1.0, -0.6], dtype=lib.float64).reshape(shape)


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in leaves(v)]
    return [np.asarray(value.detach().numpy())]


def run(lib, seed, nest, place):
    rng = np.random.default_rng(seed)
    args = [lib.tensor(rng.uniform(-1.5, 1.5, shape)) for shape in SHAPES.values()]
    return leaves(NESTS[nest](lib.func, program(seed)(lib), place)(*args))


def check(rng):
    seed = rng.getrandbits(32)
    rng = random.Random(-seed)
    nest, place = rng.choice(list(NESTS)), rng.randrange(3)
    try:
        expected = run(torch, seed, nest, place)
    except (RuntimeError, NotImplementedError, IndexError):
        return  # PyTorch cannot; whether jitgrad can is not the question here
    found = run(jitgrad, seed, nest, place)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, (seed, nest, place)
        b = np.where(np.isnan(b), a, b)  # PyTorch's second derivative of a standard deviation of 0 is 0 * inf
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9, err_msg=f"seed {seed}, {nest}, argument {place}")


def test_transforms_of_random_programs():
    for rng in generators(40):
        check(rng)
