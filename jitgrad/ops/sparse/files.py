"""Sparse tensors in files of PyTorch's format: the call that makes one of its parts."""

from __future__ import annotations

import weakref
from typing import Any

from jitgrad.core.layout import Size
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.ops.memory.rebuild import AFTER_LOADING, pickled_as
from jitgrad.ops.sparse.construct import check_coo, check_matrix, sparse_compressed_tensor, sparse_coo_tensor

__all__ = ["call_of"]


# Tensors of a file whose numbers may come later; weakly, so that those of a file that failed are forgotten.
_unchecked: list[weakref.ref[Any]] = []


@pickled_as("torch._utils")
def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...]) -> Any:
    """The tensor of a layout and its parts: (indices, values, size, coalesced or not), or two indices at first."""
    made: Any
    if layout is FUNCTIONS["sparse_coo"]:
        indices, values, size, *coalesced = data
        known = coalesced[0] if coalesced else None
        made = sparse_coo_tensor(indices, values, size, check_invariants=False, is_coalesced=known)
    else:
        first, second, values, size = data
        made = sparse_compressed_tensor(first, second, values, size, layout=layout, check_invariants=False)
    _unchecked.append(weakref.ref(made))
    return made


def _check_indices() -> None:
    while _unchecked:
        made = _unchecked.pop()()
        if made is None:
            continue
        if made._pattern.kind == "sparse_coo":
            check_coo(made._pattern, made._pattern.coalesced)
        else:
            check_matrix(made._pattern, made._stored)


AFTER_LOADING.append(_check_indices)


def call_of(x: Any) -> tuple[Any, tuple[Any, ...]]:
    """(function, arguments) that make ``x`` again."""
    p = x._pattern
    parts = tuple([i.detach() for i in p.indices])
    data = (*parts, x._stored.detach(), Size(p.shape))
    return _rebuild_sparse_tensor, (FUNCTIONS[p.kind], (*data, p.coalesced) if p.kind == "sparse_coo" else data)
