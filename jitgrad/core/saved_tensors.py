"""Hooks on saved tensors (``saved_tensors_hooks``), and the attributes by which users read what a node has saved.

A pack hook that is set when a node is made turns each tensor that it saves into any object, from which the unpack hook
makes the tensor again during backward. A node with packed tensors becomes an instance of a subclass of its class, of
the same name, whose ``saved`` is a property that unpacks. So nodes without hooks, recorders, gradient rules and engine
contain no test for them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.core.grad_mode import no_grad
from jitgrad.core.node import FREED, Node, edge_of, node_observers
from jitgrad.core.saved_versions import modified_message, writes
from jitgrad.core.tensor import Tensor
from jitgrad.kernels.threads import fork_safe

__all__ = ["Hooks", "SavedTensor", "define_saved_attributes", "pop_hooks", "push_hooks", "set_hooks"]

Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]

_WRITTEN = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
    "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to "
    "perform in-place operations on the input to a pack hook."
)
_FREED = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
    "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
    "the graph a second time or if you need to access saved variables after calling backward."
)
_TWICE = (
    "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is "
    "allowed at a time."
)


# -- hooks that are set in a thread -------------------------------------------------------------------


class _Thread(threading.local):
    disabled: str | None = None  # the message with which setting hooks is refused; None: they are allowed

    def __init__(self) -> None:
        self.hooks: list[Hooks] = []  # the last set is the one that packs


thread = _Thread()
_lock = fork_safe(threading.Lock())
_users = 0  # how many hooks are set in all threads: while there are any, ``_pack_all`` observes new nodes


def push_hooks(hooks: Hooks) -> None:
    """Let ``hooks`` pack what new nodes of this thread save, in place of those set before."""
    if thread.disabled is not None:
        raise RuntimeError(thread.disabled)
    set_hooks([*thread.hooks, hooks])


def pop_hooks() -> None:
    """Undo the last ``push_hooks`` of this thread."""
    if not thread.hooks:
        raise RuntimeError("saved_tensors_hooks was left more often than entered")
    set_hooks(thread.hooks[:-1])


def set_hooks(hooks: list[Hooks]) -> None:
    """Set this thread's list of hooks. A list is replaced, never changed, so that callers may keep and restore one."""
    global _users
    with _lock:
        before, _users = _users, _users + len(hooks) - len(thread.hooks)
        if _users and not before:
            node_observers.insert(0, _pack_all)  # first: what others see of a node is already packed
        elif before and not _users:
            node_observers.remove(_pack_all)
    thread.hooks = hooks


def _pack_all(node: Node) -> None:
    if not thread.hooks:  # hooks are set in another thread only
        return
    names = node.saved_names()
    order: Iterable[int] = range(len(node.saved or ()))
    if names:  # the order in which users see pack hooks called is PyTorch's: operands by name, then results
        order = sorted(order, key=lambda k: (names[k] == "result", names[k]))
    for k in order:
        _pack(node, k, thread.hooks[-1])


# -- packing and unpacking ----------------------------------------------------------------------------


class Packed:
    """The object that a pack hook has made of a saved tensor, and the tensor's place in the graph."""

    __slots__ = ("edge", "layout", "leaf", "number", "unpack_hook", "value")

    def __init__(self, node: Node, index: int, tensor: Tensor, hooks: Hooks):
        self.number = node.output_number(index)  # which of the node's own outputs it is; None for an operand
        # A node saves its output without the edge, which would be a cycle; the hook gets it with its grad_fn.
        argument = tensor if self.number is None else tensor._attached(node.edge_of_output(self.number))
        self.leaf, self.edge, self.layout = tensor._edge is None, edge_of(tensor), tensor._layout
        version = tensor._counter[0]
        with no_grad():
            self.value = hooks[0](argument)
        if tensor._counter[0] != version:
            raise RuntimeError(_WRITTEN)
        self.unpack_hook = hooks[1]

    def unpack(self) -> Tensor:
        """The tensor with the history that it had; an output of the node itself without one.

        TypeError if the unpack hook returns anything but a tensor.
        """
        found = self.unpack_hook(self.value)
        if not isinstance(found, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found).__name__}"
            )
        if self.edge is None:
            return found if self.number is None else found.detach()
        if not self.leaf:
            return found._attached(self.edge)
        result = found.detach()  # of a leaf: another tensor with the same AccumulateGrad
        result._requires_grad, result._leaf_edge = True, self.edge
        return result


class _AnyVersion:
    """Equal to every version: writes to a tensor that was packed are the hooks' business, and no error."""

    def __ne__(self, other: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


_ANY = _AnyVersion()


@functools.cache
def _packing(node_type: type[Node]) -> type[Node]:
    """The subclass of ``node_type`` for nodes some of whose saved tensors are packed."""

    def saved(self: Any) -> Any:
        kept = vars(self)["saved"]  # a property hides the attribute of this name, which is still in the __dict__
        return kept and tuple([self.relaid(k.unpack(), k.layout) if isinstance(k, Packed) else k for k in kept])

    def versions(self: Any) -> Any:
        kept, numbers = vars(self)["saved"], vars(self)["versions"]
        return kept and tuple([_ANY if isinstance(k, Packed) else v for k, v in zip(kept, numbers, strict=True)])

    def release(self: Any) -> None:
        vars(self)["saved"] = None if vars(self)["saved"] else ()  # first, or ``self.saved`` would unpack all
        node_type.release(self)

    body = {
        "saved": property(saved, lambda self, value: vars(self).__setitem__("saved", value)),
        "versions": property(versions, lambda self, value: vars(self).__setitem__("versions", value)),
        "release": release, "plain_release": False, "packing": True,
        "__doc__": node_type.__doc__, "__module__": node_type.__module__,
    }  # fmt: skip
    return type(node_type.__name__, (node_type,), body)


def _pack(node: Node, index: int, hooks: Hooks) -> None:
    kept = vars(node)["saved"]
    packed = Packed(node, index, kept[index], hooks)
    vars(node)["saved"] = (*kept[:index], packed, *kept[index + 1 :])
    if not getattr(node, "packing", False):
        node.__class__ = _packing(type(node))  # type: ignore[arg-type]


# -- attributes for users -----------------------------------------------------------------------------


class SavedTensor:
    """One saved tensor of a node, as ``grad_fn._raw_saved_self`` returns it, for ``register_hooks``."""

    def __init__(self, node: Node | None = None, index: int | None = None):
        if node is None:
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        self._node, self._index = node, index

    def register_hooks(self, pack_hook: Any = None, unpack_hook: Any = None) -> None:
        """Keep ``pack_hook(tensor)`` instead of the tensor; backward gets the tensor by calling ``unpack_hook`` on it.

        RuntimeError if the tensor was freed, is None, or has hooks already.
        """
        if not (callable(pack_hook) and callable(unpack_hook)):
            raise TypeError(
                "register_hooks(): incompatible function arguments. The following argument types are supported:\n"
                "    1. (self: torch._C._autograd.SavedTensor, arg0: collections.abc.Callable, arg1: "
                f"collections.abc.Callable) -> None\n\nInvoked with: {self}, {pack_hook}, {unpack_hook}"
            )
        kept = vars(self._node).get("saved", ())
        if kept is None:
            raise RuntimeError(_FREED)
        if self._index is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if isinstance(kept[self._index], Packed):
            raise RuntimeError(_TWICE)
        _pack(self._node, self._index, (pack_hook, unpack_hook))


def saved_tensor(node: Node, index: int) -> Tensor:
    """Saved tensor ``index`` of a node, with its history; RuntimeError if it was written to since."""
    kept = vars(node)["saved"][index]
    tensor: Tensor = kept.unpack() if isinstance(kept, Packed) else kept
    version = vars(node)["versions"][index]
    if tensor is kept and writes(tensor._counter[0]) != writes(version):
        raise RuntimeError(modified_message(tensor, version, node))
    number = node.output_number(index)
    return tensor if number is None else tensor._attached(node.edge_of_output(number))


def define_saved_attributes(node_type: type[Node], names: Iterable[str], values: Iterable[str] = ()) -> None:
    """Give nodes of a type ``_saved_NAME`` and ``_raw_saved_NAME`` for tensors, ``_saved_NAME`` for other values.

    The names are PyTorch's: what a rule calls x is ``self`` there, y ``other``, out ``result``.
    """
    # Properties, set when the first node of a kind is planned: a ``__getattr__`` would be tried at every access to an
    # attribute of a node that only its class has.
    names = list(names)
    for name in names:
        if not hasattr(node_type, f"_raw_saved_{name}"):
            setattr(node_type, f"_raw_saved_{name}", property(functools.partial(_raw, name)))
    for name in (*names, *values):
        if not hasattr(node_type, f"_saved_{name}"):
            setattr(node_type, f"_saved_{name}", property(functools.partial(_look, name)))


def _look(name: str, node: Node) -> Any:
    if vars(node).get("saved", ()) is None:
        raise RuntimeError(FREED)
    names = node.saved_names()
    places = [k for k, n in enumerate(names) if n == name]
    if not places:
        return node.nontensor_value(name)
    found = [saved_tensor(node, k) for k in places]
    return tuple(found) if name in node.saved_lists() else found[0]


def _raw(name: str, node: Node) -> Any:
    names = node.saved_names()
    places = [k for k, n in enumerate(names) if n == name]
    if name in node.saved_lists():
        return tuple([SavedTensor(node, k) for k in places])
    return SavedTensor(node, places[0] if places else None)
