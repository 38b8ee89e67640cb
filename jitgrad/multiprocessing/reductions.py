"""How a tensor goes to another process: as the file that its memory is mapped from, and its place in that.

Storage that arrives twice is one: tensors that share memory share it on the other side, too.
"""

from __future__ import annotations

import os
import threading
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from jitgrad.core.device import device
from jitgrad.core.layout import intern
from jitgrad.core.shared_memory import SharedMemory, available
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.kernels.threads import fork_safe
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.memory.sharing import on_memory, shared_place
from jitgrad.ops.shape.lazy_view import is_conj, is_neg, with_bits, without_bits

__all__ = ["init_reductions", "rebuild_tensor", "reduce_tensor"]

# {file: memory mapped from it}, of what has arrived or was sent and is still in use.
_known: weakref.WeakValueDictionary[tuple[int, int], SharedMemory] = weakref.WeakValueDictionary()
_lock = fork_safe(threading.Lock())


def reduce_tensor(tensor: Tensor) -> Any:
    """What pickles a tensor for another process. RuntimeError for results of recorded ops."""
    if tensor._edge is not None:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    if not available or tensor.device != device("cpu") or tensor._level is not None:
        return tensor.__reduce_ex__(5)
    plain, layout = without_bits(tensor), tensor._layout
    memory, start = shared_place(tensor)
    descriptor = memory.descriptor
    if descriptor is None:  # a batch that a loader's worker has sent, whose file is closed
        return plain.__reduce_ex__(5)
    with _lock:
        _known.setdefault(memory.identity(), memory)
    place = start, layout.numpy_dtype, layout.shape, layout.strides
    state = tensor.requires_grad, (is_conj(tensor), is_neg(tensor)), dict(_user_state(tensor))
    return rebuild_tensor, (type(tensor), DupFd(descriptor), memory.nbytes, place, state)


def _user_state(tensor: Tensor) -> Any:
    return {k: v for k, v in vars(tensor).items() if not k.startswith("_")}


def rebuild_tensor(kind: type, file: Any, nbytes: int, place: tuple[Any, ...], state: tuple[Any, ...]) -> Tensor:
    """The tensor on the other side."""
    start, dtype, shape, strides = place
    layout = intern(dtype, shape, strides)
    requires_grad, bits, attributes = state
    tensor = with_bits(wrap(on_memory(_memory(file.detach(), nbytes), layout, start), layout), *bits)
    tensor.__class__ = kind
    tensor._requires_grad = requires_grad
    vars(tensor).update(attributes)
    return tensor


def _memory(descriptor: int, nbytes: int) -> SharedMemory:
    """The memory of a file that has arrived: that which it is mapped to already, if it is."""
    status = os.fstat(descriptor)
    with _lock:
        memory = _known.get((status.st_dev, status.st_ino))
        if memory is None:
            memory = SharedMemory(nbytes, descriptor)
            _known[memory.identity()] = memory
        else:
            os.close(descriptor)
        return memory


def init_reductions() -> None:
    """Have Process and Queue share tensors."""
    for kind in Tensor, Parameter:
        ForkingPickler.register(kind, reduce_tensor)
