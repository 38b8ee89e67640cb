"""How objects go through a pipe between a loader and its workers: pickled, large arrays in memory that both map.

A message is the pickle of an object, then the descriptors of the files that its large arrays lie in. They travel
within the pipe, so a file lives as long as someone has it open or mapped, and nothing is left behind by a process
that is killed. Memory that a worker has filled already is sent as it is, other arrays are copied to new memory once.
Windows knows no such files: everything is in the pickle.
"""

from __future__ import annotations

import io
import pickle
import socket
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from jitgrad.core.shared_memory import SharedMemory, available
from jitgrad.core.tensor import Tensor
from jitgrad.ops.memory.sharing import shared_memory_of

__all__ = ["receive", "send"]

# Bytes from which on a file costs less than copies into the pipe and out of it: 3.8 against 8.7 ms for a megabyte, as
# much for 256 KB, four times as much for 64 KB.
_LARGE = 1 << 18


class _Pickler(ForkingPickler):
    """Tensors as their ``__reduce_ex__`` has them, whatever the reducers of ``jitgrad.multiprocessing`` would do."""

    def reducer_override(self, obj: Any) -> Any:
        return obj.__reduce_ex__(5) if isinstance(obj, Tensor) else NotImplemented


def send(pipe: Any, obj: Any) -> None:
    """Send an object that can be pickled; whatever pickling raises, before anything was sent."""
    memories: list[SharedMemory] = []
    places: list[tuple[int, int, int]] = []  # (which memory, first byte, number of bytes)
    stream = io.BytesIO()

    def taken(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if not available or view.nbytes < _LARGE or view.readonly:
            return True  # into the pickle
        memory, start = _on_shared_memory(view)
        places.append((len(memories), start, view.nbytes))
        memories.append(memory)
        return False

    _Pickler(stream, 5, True, taken).dump(obj)
    sizes = [memory.nbytes for memory in memories]
    pipe.send_bytes(pickle.dumps((sizes, places, stream.getbuffer().tobytes()), 5))
    if memories:
        with _files_of(pipe) as connection:
            for memory in memories:
                reduction.sendfds(connection, [memory.descriptor or 0])


def _on_shared_memory(view: memoryview) -> tuple[SharedMemory, int]:
    """(shared memory, place) of an array's bytes: where they are already, or where they were copied to."""
    array = np.frombuffer(view, np.uint8)
    memory = shared_memory_of(view.obj) if isinstance(view.obj, np.ndarray) else None
    if memory is not None and memory.descriptor is not None:
        return memory, array.ctypes.data - memory.address
    memory = SharedMemory(array.size)
    memory.array()[:] = array
    return memory, 0


def _files_of(pipe: Any) -> socket.socket:
    """The socket that a pipe is, which descriptors of files can be sent through."""
    connection = socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(None)  # whatever a program has set for all new sockets
    return connection


def receive(pipe: Any) -> Any:
    """The next object; EOFError if the other side has ended, also in the middle of an object."""
    sizes, places, pickled = pickle.loads(pipe.recv_bytes())
    memories = []
    if sizes:
        with _files_of(pipe) as connection:
            for size in sizes:
                memories.append(SharedMemory(size, reduction.recvfds(connection, 1)[0], kept=False).array())
    return pickle.loads(pickled, buffers=[memories[k][start : start + count] for k, start, count in places])
