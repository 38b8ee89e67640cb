"""The demo: trains a classifier of handwritten digits and shows its progress."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

import jitgrad as torch
from jitgrad import nn, optim
from jitgrad.datasets import load_digits
from jitgrad.kernels.statistics import statistics
from jitgrad.utils.data import DataLoader, TensorDataset, random_split

__all__ = ["Result", "run", "train"]

TARGET = 0.97  # of the held-out digits


@dataclass
class Result:
    """The outcome of a training run: accuracy, loss, times, and where its kernels came from."""

    accuracy: float  # on the held-out digits
    loss: float  # mean of the last epoch
    steps: int
    step_seconds: float  # median of one step: forward, backward, update
    compiled: int
    loaded: int
    compile_seconds: float


def _digits(seed: int) -> tuple[DataLoader, Any, Any]:
    """Batches of four fifths of the digits, and images and labels of the rest."""
    images, labels = load_digits()
    data = TensorDataset(torch.from_numpy(images / 16), torch.from_numpy(labels))
    generator = torch.Generator().manual_seed(seed)
    training, held_out = random_split(data, [0.8, 0.2], generator=generator)
    return (DataLoader(training, batch_size=32, shuffle=True), *held_out[list(range(len(held_out)))])


def train(epochs: int = 20, seed: int = 0, quiet: bool = False) -> Result:
    """Train a small network on the digits and test it on those it has not seen."""
    torch.manual_seed(seed)
    loader, test_images, test_labels = _digits(seed)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.3),
        nn.Linear(128, 10),
    )  # fmt: skip
    criterion, optimizer = nn.CrossEntropyLoss(), optim.AdamW(model.parameters(), lr=5e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    before = (statistics.compiled, statistics.loaded, statistics.compile_seconds)
    seconds: list[float] = []
    # A step is timed from batch to updated parameters; reading the loss for the mean comes after it.
    # None: a bar on a terminal only; elsewhere the lines of the epochs are enough.
    with tqdm(total=epochs * len(loader), unit="step", disable=quiet or None, dynamic_ncols=True) as bar:
        for epoch in range(epochs):
            losses = []
            for images, labels in loader:
                start = time.perf_counter()
                loss = criterion(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                seconds.append(time.perf_counter() - start)
                losses.append(loss.item())
                bar.update()
            schedule.step()
            mean, accuracy = sum(losses) / len(losses), _accuracy(model, test_images, test_labels)
            bar.set_postfix_str(f"loss {mean:.4f}, held-out {accuracy:.1%}")
            if not quiet:
                bar.write(f"epoch {epoch + 1:2}: loss {mean:.4f}, accuracy on held-out digits {accuracy:.2%}")
    after = (statistics.compiled, statistics.loaded, statistics.compile_seconds)
    median = sorted(seconds)[len(seconds) // 2]
    compiled, loaded, spent = (b - a for a, b in zip(before, after, strict=True))
    return Result(accuracy, mean, len(seconds), median, int(compiled), int(loaded), spent)


def _accuracy(model: Any, images: Any, labels: Any) -> float:
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).sum().item()
    model.train()
    return right / len(labels)


def run(epochs: int = 20, seed: int = 0) -> Result:
    """Train, print what happened, and return it."""
    images, _ = load_digits()
    print(f"{len(images)} handwritten digits of 8 x 8 pixels; a fifth of them is held out.")
    start = time.perf_counter()
    result = train(epochs, seed)
    total = time.perf_counter() - start
    print(f"Held-out digits: {result.accuracy:.2%} right" + (f" (target {TARGET:.0%})." if epochs >= 20 else "."))
    print(f"{result.steps} steps in {total:.1f} s; a step takes {result.step_seconds * 1e6:.0f} us (median).")
    print(
        f"Kernels: {result.compiled} compiled in {result.compile_seconds:.1f} s, {result.loaded} loaded from disk. "
        "Run it again: they will all come from disk."
        if result.compiled
        else f"Kernels: none compiled, {result.loaded} loaded from disk."
    )
    return result
