"""Sums and copies of gradients: a new sum, a sum into an owned tensor, what becomes a leaf's ``.grad``.

A gradient is owned if nobody else holds the tensor or its memory, so that it may be written to or become ``.grad``.
A leaf's ``.grad`` has no conjugate bit, unlike PyTorch's, whose optimizers and ``clip_grad_norm_`` refuse one that has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgrad.core.inference import check_write
from jitgrad.core.layout import cache, intern
from jitgrad.core.sparse import SparseTensor
from jitgrad.core.storage import UNWRITTEN, empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.copying import copy_to_layout, preserved_layout
from jitgrad.dispatch.elementwise_publish import OPERATIONS
from jitgrad.dispatch.launch_plan import is_dense
from jitgrad.kernels.elementwise.arithmetic import Add
from jitgrad.ops.creation.constants import empty_like
from jitgrad.ops.shape.copy import Clone

__all__ = ["add_gradients", "add_into", "add_new", "add_to_grad", "add_unlike", "can_add_into", "first_grad",
           "own_copy", "taken_over"]  # fmt: skip

_ADD = OPERATIONS[Add.name]
_writes: dict[Any, Any] = cache()  # {layout: launcher of the inplace sum of two tensors of that layout}
add_new = _ADD.function  # the sum as a new tensor: the op itself, so it is recorded under create_graph


def add_into(buffer: Tensor, grad: Tensor) -> None:
    """Add ``grad`` to an owned ``buffer`` of the same contiguous layout: one launch, after the first per layout."""
    layout = buffer._layout
    write = _writes.get(layout)
    if write is None:
        _ADD.write(buffer, grad)
        _writes[layout] = _ADD.writes[layout, layout].launch.write
        return
    counter = buffer._counter
    if counter is UNWRITTEN:  # ``count_write``, written out to save a call
        buffer._counter = [1]
    else:
        try:
            counter[0] += 1
        except RuntimeError:
            check_write(buffer)
    write(buffer, grad, buffer._data)


def add_gradients(there: Tensor, grad: Tensor) -> Tensor:
    """The sum of two gradients of one tensor; of a sparse and a dense one a dense tensor."""
    if isinstance(there, SparseTensor) and not isinstance(grad, SparseTensor):
        return add_new(grad, there)
    return add_new(there, grad)


def add_unlike(there: Tensor, grad: Tensor) -> Tensor:
    """The sum of two gradients of one tensor, whose data may have been exchanged between the ops that used it.

    Where they have two shapes, the larger gradient is summed to the smaller, as PyTorch sums each to the first shape.
    """
    if there._layout.shape != grad._layout.shape:
        smaller = min(there, grad, key=lambda g: (g._layout.numel, g._layout.ndim))
        there, grad = (g.sum_to_size(smaller._layout.shape) for g in (there, grad))
    return add_new(there, grad)


def can_add_into(buffer: Tensor, grad: Tensor) -> bool:
    """Whether ``add_into`` takes these two: one contiguous layout, and no view's memory is written to."""
    layout = buffer._layout
    return layout is grad._layout and layout.contiguous and buffer._base is None


def add_to_grad(existing: Tensor, grad: Tensor) -> Tensor:
    """Add ``grad`` to a leaf's ``.grad`` in place: other names for that tensor show the sum, as in PyTorch.

    Returns it; a new tensor, where a dense gradient comes to a sparse one.
    """
    if existing._layout is grad._layout and existing._layout.contiguous:
        add_into(existing, grad)
    elif isinstance(existing, SparseTensor) and not isinstance(grad, SparseTensor):
        return add_new(grad, existing)
    else:
        existing.add_(grad)
    return existing


def own_copy(grad: Tensor) -> Tensor:
    """A copy that is owned. If it is recorded, its node is CopyBackwards, as in PyTorch, else it is a plain clone."""
    if isinstance(grad, SparseTensor):
        return grad.clone()
    if grad._requires_grad:
        return empty_like(grad).copy_(grad)
    return copy_to_layout(grad, preserved_layout(grad._layout)) if type(grad) is Tensor else Clone.apply(grad)


def taken_over(results: Any, grad: Tensor, owned: bool) -> tuple[Any, bool]:
    """What the node of a view returns for ``grad``, and whether it is owned. ``owned``: ``grad`` is, and ends here.

    A view of all of an owned gradient becomes a tensor of its own, which further gradients may be added to and which
    may be a leaf's ``.grad``: the gradient of a weight that is multiplied transposed so reaches it without a copy. A
    view of a part does not, since it would keep all of the memory.
    """
    result = results[0]
    if result is None or len(results) > 1:
        return results, False
    old, new = grad._data, result._data
    if type(old) is not np.ndarray or type(new) is not np.ndarray:  # of a device, or lazy
        return results, False
    # Views know the array that owns their memory: NumPy need not be asked, which takes as long as the view.
    one, other = old if old.base is None else old.base, new if new.base is None else new.base
    if one is not other and (type(one) is type(other) is np.ndarray or not np.may_share_memory(old, new)):
        return results, True
    layout = result._layout
    if not owned or grad._base is not None or layout.numel != grad._layout.numel or not is_dense(layout):
        return results, False
    return (wrap(new, layout),), True


def first_grad(leaf: Tensor, grad: Tensor, owned: bool) -> Tensor:
    """The first gradient of a leaf as its ``.grad``: the tensor itself if it is owned and has the right strides.

    These are the leaf's if the leaf has no gaps, row-major otherwise (PyTorch's "gradient layout contract").
    """
    of_leaf, of_grad = leaf._layout, grad._layout
    if of_grad.special and isinstance(grad, SparseTensor):
        return grad if owned else grad.clone() if grad._requires_grad else grad.detach().clone()
    if isinstance(leaf, SparseTensor):
        return own_copy(grad)
    if of_leaf is not of_grad and of_leaf.shape != of_grad.shape and of_leaf.ndim:
        # The leaf's data was exchanged since its op was recorded. PyTorch copies, and may fail, where strides differ.
        if of_leaf.strides != of_grad.strides or leaf._gets_expanded():
            return empty_like(leaf.detach()).copy_(grad)
    if of_leaf.contiguous or not is_dense(of_leaf):
        if of_grad.contiguous:
            return grad if owned else own_copy(grad)
        target = intern(of_grad.numpy_dtype, of_grad.shape, None, of_grad.device)
    elif of_grad.strides == of_leaf.strides:
        return grad if owned else own_copy(grad)
    else:
        target = intern(of_grad.numpy_dtype, of_grad.shape, of_leaf.strides, of_grad.device)
    return wrap(empty_for(target), target).copy_(grad) if grad._requires_grad else copy_to_layout(grad, target)
