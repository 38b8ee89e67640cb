"""Extreme eigenvalues by iteration, beside PyTorch's: other steps, the same pairs and derivatives."""

import numpy as np
import pytest
import torch

import jitgrad

LIBRARIES = jitgrad, torch


def symmetric(seed, *shape):
    a = np.random.default_rng(seed).standard_normal((*shape, shape[-1]))
    return a @ a.swapaxes(-1, -2) + np.eye(shape[-1])


def agree(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        # A vector is unique up to its sign.
        np.testing.assert_allclose(abs(a.detach().numpy()), abs(b.detach().numpy()), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape, kept, wanted", [
    ((12,), {}, {"k": 2}), ((12,), {}, {"k": 2, "n": 4, "largest": False}), ((2, 9), {}, {"k": 1, "n": 3}),
    ((12,), {"B": symmetric(3, 12)}, {"k": 2}), ((12,), {"X": np.eye(12)[:, :3]}, {}),
    ((12,), {"iK": np.linalg.inv(symmetric(1, 12))}, {"largest": False, "method": "basic"}),
])  # fmt: skip
def test_pairs_are_those_of_pytorch(shape, kept, wanted):
    a = symmetric(1, *shape)
    found = [
        lib.lobpcg(lib.tensor(a), niter=-1, tol=1e-9, **wanted, **{n: lib.tensor(v) for n, v in kept.items()})
        for lib in LIBRARIES
    ]
    agree(*found)


def test_sparse_matrices():
    a = symmetric(1, 12)
    a[abs(a) < 3] = 0
    agree(*[lib.lobpcg(lib.tensor(a).to_sparse(), 2, niter=-1, tol=1e-9) for lib in LIBRARIES])


def test_first_and_second_derivatives():
    def derivatives(lib):
        a = lib.tensor(symmetric(1, 9), requires_grad=True)
        values, vectors = lib.lobpcg(a, 2, niter=-1, tol=1e-11)
        first = lib.autograd.grad((values**2).sum() + (vectors**4).sum(), a, create_graph=True)[0]
        return first, lib.autograd.grad((first**3).sum(), a)[0]

    for a, b in zip(derivatives(jitgrad), derivatives(torch), strict=True):
        b = (b + b.mT) / 2  # the second order of PyTorch's is not made symmetric
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)


def test_what_a_tracker_sees_and_stops():
    for lib in LIBRARIES:
        steps = []

        def track(state, steps=steps):
            steps.append((state.ivars["istep"], sorted(state.iparams), sorted(state.fparams), tuple(state.R.shape)))
            state.bvars["force_stop"] = len(steps) == 2

        lib.lobpcg(lib.tensor(symmetric(1, 30)), 2, tracker=track, tol=1e-12)
        assert steps[-1] == (
            2, ["k", "m", "n", "niter", "ortho_i_max", "ortho_j_max"],
            ["ortho_tol", "ortho_tol_drop", "ortho_tol_replace", "tol"], (30, 2),
        )  # fmt: skip


@pytest.mark.parametrize("call", [
    lambda lib, a: lib.lobpcg(a, 5), lambda lib, a: lib.lobpcg(a[:, :4]), lambda lib, a: lib.lobpcg(a, B=a[:2, :2]),
    lambda lib, a: lib.lobpcg(a, X=a[:3, :2]), lambda lib, a: lib.lobpcg(a.long()),
])  # fmt: skip
def test_refusals(call):
    said = []
    for lib in LIBRARIES:
        with pytest.raises(Exception) as error:
            call(lib, lib.tensor(symmetric(1, 12)))
        said.append((type(error.value).__name__, str(error.value).replace("jitgrad", "torch")))
    assert said[0] == said[1]


def test_a_start_of_too_few_directions():
    for lib in LIBRARIES:
        with pytest.raises(lib.linalg.LinAlgError):
            lib.lobpcg(lib.tensor(symmetric(1, 12)), X=lib.ones(12, 2, dtype=lib.float64))
