"""What has happened to a saved tensor since: it was written to, which is an error, or its data was exchanged.

A node keeps the version of each tensor that it saves, and backward compares it with the tensor's own. Writes count in
units of 1. ``x.data = y`` is no write to the memory of ``x``, and PyTorch computes with the new values; but kernels are
planned for the layout that was saved. So an exchange that changes the layout counts in units of ``EXCHANGE``: the one
comparison notices it, too, and the node then gets the new values in the old layout.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any

from jitgrad.core.edge import node_of, number_of
from jitgrad.core.errors import cpp_tensor_type

if TYPE_CHECKING:
    from jitgrad.core.layout import Layout
    from jitgrad.core.node import Node
    from jitgrad.core.tensor import Tensor

__all__ = [
    "EXCHANGE", "count_exchange", "exchanged", "hints", "modified_message", "short_name", "unpack_changed", "writes",
]  # fmt: skip

EXCHANGE = 1 << 40  # more than there will be writes
# Weak references to nodes of tensors whose data was exchanged for data of another shape: gradients of two shapes may
# arrive there. The engine tests whether there are any.
exchanged: list[weakref.ref[Node]] = []
_REMEMBERED = 16  # so many former layouts of a tensor: a program may exchange the data of one for ever

# The hint at the end of the error for a saved tensor that was written to. The last one is shown: anomaly mode appends
# its own, for it has already told where the forward pass was.
hints = [
    "enable anomaly detection to find the operation that failed to compute its gradient, with "
    "torch.autograd.set_detect_anomaly(True, check_nan=False)."
]


def writes(version: int) -> int:
    """How many writes a version counts."""
    return version % EXCHANGE


def count_exchange(tensor: Tensor, counter: list[int], new: Layout) -> None:
    """Count that the data of a tensor is about to be exchanged for data of layout ``new`` or in another place."""
    node = _recorded_node(tensor) if new.shape != tensor._layout.shape else None
    if node is not None and not any(known() is node for known in exchanged):
        exchanged.append(weakref.ref(node, exchanged.remove))
    former = tensor._former_layouts
    if len(former) == _REMEMBERED:
        former = ((former[1][0], None), *former[2:])
    tensor._former_layouts = (*former, (counter[0], tensor._layout))
    counter[0] += EXCHANGE


def _recorded_node(tensor: Tensor) -> Node | None:
    """The node at which gradients of a tensor arrive, None if no op was recorded with it."""
    if tensor._edge is not None:
        return node_of(tensor._edge)
    hooks = tensor._leaf_hooks  # of a leaf with hooks, which does not hold its node itself
    return tensor._leaf_edge if hooks is None or hooks.node is None else hooks.node()


def _layout_at(tensor: Tensor, version: int) -> Layout:
    """The layout of a tensor when its memory was at a version."""
    for last, layout in tensor._former_layouts:
        if version // EXCHANGE <= last // EXCHANGE:
            if layout is None:
                raise RuntimeError(
                    f"the data of a tensor of shape {list(tensor.shape)} was exchanged (``.data =``) more than "
                    f"{_REMEMBERED} times since it was saved for backward, whose layout it needs"
                )
            return layout
    return tensor._layout  # of another tensor of the same memory the data was exchanged


def unpack_changed(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """The saved tensors of a node, some of which have another version than they had.

    RuntimeError if one was written to. One whose data was exchanged is returned as ``node.relaid`` wants it.
    """
    found = []
    for tensor, version in zip(saved, node.versions, strict=True):
        now = tensor._counter[0]
        if now == version:
            found.append(tensor)
        elif writes(now) == writes(version):
            found.append(node.relaid(tensor, _layout_at(tensor, version)))
        else:
            raise RuntimeError(modified_message(tensor, version, node))
    return tuple(found)


def short_name(node: Node) -> str:
    """A node's name as PyTorch's errors write it: "Mul" for MulBackward0, "Fill2" for FillBackward2."""
    return re.sub(r"Backward(0?|(\d+))$", r"\2", node.name())


def modified_message(tensor: Tensor, version: int, node: Node) -> str:
    """The error for a tensor that ``node`` has saved at ``version`` and that was written to since."""
    title = cpp_tensor_type(tensor)
    shape = ", ".join(map(str, tensor.shape))
    # A node's own output is saved without its edge, which would make a cycle.
    edge = tensor._edge or (node if node.is_output(tensor) else None)
    source = f", which is output {number_of(edge)} of {short_name(node_of(edge))}," if edge else ""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{title} [{shape}]]{source} is at version {writes(tensor._counter[0])}; expected version {writes(version)} "
        f"instead. Hint: {hints[-1]}"
    )
