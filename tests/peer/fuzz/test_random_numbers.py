"""Random sequences of calls that draw random numbers, from one seed in both libraries: the same numbers."""

import warnings

import numpy as np
import torch

import jitgrad

from .seeds import generators

DRAWS = [
    "torch.rand({shape}, dtype=torch.{float})", "torch.randn({shape}, dtype=torch.{float})",
    "torch.randint({low}, {high}, {shape})", "torch.randint({low}, {high}, {shape}, dtype=torch.{int})",
    "torch.randperm({n})", "torch.rand_like(torch.zeros({shape}))", "torch.randn_like(torch.zeros({shape}))",
    "torch.bernoulli(torch.full({shape}, {p}))", "torch.empty({shape}).bernoulli_({p})",
    "torch.normal({mean}, {std}, {shape})", "torch.normal(torch.full({shape}, {mean}), {std})",
    "torch.normal(torch.zeros({shape}), torch.full({shape}, {std}))",
    "torch.empty({shape}, dtype=torch.{float}).normal_({mean}, {std})", "torch.empty({shape}).uniform_({low}, {high})",
    "torch.empty({shape}, dtype=torch.{float}).uniform_(-1, 2)", "torch.empty({shape}).exponential_({std})",
    "torch.empty({shape}).geometric_({p})", "torch.empty({shape}, dtype=torch.float64).cauchy_({mean}, {std})",
    "torch.empty({shape}).log_normal_({mean}, {std})", "torch.empty({shape}, dtype=torch.{int}).random_()",
    "torch.empty({shape}).random_({high})", "torch.empty({shape}, dtype=torch.{int}).random_({low}, {high})",
    "torch.multinomial(torch.arange(1.0, {n} + 4), 3)", "torch.multinomial(torch.ones(2, {n} + 3), 5, True)",
    "torch.nn.functional.dropout(torch.ones({shape}), {p})", "torch.nn.init.xavier_uniform_(torch.empty(3, {n} + 2))",
    "torch.nn.Linear({n} + 1, 3).weight.detach()", "torch.empty({n}, 6).t().normal_()", "torch.rand(5, {n})[:, ::2]",
    "torch.empty(4, {n})[:, 1:].uniform_()", "torch.nn.Embedding(3, {n} + 1).weight.detach()",
    "torch.nn.functional.alpha_dropout(torch.ones({shape}), {p})", "torch.randint_like(torch.zeros({shape}), {high})",
]  # fmt: skip


def statement(rng):
    shape = tuple(rng.choice([0, 1, 2, 3, 5, 16, 17, 40]) for _ in range(rng.randint(0, 3)))
    low = rng.randint(-20, 100)
    return rng.choice(DRAWS).format(
        shape=shape, float=rng.choice(["float32", "float64"]), int=rng.choice(["int64", "int32", "uint8", "int16"]),
        n=rng.choice([0, 1, 2, 7, 33, 200]), p=rng.choice([0.1, 0.5, 0.9]), mean=rng.choice([0.0, -1.5]),
        std=rng.choice([1.0, 0.25]), low=low, high=low + rng.choice([1, 2, 100, 2**33]),
    )  # fmt: skip


def run(library, seed, statements):
    """The array of each statement's result, or the class of its error, and the generator's state after them."""
    library.manual_seed(seed)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in statements:
            try:
                found.append(eval(text, {"torch": library}).numpy())
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                found.append(type(error))
    return found, library.get_rng_state().numpy()


def check(rng):
    seed, statements = rng.getrandbits(40), [statement(rng) for _ in range(rng.randint(2, 8))]
    expected, found = run(torch, seed, statements), run(jitgrad, seed, statements)
    for k, (a, b) in enumerate(zip(found[0], expected[0], strict=True)):
        where = f"manual_seed({seed}); {'; '.join(statements[: k + 1])}"
        if isinstance(a, type) or isinstance(b, type):
            assert a is b, f"{where}: {b} but {a}"
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape), where
        near = 0 if b.dtype.kind != "f" else 1e-4 if b.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(a, b, rtol=near, atol=near, err_msg=where)
    assert np.array_equal(found[1], expected[1]), f"state after manual_seed({seed}); {'; '.join(statements)}"


def test_random_numbers():
    for rng in generators(60):
        check(rng)
