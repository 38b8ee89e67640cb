"""The base of transforms, their inverses, and transforms made of others."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import jitgrad
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.distributions import constraints
from jitgrad.distributions.distribution import attribute
from jitgrad.distributions.utils import _sum_rightmost, lazy_property

__all__ = [
    "ComposeTransform", "IndependentTransform", "ReshapeTransform", "Transform", "Unparametrised", "remade",
    "require_dims",
]  # fmt: skip


class Transform:
    """Base of differentiable maps between events: ``y = t(x)``, ``x = t.inv(y)``.

    A subclass states ``domain`` and ``codomain``, defines ``_call`` and, where there is one, ``_inverse`` (any of the
    inverses, where it is not ``bijective``) and ``log_abs_det_jacobian``, and ``forward_shape`` and ``inverse_shape``
    if shapes change. ``cache_size=1`` remembers the last pair (x, y), whose inverse is then exact and costs nothing;
    ValueError for another size than 0 and 1.
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        if cache_size:
            self._cached_x_y: tuple[Any, Any] = None, None
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None}

    @property
    def event_dim(self) -> Any:
        """How many dims an event has. ValueError where that differs between domain and codomain."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Any:
        """The inverse transform; its ``inv`` is this one."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """The sign of the derivative of a monotonic map of numbers."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with a cache of that size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> Any:
        return self is other

    def __ne__(self, other: object) -> Any:
        return not self.__eq__(other)

    def __call__(self, x: Any) -> Any:
        """The image of x."""
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = x, self._call(x)
        return self._cached_x_y[1]

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = self._inverse(y), y
        return self._cached_x_y[0]

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy/dx| of each event x and its image y."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the image of a tensor of that shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of a tensor whose image has that shape."""
        return shape


def remade(*names: str) -> Any:
    """``with_cache = remade("loc", "scale")`` in a class: its ``with_cache`` makes another of these attributes."""
    return _Remade(names)


class _Remade:
    """Puts the method in its place once the class is there."""

    def __init__(self, names: tuple[str, ...]):
        self.names = names

    def __set_name__(self, owner: Any, name: str) -> None:
        names = self.names

        def with_cache(self: Any, cache_size: int = 1) -> Any:
            if self._cache_size == cache_size:
                return self
            return owner(*[getattr(self, n) for n in names], cache_size=cache_size)

        with_cache.__qualname__, with_cache.__doc__ = f"{owner.__qualname__}.with_cache", Transform.with_cache.__doc__
        setattr(owner, name, with_cache)


class Unparametrised(Transform):
    """A transform without parameters: any two are equal."""

    def __eq__(self, other: object) -> Any:
        return isinstance(other, type(self))


def require_dims(shape: Any, n: int) -> None:
    """ValueError for a shape of fewer than ``n`` dims."""
    if len(shape) < n:
        raise ValueError("Too few dimensions on input")


class _InverseTransform(Transform):
    """The inverse of ``_inv``, whose cache it shares."""

    def __init__(self, transform: Transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    bijective = attribute("_inv.bijective", "Whether the transform is.")
    sign = attribute("_inv.sign", "The transform's sign.")
    inv = attribute("_inv", "The transform itself.")

    def with_cache(self, cache_size: int = 1) -> Any:
        """The inverse of the transform with a cache of that size."""
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> Any:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Any) -> Any:
        """What the transform maps to x."""
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Minus the transform's."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        """The transform's ``inverse_shape``."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The transform's ``forward_shape``."""
        return self._inv.forward_shape(shape)


def _outermost(of: list[tuple[Any, Any]]) -> Any:
    """The last target of (source, target) constraints of a chain, as independent over what any of them takes in."""
    event_dim, last = of[0][0].event_dim, of[-1][1]
    for source, target in of:
        event_dim = max(event_dim + target.event_dim - source.event_dim, target.event_dim)
    if event_dim < last.event_dim:
        raise AssertionError(f"event_dim {event_dim} must be >= {last.event_dim}")
    return constraints.independent(last, event_dim - last.event_dim) if event_dim > last.event_dim else last


class ComposeTransform(Transform):
    """The transforms of a list, applied one after another; none: the identity of numbers."""

    def __init__(self, parts: list[Transform], cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    with_cache = remade("parts")

    def __eq__(self, other: object) -> Any:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        pairs = [(part.codomain, part.domain) for part in reversed(self.parts)]
        return _outermost(pairs) if pairs else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        pairs = [(part.domain, part.codomain) for part in self.parts]
        return _outermost(pairs) if pairs else constraints.real

    @lazy_property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Any:
        """The inverses in the opposite order."""
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Any) -> Any:
        """The image of x under all of them."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of those of the parts."""
        if not self.parts:
            return jitgrad.zeros_like(x)
        terms, event_dim = [], self.domain.event_dim
        for i, part in enumerate(self.parts):
            image = part(x) if i + 1 < len(self.parts) else y
            term = part.log_abs_det_jacobian(x, image)
            terms.append(_sum_rightmost(term, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = image
        return reduce(add, terms)

    def forward_shape(self, shape: Any) -> Any:
        """Through all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Back through all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


class IndependentTransform(Transform):
    """``base_transform``, for which the last ``reinterpreted_batch_ndims`` batch dims belong to an event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    with_cache = remade("base_transform", "reinterpreted_batch_ndims")
    bijective = attribute("base_transform.bijective", "Whether the base is.")
    sign = attribute("base_transform.sign", "The base's sign.")
    forward_shape = attribute("base_transform.forward_shape", "The base's.")
    inverse_shape = attribute("base_transform.inverse_shape", "The base's.")

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    def _call(self, x):
        require_dims(x.shape, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y):
        require_dims(y.shape, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The base's, summed over an event."""
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Events of shape ``in_shape`` as events of shape ``out_shape``. ValueError for different numbers of elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0):
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    with_cache = remade("in_shape", "out_shape")

    @constraints.dependent_property
    def domain(self):
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x):
        return x.reshape((*x.shape[: x.dim() - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y):
        return y.reshape((*y.shape[: y.dim() - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Tensor:
        """0."""
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def _swapped(self, shape: Any, old: Any, new: Any) -> Any:
        require_dims(shape, len(old))
        cut = len(shape) - len(old)
        if shape[cut:] != old:
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
        return shape[:cut] + new

    def forward_shape(self, shape: Any) -> Any:
        """With ``out_shape`` for the event."""
        return self._swapped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """With ``in_shape`` for the event."""
        return self._swapped(shape, self.out_shape, self.in_shape)
