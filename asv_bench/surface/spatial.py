"""Cases: padding, pooling, convolution, resizing. Sizes are of one image, or of a batch of images of 32 x 32."""

from __future__ import annotations

import numpy as np

from .case import Case

__all__ = ["CASES"]


def _image(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    side = 4 if n < 100 else 16 if n < 10_000 else 32
    channels = 1 if n < 100 else 4 if n < 10_000 else 16
    return [rng.random((max(n // (channels * side * side), 1), channels, side, side), dtype=np.float32)]


def _with_weights(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    (x,) = _image(rng, n)
    return [x, rng.random((x.shape[1], x.shape[1], 3, 3), dtype=np.float32)]


def _lenet(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.random((max(n // 784, 1), 1, 28, 28), dtype=np.float32), rng.random((6, 1, 5, 5), dtype=np.float32)]


def _wide(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    shape = (max(n // 65536, 1), 64, 32, 32)
    return [rng.random(shape, dtype=np.float32), rng.random((64, 64, 3, 3), dtype=np.float32)]


def _sampled(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    (x,) = _image(rng, n)
    return [x, rng.random((len(x), *x.shape[2:], 2), dtype=np.float32) * 2 - 1]


CASES = {
    "pad constant": Case(_image, lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1))),
    "pad reflect": Case(_image, lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), "reflect")),
    "pad circular": Case(_image, lambda lib, x: lib.nn.functional.pad(x, (1, 1, 1, 1), "circular")),
    "pixel_shuffle": Case(_image, lambda lib, x: lib.pixel_unshuffle(x, 2)),
    "local_response_norm": Case(_image, lambda lib, x: lib.nn.functional.local_response_norm(x, 3)),
    "unfold": Case(_image, lambda lib, x: lib.nn.functional.unfold(x, 3), most=100_000),
    "avg_pool2d": Case(_image, lambda lib, x: lib.nn.functional.avg_pool2d(x, 2)),
    "max_pool2d": Case(_image, lambda lib, x: lib.max_pool2d(x, 2)),
    "adaptive_avg_pool2d": Case(_image, lambda lib, x: lib.nn.functional.adaptive_avg_pool2d(x, 3)),
    "adaptive_max_pool2d": Case(_image, lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, 3)),
    "conv2d": Case(_with_weights, lambda lib, x, w: lib.conv2d(x, w, padding=1)),
    "conv2d, LeNet's": Case(_lenet, lambda lib, x, w: lib.conv2d(x, w, padding=2)),
    "conv2d, 64 channels": Case(_wide, lambda lib, x, w: lib.conv2d(x, w, padding=1)),
    "conv_transpose2d": Case(_with_weights, lambda lib, x, w: lib.conv_transpose2d(x, w, stride=2)),
    "interpolate nearest": Case(_image, lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2)),
    "interpolate bilinear": Case(
        _image, lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    ),
    "interpolate bicubic": Case(
        _image, lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2, mode="bicubic")
    ),
    "grid_sample": Case(_sampled, lambda lib, x, g: lib.nn.functional.grid_sample(x, g, align_corners=False)),
}
