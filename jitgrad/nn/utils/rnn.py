"""Sequences of several lengths: packed, and padded to one tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import jitgrad
from jitgrad.core.tensor import Tensor
from jitgrad.ops.nn.packing import padded

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence_(NamedTuple):
    """The fields of ``PackedSequence``."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(PackedSequence_):
    """Sequences sorted by falling length, their steps one after another without gaps.

    data: (sum of batch_sizes, *). batch_sizes: how many sequences there are at each step, int64 on the CPU.
    sorted_indices: the order in which sequences were sorted; unsorted_indices: its inverse. None for both: they were
    sorted. ValueError for ``batch_sizes`` elsewhere.
    """

    def __new__(
        cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:  # fmt: skip
        """``data`` may be a pair (data, batch_sizes)."""
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in "
                "nn.utils.rnn. https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def pin_memory(self) -> PackedSequence:
        """The same with data and indices in pinned memory."""
        indices = [None if t is None else t.pin_memory() for t in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with data as ``Tensor.to`` makes it, and indices on its device; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if t is None else t.to(data.device) for t in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def _on(self, device: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PackedSequence:
        example = jitgrad.tensor((), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        return self.to(*args, **kwargs) if example.device.type == device else self.to(
            *args, **{**kwargs, "device": device})  # fmt: skip

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on a CUDA device."""
        return self._on("cuda", args, kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on the CPU."""
        return self._on("cpu", args, kwargs)

    def double(self) -> PackedSequence:
        """The same with float64 data."""
        return self.to(dtype=jitgrad.float64)

    def float(self) -> PackedSequence:
        """The same with float32 data."""
        return self.to(dtype=jitgrad.float32)

    def half(self) -> PackedSequence:
        """The same with float16 data."""
        return self.to(dtype=jitgrad.float16)

    def long(self) -> PackedSequence:
        """The same with int64 data."""
        return self.to(dtype=jitgrad.int64)

    def int(self) -> PackedSequence:
        """The same with int32 data."""
        return self.to(dtype=jitgrad.int32)

    def short(self) -> PackedSequence:
        """The same with int16 data."""
        return self.to(dtype=jitgrad.int16)

    def char(self) -> PackedSequence:
        """The same with int8 data."""
        return self.to(dtype=jitgrad.int8)

    def byte(self) -> PackedSequence:
        """The same with uint8 data."""
        return self.to(dtype=jitgrad.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The order that undoes another; None of None."""
    if permutation is None:
        return None
    places = jitgrad.arange(0, permutation.numel(), device=permutation.device)
    return jitgrad.empty_like(permutation).scatter_(0, permutation, places)


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:  # fmt: skip
    """Pack sequences that were padded: (steps, n, *), or (n, steps, *) if ``batch_first``, of ``lengths``, n numbers.

    enforce_sorted: lengths must not grow; else sequences are sorted here. RuntimeError for lengths that do not fit.
    """
    if isinstance(lengths, Tensor):
        lengths = lengths.to(dtype=jitgrad.int64)
    else:
        lengths = jitgrad.as_tensor(lengths, dtype=jitgrad.int64, device="cpu")
    order = None
    if not enforce_sorted:
        lengths, order = jitgrad.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    data, batch_sizes = jitgrad._pack_padded_sequence(input, lengths, batch_first)
    return PackedSequence(data, batch_sizes, order, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(sequences padded to the longest, or to ``total_length``; their lengths).

    The inverse of ``pack_padded_sequence``. ValueError for a ``total_length`` below the longest.
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {longest}"
            )
        longest = total_length
    out, lengths = jitgrad._pad_packed_sequence(
        sequence.data, sequence.batch_sizes, batch_first, padding_value, longest
    )
    back = sequence.unsorted_indices
    if back is None:
        return out, lengths
    return out.index_select(0 if batch_first else 1, back), lengths[back.cpu()]


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:  # fmt: skip
    """Tensors (length, *) as one: (longest, n, *), or (n, longest, *) if ``batch_first``, with ``padding_value``
    behind, or before, each.

    RuntimeError where there are no sequences.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    return padded(sequences, batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The first ``lengths`` steps of each sequence: the inverse of ``pad_sequence``, which it transposes in place."""
    if not batch_first:
        padded_sequences.transpose_(0, 1)
    steps = jitgrad.arange(padded_sequences.shape[1], device=lengths.device)
    return [x[steps < n] for x, n in zip(padded_sequences, lengths, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack tensors (length, *)."""
    lengths = jitgrad.as_tensor([x.size(0) for x in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The tensors that ``pack_sequence`` packed."""
    out, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(out, lengths, batch_first=True)
