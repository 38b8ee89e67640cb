"""Tensor: an array, its layout, and its place in the recorded graph. Ops become its methods in the files of the ops."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jitgrad.core.device import device_of
from jitgrad.core.errors import cpp_type, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.inference import check_requires_grad, is_inference, version
from jitgrad.core.layout import Layout, Size
from jitgrad.core.node import node_of, number_of
from jitgrad.core.saved_versions import count_exchange, writes
from jitgrad.core.storage import UNWRITTEN, array_address, counter_of
from jitgrad.core.tensor_observers import announce_tensor, tensor_observers
from jitgrad.core.transform_guards import API, refuse_inside
from jitgrad.core.view_errors import stale_message
from jitgrad.kernels.lazy_array import memory_of

__all__ = ["Tensor", "address", "method", "reserve_attributes", "wrap"]

F = TypeVar("F", bound=Callable[..., Any])
_NON_LEAF_GRAD = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
    "won't be populated during autograd.backward(). If you indeed want the .grad field to be populated "
    "for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor "
    "by mistake, make sure you access the leaf Tensor instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)

_UNRECORDED_VIEWS = ("no_grad", "inference", "custom")  # kinds of views that were made while nothing was recorded


class Tensor:
    """A multi-dimensional array that remembers how it was computed.

    Made by ``jitgrad.tensor``, ``jitgrad.zeros`` and the like, or by ops.
    """

    # The defaults below belong to the class, and an attribute is set on an instance only where it differs. So a result
    # sets two or three attributes and all others are read from the class: 144 ns a tensor, where __slots__, each of
    # which has to be filled, take 165 to 247. Users may also set attributes of their own, as on PyTorch's tensors.

    __module__ = "jitgrad"  # as users know it: ``<class 'jitgrad.Tensor'>``, also in pickles

    _data: Any  # numpy.ndarray on CPU; views are views of it
    _layout: Layout
    # [number of writes to the memory], one list for all views of it. Made with the first write or view.
    _counter: Any = UNWRITTEN
    _requires_grad = False
    _edge: Any = None  # to the node of the op that made it; see core/node.py
    _grad: Tensor | None = None
    _base: Any = None  # the tensor whose memory a view shows
    _views: list[Any] | None = None  # weak references to the views of this memory
    # Why writes to a view cannot be recorded, "" if they can. "multi": its op returned several views; "custom": made by
    # a Function; "no_grad", "inference": made in that mode.
    _view_kind = ""
    # Of a view made while nothing was recorded, whose base requires grad: the version of its memory then. Such a view
    # says that it requires grad, but no gradient passes it.
    _unrecorded: int | None = None
    _leaf_edge: Any = None  # its AccumulateGrad, made when a leaf is first used
    _leaf_hooks: Any = None  # LeafHooks, if it has any
    _scope: Any = None  # that of the differentiated function in which it was made; see transforms/scope.py
    _former_layouts: Any = ()  # (last version with it, layout) of data that ``.data =`` has replaced
    _level: Any = None  # that of the transform which has wrapped it; see core/wrapped.py
    __array_priority__ = 1000  # ``ndarray * tensor`` asks tensor.__rmul__ before NumPy loops over the elements

    # -- what it is ---------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The sizes of the dimensions."""
        return self._layout.size

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._layout.dtype

    @property
    def device(self) -> Any:
        """The device that holds the values."""
        return device_of(self._layout.device)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._layout.ndim

    @property
    def data(self) -> Tensor:
        """The same memory outside the graph, with a version counter of its own: writes to it are not noticed."""
        result = wrap(self._data, self._layout)
        result._counter = self._counter if is_inference(self) else UNWRITTEN
        return result

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._requires_grad and value._layout.dtype.category < 2:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point or complex dtype")
        former, new = self._layout, value._layout
        if (former is not new or self._base is not None or self._views) and not is_inference(self):
            count_exchange(self, counter_of(self), new)
            if self._edge is not None:
                self._guard_gradient(former)
        self._data, self._layout = value._data, new

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    @property
    def _version(self) -> int:
        return version(self)

    def _is_view(self) -> bool:
        """Whether this is a view of another tensor's memory; False for inference tensors, of which none are tracked."""
        return self._base is not None and not is_inference(self)

    # -- the graph ----------------------------------------------------------------------------

    @property
    def grad_fn(self) -> Any:
        """The node of the op that made this tensor; None for leaves.

        RuntimeError for a view made under ``no_grad`` whose memory was written to since.
        """
        if self._edge is None and self._unrecorded is not None:
            self._check_reachable()
        return node_of(self._edge) if self._edge is not None else None

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    @property
    def output_nr(self) -> int:
        """Which output of ``grad_fn`` this is, counted from 0."""
        return number_of(self._edge) if self._edge is not None else 0

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        return self._edge is None

    @property
    def requires_grad(self) -> bool:
        """Whether ops on this tensor are recorded; of a view made under ``no_grad``, what its base says."""
        if self._requires_grad or self._view_kind not in _UNRECORDED_VIEWS:
            return self._requires_grad
        base = self._base  # None in vmap: the batched tensor is no view, though the one that it wraps may be
        return base is not None and base._requires_grad and not is_inference(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(value) is not bool:
            raise RuntimeError("requires_grad must be a bool")
        if self._edge is not None:
            hint = "" if value else (
                " If you want to use a computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
            raise RuntimeError(f"you can only change requires_grad flags of leaf variables.{hint}")
        if value and self._layout.dtype.category < 2:
            raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
        if value:
            check_requires_grad(self)
        # Of a view made under no_grad: True makes it a leaf of its own, False leaves it with its base's flag.
        if self._unrecorded is not None:
            self._unrecorded = None if value else self._unrecorded
            return
        if self._level is not None:
            self.wrap_alias()  # the tensor inside may be the caller's, which is not to get the flag
        self._requires_grad = bool(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set ``requires_grad`` in place and return the tensor."""
        if grad_state.levels or grad_state.scope is not None:
            refuse_inside("requires_grad_", API)
        if type(requires_grad) is not bool:
            raise TypeError(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                f"{type(requires_grad).__name__}"
            )
        if requires_grad and self._layout.dtype.category < 2:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if self._edge is None or not requires_grad:
            self.requires_grad = requires_grad
        return self

    @property
    def retains_grad(self) -> bool:
        """Whether this is a non-leaf whose gradient backward puts into ``.grad``."""
        edge = self._edge
        return edge is not None and number_of(edge) in (node_of(edge).retained or ())

    def retain_grad(self) -> None:
        """Let backward put the gradient of a non-leaf into ``.grad``; no effect on leaves, which have it anyway."""
        if not self._requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        refuse_inside("retain_grad")
        if self._edge is not None:
            import weakref

            node, number = node_of(self._edge), number_of(self._edge)
            node.special = True
            if node.retained is None:
                node.retained = {}
            node.retained[number] = weakref.ref(self)  # a node must not hold its output

    @property
    def grad(self) -> Tensor | None:
        """The gradient accumulated by ``backward``; None before the first."""
        if self._edge is not None and self._grad is None and not self.retains_grad:
            warnings.warn(_NON_LEAF_GRAD, UserWarning, stacklevel=2)
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    def _check_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            found = type(value).__name__
            raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {found}")
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._layout.dtype is not self._layout.dtype:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{cpp_type(value.dtype)}' to a tensor with grad_dtype "
                f"'{scalar_type(self.dtype)}'. The gradient must match the tensor's grad_dtype (defaults to the "
                "tensor's dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to "
                "allow any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may "
                "break downstream systems that assume they match."
            )
        if value._layout.device != self._layout.device:
            raise RuntimeError(
                f"attempting to assign a gradient with device type '{value.device.type}' to a tensor with "
                f"device type '{self.device.type}'. Please ensure that the gradient and the tensor are on "
                "the same device"
            )
        if value.shape != self.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
                f"'{list(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
            )

    def detach(self) -> Tensor:
        """The same memory outside the graph, with the same version counter: a write to either is noticed by both."""
        result = wrap(self._data, self._layout)
        result._counter = counter_of(self)
        return result

    def detach_(self) -> Tensor:
        """Take this tensor out of the graph: it becomes a leaf that requires no grad."""
        if self._base is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, "
                "gradients are views of DDP buckets, and hence detach_() cannot be called on these "
                "gradients. To fix this error, please refer to the Optimizer.zero_grad() function in "
                "torch/optim/optimizer.py as the solution."
            )
        self._edge, self._requires_grad, self._leaf_edge = None, False, None
        return self

    # -- for the recorder ---------------------------------------------------------------------

    def _check_reachable(self) -> None:
        """RuntimeError if this is a view made while nothing was recorded and its memory was written to since."""
        if writes(self._counter[0]) != self._unrecorded:
            raise RuntimeError(stale_message(self))

    def _attached(self, edge: Any) -> Tensor:
        """The same memory and version counter, as the output of a node that ``edge`` leads to."""
        result = self.detach()
        result._edge, result._requires_grad = edge, True
        return result

    def __hash__(self) -> int:  # Python drops the inherited one, because ``==`` compares elements
        return id(self)


def address(tensor: Tensor) -> int:
    """The address in memory of a tensor's first element."""
    data = memory_of(tensor._data)
    if type(data) is np.ndarray:
        return array_address(data)
    return data.address if tensor._layout.device != "cpu" else data.__array_interface__["data"][0]


_new = object.__new__  # without ``Tensor(...)``, whose call would go through type.__call__ and an __init__


def reserve_attributes(kind: type[Tensor]) -> None:
    """Let Python store a tensor's attributes inside of instances of this class, without a ``__dict__`` for each.

    CPython (3.11 and later) does so only for names that were set on one of the class's first thirty or so instances.
    Otherwise, in a program that makes thirty tensors before it records its first op, each recorded result would have a
    dictionary: one more object that the garbage collector visits.
    """
    first = _new(kind)
    for name in (*Tensor.__annotations__, "_requires_grad", "_view_kind"):
        object.__setattr__(first, name, None)


reserve_attributes(Tensor)


def wrap(data: Any, layout: Layout) -> Tensor:
    """A new tensor of an array whose layout is known; no view, and outside the graph."""
    tensor = _new(Tensor)
    tensor._data = data
    tensor._layout = layout
    if tensor_observers:
        announce_tensor(tensor)
    return tensor


def method(function: F) -> F:
    """Make ``function`` a method of Tensor that is no op: calls of it are not observed (see dispatch/registry.py)."""
    setattr(Tensor, function.__name__, function)
    return function


def recording(*tensors: Tensor) -> bool:
    """Whether an op on these tensors is recorded."""
    return grad_state.enabled and any(t._requires_grad for t in tensors)


def typename(obj: Any) -> str:
    """The name of an object's type, for messages: ``torch.FloatTensor``, ``int``, ``module.Class``."""
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = named.__module__ or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"
