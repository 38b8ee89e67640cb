"""Steps of models of layers: convolutions, attention, a Transformer. See steps.py for what a step is."""

from __future__ import annotations

from functools import partial
from typing import Any

from .problem import Problem, minimised, targets, uniform
from .workloads import Work, normal

__all__ = ["LAYER_PROBLEMS", "LAYER_STEPS"]


def _labels(engine: Any, classes: int, count: int) -> Any:
    return engine.tensor(targets(classes, count))


def _started(engine: Any, *modules: Any) -> list[Any]:
    """The parameters of the modules, the same for every engine: weights `uniform`, biases 0, those of norms 1 and 0."""
    parameters = [p for module in modules for p in module.parameters()]
    weights = [p for p in parameters if p.ndim > 1]
    with engine.no_grad():
        for seed, weight in enumerate(weights):
            weight.copy_(engine.tensor(uniform(*weight.shape, seed=seed)))
        for module in modules:
            for name, p in module.named_parameters():
                if name.endswith("bias"):
                    p.zero_()
    return parameters


def lenet(engine: Any, batch: int = 64) -> Problem:
    """LeNet-5 on images of 28 x 28, with SGD and momentum."""
    nn = engine.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    x, labels = normal(engine, batch, 1, 28, 28), _labels(engine, 10, batch)
    optimizer = engine.optim.SGD(_started(engine, model), lr=0.001, momentum=0.9)
    return minimised(lambda: nn.functional.cross_entropy(model(x), labels), optimizer)


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


def transformer(engine: Any, width: int = 64, heads: int = 4, length: int = 64, batch: int = 16) -> Problem:
    """A character model of two causal Transformer layers, with AdamW."""
    nn, letters = engine.nn, 64
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(width), enable_nested_tensor=False)
    embed, out = nn.Embedding(letters, width), nn.Linear(width, letters)
    mask = nn.Transformer.generate_square_subsequent_mask(length)
    text, following = _labels(engine, letters, batch * length), _labels(engine, letters, batch * length)

    def loss() -> Any:
        seen = encoder(embed(text.view(batch, length)), mask=mask, is_causal=True)
        return nn.functional.cross_entropy(out(seen).view(-1, letters), following)

    return minimised(loss, engine.optim.AdamW(_started(engine, encoder, embed, out), lr=0.0001))


LAYER_PROBLEMS = {
    "LeNet, batch 64, SGD": lenet,
    "Transformer, 2 layers of 64, 16 x 64 letters, AdamW": transformer,
}
LAYER_STEPS = {
    "convolution 3 x 3, 64 channels of 32 x 32, batch 8": wide_convolution,
    "convolution 3 x 3, 128 channels of 16 x 16, batch 8": partial(wide_convolution, channels=128, size=16),
    "attention, 16 heads of 512 x 32": attention,
}
