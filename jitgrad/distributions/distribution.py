"""The base of distributions, and what their classes declare by a line: ``expand``, attributes of parts, checks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any

import jitgrad
from jitgrad.core.grad_mode import no_grad
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.batch_randomness import all_samples
from jitgrad.distributions import constraints
from jitgrad.distributions.utils import lazy_property

__all__ = ["Distribution", "attribute", "expands", "validated"]


def _all_true(verdicts: Tensor) -> bool:
    """Whether all are; under vmap those of all samples, as in PyTorch, though others may not be read there."""
    return bool((all_samples(verdicts) if grad_state.levels else verdicts).all())


class Distribution:
    """Base of distributions over batches of events.

    Samples have the shape ``sample_shape + batch_shape + event_shape``; ``log_prob`` of them ``sample_shape +
    batch_shape``. A subclass states ``arg_constraints`` ({parameter: constraint}) and ``support``, sets its parameters
    and then calls this ``__init__``, which checks them unless ``validate_args`` is False: ValueError for one that its
    constraint does not allow. What a subclass does not define raises NotImplementedError.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments unless told otherwise. ValueError for no bool."""
        if value not in [True, False]:
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = Size(), event_shape: Any = Size(), validate_args: bool | None = None  # noqa: B008
    ):
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in vars(self) and isinstance(getattr(type(self), name), lazy_property):
                continue  # not given: it is computed from those that are
            value = getattr(self, name)
            if not _all_true(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The distribution with a larger batch shape; parameters are expanded, not copied.

        A subclass with an ``__init__`` of its own must define its own; it may pass on an ``_instance`` to be completed.
        """
        raise NotImplementedError

    batch_shape = property(lambda self: self._batch_shape, doc="The shape over which parameters are batched.")
    event_shape = property(lambda self: self._event_shape, doc="The shape of a single event.")

    @property
    def arg_constraints(self) -> Any:
        """{parameter: its constraint}."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation, the variance's root."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        """Samples without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        """Samples that depend on the parameters differentiably, where ``has_rsample``."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """``sample((n,))``; deprecated."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", category=FutureWarning, stacklevel=2
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at ``value``."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The inverse of ``cdf``."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution along a new first dim; not expanded over the batch if told so."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, over each event, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """e to the entropy."""
        return jitgrad.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = Size()) -> Any:  # noqa: B008
        return Size((*Size(sample_shape), *self._batch_shape, *self._event_shape))

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Events along a first dim, with the batch's dims put in, and expanded to them."""
        values = values.reshape((len(values), *[1] * len(self._batch_shape), *self._event_shape))
        return values.expand((-1, *self._batch_shape, *self._event_shape)) if expand else values

    def _validate_sample(self, value: Any) -> None:
        """ValueError for what is no tensor of events of this distribution, or has a value outside of its support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape, whole = value.size(), Size((*self._batch_shape, *self._event_shape))
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {shape} vs {self._event_shape}."
            )
        if any(i != 1 and j != 1 and i != j for i, j in zip(reversed(shape), reversed(whole))):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {whole}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=2,
            )
            return
        if support is None:
            raise AssertionError("support is unexpectedly None")
        if not _all_true(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """What ``expand`` of ``cls`` completes; NotImplementedError if a subclass's ``__init__`` needs its own."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    def __repr__(self) -> str:
        given = {n: vars(self)[n] for n in self.arg_constraints if n in vars(self)}
        shown = [f"{n}: {v if v.numel() == 1 else v.size()}" for n, v in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


def expands(*names: str, same: tuple[str, ...] = ()) -> Any:
    """``expand = expands("loc", "scale", same=...)`` in a class: its ``expand``.

    Attributes named first, tensors or distributions, are expanded in their leading dims, which are those of the batch;
    ``same`` are taken over. Those that an instance lacks are left out. A class above that has such attributes adds its.
    """
    return _Expands(names, same)


class _Expands:
    """Puts the method in its place once the class is there."""

    def __init__(self, names: tuple[str, ...], same: tuple[str, ...]):
        self.names, self.same = names, same

    def __set_name__(self, owner: Any, name: str) -> None:
        names, same = self.names, self.same
        above = next(vars(c)[name] for c in owner.__mro__[1:] if name in vars(c))

        def expand(self: Any, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(owner, _instance)
            batch_shape = Size(batch_shape)
            for label in (*names, *same):
                if label in vars(self):
                    value = vars(self)[label]
                    setattr(new, label, _expanded(value, self, batch_shape) if label in names else value)
            inherited: Any = super(owner, new)
            if above is not Distribution.expand:
                inherited = super(owner, self)
                return inherited.expand(batch_shape, _instance=new)
            inherited.__init__(batch_shape, self._event_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

        expand.__qualname__, expand.__doc__ = f"{owner.__qualname__}.expand", Distribution.expand.__doc__
        setattr(owner, name, expand)


def _expanded(value: Any, of: Distribution, batch_shape: Size) -> Any:
    """An attribute of ``of``, whose first dims are the batch's, expanded."""
    shape = value.batch_shape if isinstance(value, Distribution) else value.shape
    return value.expand((*batch_shape, *shape[len(of._batch_shape) :]))


def attribute(path: str, doc: str = "") -> Any:
    """A property that is another attribute, or one of a part: ``mean = attribute("loc")``, ``"base_dist.scale"``."""
    return property(attrgetter(path), doc=doc or f"``{path}``.")


def validated(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of one value, which is first checked to be in the support, unless the distribution checks nothing."""

    @wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        if self._validate_args:
            self._validate_sample(*args, *named.values())
        return method(self, *args, **named)

    return checked
