"""Poisson and binomial counts number for number, and states of generators that either library goes on from."""

import numpy as np
import pytest
import torch

import jitgrad


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counts_of_a_seed(dtype):
    rng = np.random.default_rng(0)
    for low, high in ((0, 9), (5, 60), (100, 1e6)):
        rates, counts = (rng.uniform(low, high, 2000).astype(dtype) for _ in range(2))
        counts, chances = np.floor(counts), rng.uniform(-0.1, 1.1, 2000).astype(dtype)
        drawn = []
        for library in (torch, jitgrad):
            library.manual_seed(3)
            of = library.from_numpy
            results = library.poisson(of(rates)), library.binomial(of(counts), of(chances)), library.rand(1)
            drawn.append([r.numpy() for r in results])
        for theirs, ours in zip(*drawn, strict=True):
            np.testing.assert_array_equal(ours, theirs)


DRAWS = [
    lambda lib: lib.rand(5), lambda lib: lib.randn(1), lambda lib: lib.randn(50), lambda lib: lib.rand(624),
    lambda lib: lib.rand(625), lambda lib: lib.randint(0, 10, (1000,)), lambda lib: lib.ones(7).log_normal_(),
]  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS)
def test_states_are_the_same_bytes(draw):
    for library in (torch, jitgrad):
        library.manual_seed(17)
        draw(library)
    theirs, ours = torch.get_rng_state().numpy(), jitgrad.get_rng_state().numpy()
    np.testing.assert_array_equal(ours, theirs)
    for library, state in ((torch, ours), (jitgrad, theirs)):
        library.manual_seed(1)
        library.set_rng_state(library.from_numpy(state.copy()))
        assert library.initial_seed() == 17
    assert torch.randn(5).tolist() == jitgrad.randn(5).tolist()
