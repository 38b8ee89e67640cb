"""Ops as objects under PyTorch's names: ``jitgrad.ops.aten.mm.default``, to be compared and called.

Policies of selective checkpointing get them, and PyTorch's users compare them by ``is`` and ``==``. Overloads are
not told apart: ``aten.mul.Tensor`` and ``aten.mul.Scalar`` are one object, that of the op.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.declaration_checks import snake_case
from jitgrad.dispatch.registry import FUNCTIONS, OPS, publish_rest
from jitgrad.ops.shape.view_copies import slice_view
from jitgrad.ops.sparse.index_forms import compressed_with_dims

__all__ = ["OpOverload", "OpOverloadPacket", "overload"]

# Functions that have no name but this in PyTorch.
_INNER: dict[str, Any] = {"slice": slice_view, "sparse_compressed_tensor_with_dims": compressed_with_dims}

publish_rest()  # every op can be named here


class OpOverloadPacket:
    """An op by its name; each of its attributes is the op itself."""

    def __init__(self, name: str):
        self.__name__ = name
        self.default = OpOverload(self)

    def __getattr__(self, name: str) -> OpOverload:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.default

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op."""
        return self.default(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"


class OpOverload:
    """An op."""

    def __init__(self, packet: OpOverloadPacket):
        self.overloadpacket, self.__name__ = packet, f"{packet.__name__}.default"

    def name(self) -> str:
        """The name with its namespace: ``aten::mm``."""
        return f"aten::{self.overloadpacket.__name__}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op. NotImplementedError where it has no public function."""
        name = self.overloadpacket.__name__
        function = _function(name) or getattr(Tensor, name, None)
        if function is None:
            raise NotImplementedError(f"aten.{name}: the op has no function that could be called by this name")
        return function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.overloadpacket.__name__}', overload='default')>"

    def __str__(self) -> str:
        return f"aten.{self.overloadpacket.__name__}.default"


def _function(name: str) -> Any:
    """The function of an op, ``jitgrad.linalg.inv`` of ``linalg_inv``; None if there is none."""
    found = FUNCTIONS.get(name) or FUNCTIONS.get(name.replace("_", ".", 1)) or FUNCTIONS.get(f"_{name}")
    return found or _INNER.get(name)


@functools.cache
def _packet(name: str) -> OpOverloadPacket:
    return OpOverloadPacket(name)


def _title(grad_name: str) -> str:
    """An op's name from that of its node: ``native_layer_norm`` from NativeLayerNormBackward0."""
    return snake_case(re.sub(r"Backward\d*$", "", grad_name))


def overload(op: Any, in_place: bool = False) -> OpOverload:
    """The object for a declared op, or for its form in place."""
    declared = getattr(op, "op", op)  # of an elementwise operation
    return _packet(_title(declared.grad_name) + "_" * in_place).default


def _known(name: str) -> bool:
    base = name.rstrip("_")
    return _function(base) is not None or hasattr(Tensor, base) or any(
        _title(getattr(op, "op", op).grad_name) == base for op in OPS.values()
    )  # fmt: skip


def __getattr__(name: str) -> OpOverloadPacket:
    plain = name.lstrip("_")  # PyTorch's inner names, such as _softmax
    if name.startswith("__") or not _known(plain):
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
    return _packet(plain)
