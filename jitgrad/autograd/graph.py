"""jitgrad.autograd.graph: hooks on saved tensors, gradient edges, hooks on several gradients at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from jitgrad.autograd.gradient_edge import GradientEdge, get_gradient_edge
from jitgrad.autograd.saved_mutation import allow_mutation_on_saved_tensors
from jitgrad.core.inference import is_inference
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.node import Node, edge_of, node_of
from jitgrad.core.saved_tensors import pop_hooks, push_hooks, thread
from jitgrad.core.storage import count_write
from jitgrad.core.tensor import Tensor
from jitgrad.engine import engine
from jitgrad.kernels.threads import fork_safe

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip

explain_missing_names(__name__)


# -- saved tensors ------------------------------------------------------------------------------------


class saved_tensors_hooks:
    """A block in which nodes keep ``pack_hook(tensor)`` instead of each tensor that they save.

    Backward gets the tensor by ``unpack_hook`` of that. Of nested blocks the innermost counts.
    RuntimeError if a pack hook writes into its tensor; TypeError if an unpack hook returns no tensor.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if not (callable(self.pack_hook) and callable(self.unpack_hook)):
            raise TypeError(
                "_push_saved_tensors_default_hooks(): incompatible function arguments. The following argument types "
                "are supported:\n    1. (arg0: collections.abc.Callable, arg1: collections.abc.Callable) -> None\n\n"
                f"Invoked with: {self.pack_hook!r}, {self.unpack_hook!r}"
            )
        push_hooks((self.pack_hook, self.unpack_hook))

    def __exit__(self, *error: object) -> None:
        pop_hooks()


class save_on_cpu(saved_tensors_hooks):
    """A block in which nodes keep what they save in the CPU's memory; backward moves it back.

    ``pin_memory`` is accepted and has no effect.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A block in which hooks on saved tensors are a RuntimeError with this message, also those around it."""
    if thread.hooks:
        raise RuntimeError(error_message)
    before, thread.disabled = thread.disabled, error_message
    try:
        yield
    finally:
        thread.disabled = before


# -- versions -----------------------------------------------------------------------------------------


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Raise the version of a tensor, or of each of several, after writing to its memory by other means (NumPy)."""
    tensors = (tensor,) if isinstance(tensor, Tensor) else tuple(tensor) if isinstance(tensor, Iterable) else (None,)
    if not all(isinstance(t, Tensor) for t in tensors):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for t in tensors:
        if not is_inference(t):
            count_write(t)


# -- hooks on several gradients -----------------------------------------------------------------------


class _MultiHandle:
    """A handle that removes several hooks."""

    def __init__(self, handles: Sequence[Any]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hooks; without effect the second time."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


_lock = fork_safe(threading.RLock())  # held while the hooks on several tensors count which gradients have come


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> _MultiHandle:
    """Call ``fn`` once per backward when the gradients of ``tensors`` have been computed.

    mode "all": ``fn(gradients)`` after the last of them, None for tensors that backward does not reach.
    mode "any": ``fn(gradient)`` with the first. Returns a handle with ``remove()``.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    edges = [edge_of(t) for t in tensors]
    if any(e is None for e in edges):
        raise AssertionError("Expected gradient function to be set")
    nodes = [node_of(e) for e in edges if e is not None]
    # By run of the engine, weakly: a run that fails never collects the rest.
    runs: WeakKeyDictionary[Any, tuple[list[Any], int]] = WeakKeyDictionary()  # gradients, and how many miss

    def collect(index: int, grad: Tensor | None) -> None:
        task: Any = engine.current_task()
        with _lock:  # several threads may run backward through the same tensors
            if task not in runs:
                # Only nodes that this run computes gradients for can call their hooks.
                runs[task] = [None] * len(tensors), sum(map(task.will_run, nodes))
            found, missing = runs.pop(task)
            found[index] = grad
            if missing > 1:
                runs[task] = found, missing - 1
        if missing == 1:
            fn(found)

    def tell(grad: Tensor | None) -> None:
        task = engine.current_task()
        with _lock:
            first = task not in runs
            runs[task] = [], 0
        if first:
            fn(grad)

    hooks = [(lambda grad, k=k: collect(k, grad)) if mode == "all" else tell for k in range(len(tensors))]
    return _MultiHandle([t.register_hook(hook) for t, hook in zip(tensors, hooks, strict=True)])
