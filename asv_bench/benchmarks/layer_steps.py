"""Steps of models of layers: convolutions, attention, a Transformer. See steps.py for what a step is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .workloads import Work, normal

__all__ = ["LAYER_STEPS"]


def _labels(engine: Any, classes: int, count: int) -> Any:
    return engine.tensor(np.random.default_rng(1).integers(0, classes, count))


def lenet(engine: Any, batch: int = 64) -> Work:
    """LeNet-5 on images of 28 x 28, with SGD and momentum."""
    engine.manual_seed(0)
    nn = engine.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    x, labels = normal(engine, batch, 1, 28, 28), _labels(engine, 10, batch)
    optimizer = engine.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.step()

    return step


def wide_convolution(engine: Any, channels: int = 64, size: int = 32, batch: int = 8) -> Work:
    """A convolution of 3 x 3 between many channels, and its gradients."""
    x = normal(engine, batch, channels, size, size, requires_grad=True)
    weight = normal(engine, channels, channels, 3, 3, seed=1, requires_grad=True)
    g = normal(engine, batch, channels, size, size, seed=2)
    conv2d, grad = engine.nn.functional.conv2d, engine.autograd.grad
    return lambda: grad(conv2d(x, weight, padding=1), (x, weight), g)


def attention(engine: Any, stacks: tuple[int, int] = (4, 4), length: int = 512, width: int = 32) -> Work:
    """Scaled dot-product attention and its gradients."""
    q, k, v = (normal(engine, *stacks, length, width, seed=s, requires_grad=True) for s in range(3))
    attend, grad = engine.nn.functional.scaled_dot_product_attention, engine.autograd.grad
    return lambda: grad(attend(q, k, v).sum(), (q, k, v))


def transformer(engine: Any, width: int = 64, heads: int = 4, length: int = 64, batch: int = 16) -> Work:
    """A character model of two causal Transformer layers, with AdamW."""
    engine.manual_seed(0)
    nn, letters = engine.nn, 64
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width), enable_nested_tensor=False)
    embed, out = nn.Embedding(letters, width), nn.Linear(width, letters)
    mask = nn.Transformer.generate_square_subsequent_mask(length)
    text, following = _labels(engine, letters, batch * length), _labels(engine, letters, batch * length)
    optimizer = engine.optim.AdamW([p for m in (encoder, embed, out) for p in m.parameters()], lr=0.0001)

    def step() -> None:
        optimizer.zero_grad()
        seen = encoder(embed(text.view(batch, length)), mask=mask, is_causal=True)
        nn.functional.cross_entropy(out(seen).view(-1, letters), following).backward()
        optimizer.step()

    return step


LAYER_STEPS = {
    "LeNet, batch 64, SGD": lenet,
    "convolution 3 x 3, 64 channels of 32 x 32, batch 8": wide_convolution,
    "convolution 3 x 3, 128 channels of 16 x 16, batch 8": partial(wide_convolution, channels=128, size=16),
    "attention, 16 heads of 512 x 32": attention,
    "Transformer, 2 layers of 64, 16 x 64 letters, AdamW": transformer,
}
