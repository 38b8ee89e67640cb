"""Sequences of several lengths in one tensor: packed, steps one after another without gaps, or padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import check_tensors
from jitgrad.dispatch.sizes import as_flag, int_argument
from jitgrad.ops.creation.from_data import from_numpy, tensor
from jitgrad.ops.nn.margin_losses import at_top
from jitgrad.ops.shape.join import cat

__all__ = ["padded"]


def _numbers(lengths: Tensor) -> list[int]:
    """A vector of lengths as Python's numbers."""
    if lengths.ndim != 1 or lengths.dtype.name != "int64" or lengths.device.type != "cpu":
        kind = {"float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int"}.get(lengths.dtype.name, "")
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D {lengths.device.type} "
            f"{kind or lengths.dtype.name} tensor"
        )
    found: list[int] = lengths.tolist()
    return found


def _taken(counts: Sequence[int], most: int) -> np.ndarray[Any, Any]:
    """Bools (len(counts), most): in row k the first ``counts[k]`` are True."""
    found: np.ndarray[Any, Any] = np.arange(most) < np.array(counts, np.int64)[:, None]
    return found


def _checked_lengths(lengths: Sequence[int], samples: int) -> None:
    if len(lengths) != samples:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={samples})"
        )
    if any(n <= 0 for n in lengths):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in zip(lengths, lengths[1:], strict=False)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )


@at_top
def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """(the first ``lengths`` steps of sequences without the rest, the number of sequences at each step).

    input: (steps, n, *), or (n, steps, *). RuntimeError for lengths that are not sorted, not positive, or not n.
    """
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    numbers = _numbers(lengths)
    x = input.transpose(0, 1) if as_flag(batch_first) else input
    if x.ndim < 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    steps, samples = x.shape[:2]
    _checked_lengths(numbers, samples)
    taken = _taken(numbers, numbers[0]).T  # (steps, sequences): whether a sequence reaches a step
    rows = np.flatnonzero(taken[:steps])
    data = x.reshape(steps * samples, *x.shape[2:]).index_select(0, from_numpy(rows))
    return data, tensor(taken.sum(1))


@at_top
def _pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Any, total_length: int
) -> tuple[Tensor, Tensor]:
    """(sequences (steps, n, *), or (n, steps, *), as many steps as ``total_length`` if positive; their lengths)."""
    sizes = _numbers(batch_sizes)
    total = int_argument("_pad_packed_sequence", "total_length", 5, total_length)
    if 0 < total < len(sizes):
        raise RuntimeError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total} and max sequence length being {len(sizes)}"
        )
    samples = sizes[0]
    for before, size in zip(sizes, sizes[1:], strict=False):
        if size > before:
            raise RuntimeError(
                f"The size of tensor a ({before}) must match the size of tensor b ({size}) at non-singleton dimension 1"
            )
    if data.shape[0] != sum(sizes):
        raise RuntimeError(f"shape '{[len(sizes), samples, *data.shape[1:]]}' is invalid for input of size "
                           f"{data.numel()}")  # fmt: skip
    taken = _taken(sizes, samples)  # (steps, sequences), as above
    out = _placed(data, np.flatnonzero(taken), max(total, len(sizes)), samples, padding_value)
    return (out.transpose(0, 1) if as_flag(batch_first) else out), tensor(taken.sum(0))


def _placed(data: Tensor, rows: np.ndarray[Any, Any], first: int, second: int, filling: Any) -> Tensor:
    """A new tensor (first, second, *) with the rows of ``data`` at these places, and elsewhere a number."""
    whole = data.new_full((first * second, *data.shape[1:]), filling)
    return whole.index_copy_(0, from_numpy(rows), data).view(first, second, *data.shape[1:])


def padded(sequences: Iterable[Tensor], batch_first: bool, padding_value: Any, padding_side: str) -> Tensor:
    """Sequences (length, *) as one tensor (longest, n, *), or (n, longest, *), with a number where there is nothing.

    RuntimeError for no sequences, or another side than "left" and "right".
    """
    found = list(sequences)
    if not found:
        raise RuntimeError("received an empty list of sequences")
    check_tensors(found)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    like, samples = found[0], len(found)
    if not like.ndim:
        raise RuntimeError("ArrayRef: invalid slice, N = 1; size = 0")
    longest = max([x.shape[0] if x.ndim else 1 for x in found])
    left, trailing = padding_side == "left", like.shape[1:]
    if all(x.ndim and x.shape[1:] == trailing and x.dtype is like.dtype for x in found):
        taken = _taken([x.shape[0] for x in found], longest)  # (sequences, steps)
        rows, times = np.nonzero(taken[:, ::-1] if left else taken)
        if batch_first:
            return _placed(cat(found, 0), rows * longest + times, samples, longest, padding_value)
        return _placed(cat(found, 0), times * samples + rows, longest, samples, padding_value)
    return _copied(found, longest, left, batch_first, padding_value)


def _copied(found: Sequence[Tensor], longest: int, left: bool, batch_first: bool, padding_value: Any) -> Tensor:
    """The same for sequences that are broadcast, or cast, to the first one's."""
    like, samples = found[0], len(found)
    out = like.new_full((*((samples, longest) if batch_first else (longest, samples)), *like.shape[1:]), padding_value)
    for k, x in enumerate(found):
        begin = longest - x.shape[0] if left else 0
        out.select(0 if batch_first else 1, k).narrow(0, begin, x.shape[0]).copy_(x)
    return out
