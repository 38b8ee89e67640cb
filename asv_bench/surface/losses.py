"""Cases: losses, distances, gates, bags of embeddings, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _rows(rng: np.random.Generator, n: int, *extra: Callable[..., Any], count: int = 1) -> list[np.ndarray]:
    """Matrices (n / 16, 16), and what ``extra`` makes of their number of rows."""
    rows = max(n // 16, 1)
    return [rng.standard_normal((rows, 16), dtype=np.float32) for _ in range(count)] + [f(rng, rows) for f in extra]


def _signs(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.integers(0, 2, rows) * 2 - 1


def _classes(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.integers(0, 16, rows)


def _labels(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(np.arange(16) < 3, rng.permuted(np.tile(np.arange(16), (rows, 1)), axis=1), -1)


def _sign_rows(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.integers(0, 2, (rows, 16)) * 2 - 1


def _positive(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.random((rows, 16), dtype=np.float32) + 0.5


def _one(*extra: Callable[..., Any], count: int = 1) -> Callable[[np.random.Generator, int], Sequence[Any]]:
    return lambda rng, n: _rows(rng, n, *extra, count=count)


def _ctc(rng: np.random.Generator, n: int) -> list[Any]:
    times, classes = max(4, round((n / 16) ** 0.5)), 16
    samples = max(1, n // (times * classes))
    x = rng.standard_normal((times, samples, classes), dtype=np.float32)
    targets = rng.integers(1, classes, (samples, max(1, times // 4)))
    lengths = np.full(samples, times), np.full(samples, targets.shape[1])
    return [x, targets, *lengths]


def _bags(rng: np.random.Generator, n: int) -> list[Any]:
    return [rng.integers(0, max(n // 16, 1), (max(n // 64, 1), 4)), *_rows(rng, n)]


def _heads(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    length = max(1, min(n // 128, 512))
    heads = max(1, n // (length * 32))
    return [rng.standard_normal((1, heads, length, 32), dtype=np.float32) for _ in range(3)]


def _features(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [*_rows(rng, n, count=2), rng.standard_normal((4, 16, 16), dtype=np.float32)]


def _f(name: str, **named: Any) -> Callable[..., Any]:
    return lambda lib, *args: getattr(lib.nn.functional, name)(*args, **named)


CASES = {
    "soft_margin_loss": Case(_one(_sign_rows), _f("soft_margin_loss")),
    "multilabel_soft_margin_loss": Case(_one(_positive), _f("multilabel_soft_margin_loss")),
    "hinge_embedding_loss": Case(_one(_sign_rows), _f("hinge_embedding_loss")),
    "margin_ranking_loss": Case(_one(_sign_rows, count=2), _f("margin_ranking_loss")),
    "poisson_nll_loss": Case(_one(_positive), _f("poisson_nll_loss")),
    "gaussian_nll_loss": Case(_one(_positive, count=2), _f("gaussian_nll_loss")),
    "multi_margin_loss": Case(_one(_classes), _f("multi_margin_loss")),
    "multilabel_margin_loss": Case(_one(_labels), _f("multilabel_margin_loss")),
    "cosine_embedding_loss": Case(_one(_signs, count=2), _f("cosine_embedding_loss")),
    "triplet_margin_loss": Case(_one(count=3), _f("triplet_margin_loss")),
    "cosine_similarity": Case(_one(count=2), _f("cosine_similarity")),
    "pairwise_distance": Case(_one(count=2), _f("pairwise_distance")),
    "normalize": Case(_one(), _f("normalize")),
    "ctc_loss": Case(_ctc, lambda lib, x, *rest: lib.nn.functional.ctc_loss(x.log_softmax(2), *rest)),
    "glu": Case(_one(), _f("glu")),
    "prelu": Case(lambda rng, n: [*_rows(rng, n), np.full(1, 0.25, np.float32)], _f("prelu")),
    "rrelu": Case(_one(), _f("rrelu", training=True)),
    "bilinear": Case(_features, _f("bilinear")),
    "embedding_bag": Case(_bags, _f("embedding_bag")),
    "embedding_bag_max": Case(_bags, _f("embedding_bag", mode="max")),
    "attention": Case(_heads, _f("scaled_dot_product_attention")),
    "attention_causal": Case(_heads, _f("scaled_dot_product_attention", is_causal=True)),
    "native_layer_norm": Case(_one(), lambda lib, x: lib.native_layer_norm(x, [16], None, None, 1e-5)),
}
