"""The figure ``surface``: the ops of a family at three sizes, in multiples of torch's time."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.rounds import Times, optional, take_turns
from figures.table import Figure

import jitgrad

from .case import Case
from .notes import note_of

__all__ = ["SIZES", "families", "surface", "works"]

SIZES = (16, 1_000, 1_000_000)
LIMIT = 2  # a row above it has a note that says why, in notes.py
_OURS = {"case", "figure", "notes"}


def families() -> list[str]:
    """The files of cases."""
    return [m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name not in _OURS]


def cases(family: str) -> dict[str, Case]:
    """Those of a family, by the names of their ops."""
    return importlib.import_module(f"{__package__}.{family}").CASES


def surface(chosen: str | None = None) -> None:
    """Ops of the surface, forward and with gradients, at 16, 1,000 and a million elements.

    Behind a row above LIMIT stands why, where that is known.
    """
    ratios: list[float] = []
    unexplained = 0
    for family in [chosen] if chosen else families():
        figure = Figure(f"{family}, float32")
        for name, case in cases(family).items():
            for size in (s for s in SIZES if s <= case.most):
                for backward in (False, True)[: 1 + case.backward]:
                    label = f"{name} {size}{' with gradients' if backward else ''}"
                    times = _times(case, size, backward)
                    ratio, note = _ratio(times), ""
                    if ratio is not None:
                        ratios.append(ratio)
                        if ratio > LIMIT:
                            note = note_of(family, name)
                            unexplained += not note
                    figure.add(label, times, note=note)
        figure.show()
    if ratios:
        mean, slow = math.exp(np.mean(np.log(ratios))), sum(r > LIMIT for r in ratios)
        print(f"\ngeometric mean of the ratios {mean:.2f}; {slow} of {len(ratios)} are over {LIMIT}, of which "
              f"{unexplained} have no note")  # fmt: skip


def _ratio(times: dict[str, Any]) -> float | None:
    found = [t for t in times.values() if isinstance(t, Times)]
    return times["jitgrad"].fastest / times["torch"].fastest if len(found) == 2 else None


def _times(case: Case, size: int, backward: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, library in (("jitgrad", jitgrad), ("torch", optional("torch"))):
        if library is None:
            continue
        try:
            made[name] = works(library, case, size, backward)
            made[name]()
        except Exception as error:
            made[name] = f"{type(error).__name__}: {error}"[:40]
    runs: Mapping[str, Callable[[], Any]] = {n: w for n, w in made.items() if callable(w)}
    return made | (take_turns(runs, 0.3 if size < 100_000 else 0.6) if runs else {})


def works(library: Any, case: Case, size: int, backward: bool) -> Callable[[], Any]:
    """A call of the op by a library, with the gradients of its inputs if ``backward``."""
    arrays = case.inputs(np.random.default_rng(0), size)
    tensors = [library.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in arrays]
    if not backward:
        return lambda: case.call(library, *tensors)
    wanted = [t for t, a in zip(tensors, arrays, strict=True) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]
    for tensor in wanted:
        tensor.requires_grad_()

    def run() -> Any:
        found = case.call(library, *tensors)
        outputs = [t for t in (found if isinstance(found, (tuple, list)) else [found]) if t.requires_grad]
        return library.autograd.grad(outputs, wanted, [library.ones_like(t) for t in outputs], allow_unused=True)

    return run
