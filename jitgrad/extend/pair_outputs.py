"""The shapes and dtypes of a pair's outputs, from kernel_pair's ``shape`` and ``dtype``.

One output is described by the name of an input (it has that one's shape and dtype), by a shape, or by an example: a
tensor or array whose shape and dtype are taken. ``shape`` is the description, or a function of the inputs' shapes that
returns it; for several outputs it is a sequence with a description for each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.layout import Layout, intern
from jitgrad.core.tensor import Tensor
from jitgrad.extend.pair_names import PairNames

__all__ = ["PairOutputs"]

Shape = tuple[int, ...]
_FORMS = "the name of an input, a shape such as (3, 4), or a tensor or array like the output"


class PairOutputs:
    """The outputs of a pair with the given ``names``. shape, dtype: see ``kernel_pair``."""

    def __init__(self, names: PairNames, shape: Any, dtype: Any):
        self.names, self.shape = names, shape
        self.dtypes = self._declared_dtypes(dtype)
        self.floats = [d for d in self.dtypes if d is not None and d.category >= 2]
        # The inputs whose shapes the function asks for; None if shape is no function.
        self.asked = self._asked(shape) if callable(shape) and not _is_example(shape) else None
        if shape is not None and self.asked is None:
            for name, description in zip(names.outputs, self._each(shape), strict=True):
                self._check_form(name, description)

    def layouts(self, args: Sequence[Any], tensors: Sequence[Tensor]) -> tuple[list[Layout], dtypes.dtype]:
        """The outputs' layouts, and the dtype in which the loop computes, for arguments and the tensors among them.

        It computes in the inputs' common dtype, or in that of floating-point outputs if it is wider: what is stored
        into a narrower output is rounded once.
        """
        first = tensors[0]._layout
        # Tensors with dims decide on the dtype before those without, as for any op.
        common = dtypes.promote([t.dtype for t in tensors if t.ndim], [t.dtype for t in tensors if not t.ndim], [])
        for d in self.floats:
            common = dtypes.promote_types(common, d)
        if self.shape is None:
            return [intern((d or common).numpy, first.shape, None, first.device) for d in self.dtypes], common
        given = dict(zip(self.names.inputs, args, strict=True))
        described = [self._described(name, d, given) for name, d in self._descriptions(given)]
        found = [declared or like or common for declared, (_, like) in zip(self.dtypes, described, strict=True)]
        for d in found:
            common = dtypes.promote_types(common, d) if d.category >= 2 else common
        shapes = [shape for shape, _ in described]
        return [intern(d.numpy, s, None, first.device) for d, s in zip(found, shapes, strict=True)], common

    # -- the declaration ----------------------------------------------------------------------

    def _declared_dtypes(self, dtype: Any) -> list[dtypes.dtype | None]:
        outputs = self.names.outputs
        if not isinstance(dtype, (tuple, list)):
            return [self._dtype(dtype)] * len(outputs)
        if len(dtype) != len(outputs):
            raise TypeError(f"{self.names.op}: dtype has {len(dtype)} items, but the outputs are {outputs}")
        return [self._dtype(d) for d in dtype]

    def _dtype(self, given: Any) -> dtypes.dtype | None:
        if given is None or isinstance(given, dtypes.dtype):
            return given
        try:
            return dtypes.from_numpy_dtype(given)
        except (TypeError, ValueError):
            raise TypeError(
                f"{self.names.op}: dtype must be a dtype such as jitgrad.float64, None for the inputs' common one, or "
                f"a tuple with one for each of the outputs {self.names.outputs}, but got {given!r}"
            ) from None

    def _asked(self, shape: Callable[..., Any]) -> list[str]:
        parameters = inspect.signature(shape).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return self.names.inputs
        for p in parameters:
            if p.name not in self.names.inputs and p.default is p.empty:
                raise TypeError(
                    f"{self.names.op}: shape's parameter {p.name!r} is unknown; it is called with the shapes of inputs "
                    f"that it names, of {self.names.inputs}"
                )
        return [p.name for p in parameters if p.name in self.names.inputs]

    def _check_form(self, name: str, description: Any) -> None:
        """TypeError for a description that is none whatever the inputs."""
        if isinstance(description, str):
            if description not in self.names.inputs:
                inputs = self.names.inputs
                raise TypeError(f"{self.names.op}: shape names {description!r}, but the inputs are {inputs}")
        elif not _is_example(description):
            self._sizes(name, description)

    # -- a call -------------------------------------------------------------------------------

    def _descriptions(self, given: dict[str, Any]) -> list[tuple[str, Any]]:
        shape = self.shape
        if self.asked is not None:
            shape = shape(**{n: _shape_or_number(given[n]) for n in self.asked})
        return list(zip(self.names.outputs, self._each(shape), strict=True))

    def _each(self, shape: Any) -> Sequence[Any]:
        """A description for each output; an input's name may stand for all."""
        outputs = self.names.outputs
        if len(outputs) == 1:
            return [shape]
        if isinstance(shape, str):
            return [shape] * len(outputs)
        if not isinstance(shape, (tuple, list)) or all(isinstance(s, (int, np.integer)) for s in shape):
            raise TypeError(
                f"{self.names.op}: shape must describe each of the outputs {outputs} by {_FORMS}, but got {shape!r}"
            )
        if len(shape) != len(outputs):
            raise TypeError(f"{self.names.op}: shape describes {len(shape)} outputs, but the loop has {outputs}")
        return shape

    def _described(self, name: str, description: Any, given: dict[str, Any]) -> tuple[Shape, dtypes.dtype | None]:
        """(shape, dtype or None) of an output."""
        if isinstance(description, str):
            self._check_form(name, description)
            like = given[description]
            if not isinstance(like, Tensor):
                what = f"shape says that {name} is like {description!r}"
                raise TypeError(f"{self.names.op}: {what}, which must be a tensor, but got {type(like).__name__}")
            return like._layout.shape, like.dtype
        if isinstance(description, Tensor):
            return description._layout.shape, description.dtype
        if _is_example(description):
            return tuple(description.shape), self._dtype(description.dtype)
        return self._sizes(name, description), None

    def _sizes(self, name: str, description: Any) -> Shape:
        sizes = description if isinstance(description, (tuple, list)) else (description,)
        try:
            shape = tuple([index(n) for n in sizes])
        except TypeError:
            raise TypeError(
                f"{self.names.op}: {name} is described by {_FORMS}, but shape gives {description!r}"
            ) from None
        for n in shape:
            if n < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension {n}: {list(shape)}, which is what shape gives "
                    f"{name} of {self.names.op}"
                )
        return shape


def _is_example(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray, np.generic)) and not isinstance(value, np.integer)


def _shape_or_number(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, Tensor) else value
