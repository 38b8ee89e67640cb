"""Reads and writes by indices of which some, where a mask is false, may be anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgrad.core.dtypes import int32, int64
from jitgrad.core.errors import scalar_type
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.operand_checks import check_tensors
from jitgrad.dispatch.registry import public
from jitgrad.ops.indexing.getitem import __getitem__ as read
from jitgrad.ops.indexing.index_put import index_put

__all__: list[str] = []


def _within(x: Tensor, indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The indices moved into the range of their dims; of a tensor without elements as they are.

    RuntimeError for others than int32 and int64.
    """
    check_tensors((x if i is None else i for i in indices), 2)
    for i in indices:
        if i is not None and (dtype := i._layout.dtype) not in (int32, int64):
            raise RuntimeError(f"_unsafe_masked_index found unexpected index type {scalar_type(dtype)}")
    pairs = zip(indices, x._layout.shape, strict=False)
    return [i if i is None or not x._layout.numel else i.clamp(-n, n - 1) for i, n in pairs]


def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any) -> Tensor:
    """The elements at ``indices`` where the mask is true, ``fill`` elsewhere."""
    key = tuple([slice(None) if i is None else i for i in _within(input, indices)])
    return read(input, key).masked_fill(~mask, fill)


def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """A copy to which ``values`` are added at ``indices`` where the mask is true."""
    places = _within(input, indices)
    if not input._layout.numel:
        return input.clone()
    return index_put(input, places, values.masked_fill(~mask, 0), True)


for _function in (_unsafe_masked_index, _unsafe_masked_index_put_accumulate):
    public(_function, method_too=False)
