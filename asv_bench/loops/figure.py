"""The figure `loops`: value and gradients of the examples, in multiples of the plain loop."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from benchmarks.rounds import Times
from figures.contenders import turns_of_processes

from .contenders import CONTENDERS, LoopContender
from .problems import PROBLEMS

__all__ = ["LOOPS"]

# (problem, peer, the ratio jitgrad / peer that is wanted)
WANTED = (
    ("soft_dtw", "njit", 3.0), ("ctc_loss", "njit", 3.0),
    ("nbody_leapfrog", "njit", 3.0), ("kalman_loglik", "njit", 3.0),
    ("wave2d", "by hand", 1.5), ("binomial_option", "by hand", 1.5),
    ("soft_dtw", "torch", 1 / 500), ("soft_dtw", "jax", 1.0), ("soft_dtw", "jax tuned", 1.0),
    ("kalman_loglik", "jax", 1 / 50), ("kalman_loglik", "jax tuned", 1 / 50),
    ("binomial_option", "jax", 1 / 10), ("binomial_option", "jax tuned", 1 / 10),
    ("nbody_leapfrog", "jax", 1 / 3), ("nbody_leapfrog", "jax tuned", 1 / 3),
)  # fmt: skip
PEERS = [name for name in CONTENDERS if name != "njit"]
Measured = dict[str, Times | str]


def loops() -> None:
    """Gradients of loops: soft-DTW, CTC, Kalman filter, waves and others, beside hand-written ones, torch and JAX."""
    contenders = {name: LoopContender(name) for name in CONTENDERS}
    measured: dict[str, Measured] = {}
    remarks: list[str] = []
    for name in PROBLEMS:
        measured[name] = _measured(contenders, name, remarks)
    for contender in contenders.values():
        contender.close()
    _show(measured)
    _judge(measured)
    print("\n".join(remarks))


def _measured(contenders: Mapping[str, LoopContender], name: str, remarks: list[str]) -> Measured:
    """The times of all that can; ``remarks`` grows by who can't, and by who computes something else."""
    answers = {c: contender.numbers(name) for c, contender in contenders.items()}
    numbers = {c: given for c, given in answers.items() if not isinstance(given, str)}
    remarks += [f"{name}, {c}: {why}" for c, why in answers.items() if isinstance(why, str) and why != "-"]
    last = list(numbers)[-1]
    remarks += [
        f"{name}: {c} computes {given}, {last} {numbers[last]}"
        for c, given in numbers.items()
        if not np.allclose(given, numbers[last][: len(given)], rtol=1e-7, atol=1e-9)
    ]
    times: Measured = {c: "-" for c in answers if c not in numbers}
    return times | turns_of_processes({c: contenders[c] for c in numbers}, name, 3.0)


def _show(measured: Mapping[str, Measured]) -> None:
    print("\nvalue and gradients of loops, float64, one thread; njit: the value alone, us; others in multiples of it")
    rows = [["", "njit us", *PEERS]]
    for name, times in measured.items():
        plain = times["njit"]
        assert isinstance(plain, Times), plain
        rows.append([f"{name}, {PROBLEMS[name].large}", f"{plain.fastest * 1e6:.0f}"])
        rows[-1] += [_multiple(times[peer], plain) for peer in PEERS]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(c.rjust(w) if k else c.ljust(w) for k, (c, w) in enumerate(zip(row, widths))).rstrip())


def _multiple(times: Times | str, plain: Times) -> str:
    return "-" if isinstance(times, str) else f"{times.fastest / plain.fastest:.3g}"


def _judge(measured: Mapping[str, Measured]) -> None:
    """What was asked for, one ratio a row."""
    print("\njitgrad / peer")
    for name, peer, limit in WANTED:
        ours, theirs = measured[name]["jitgrad"], measured[name][peer]
        wanted = f"wanted <= {limit:.3g}"
        if isinstance(ours, str) or isinstance(theirs, str):
            print(f"{name} / {peer}: -; {wanted}")
            continue
        ratio, median = ours.fastest / theirs.fastest, ours.median / theirs.median
        print(f"{name} / {peer}: {ratio:.3g} ({median:.3g}); {wanted}{' MISSED' if ratio > limit else ''}")


LOOPS = {"loops": loops}
