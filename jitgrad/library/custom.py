"""``custom_op``: an op made of a Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jitgrad.library.operators import Operator, namespace
from jitgrad.library.schema import infer_schema, parse

__all__ = ["CustomOpDef", "custom_op", "devices_of", "registered"]


def custom_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any, device_types: Any = None,
    schema: str | None = None, tags: Any = None,
) -> Any:  # fmt: skip
    """Make ``fn`` the op ``torch.ops.NAMESPACE.NAME``; without it, a decorator.

    Args:
        name: "namespace::name".
        fn: a function of annotated tensors and numbers that returns new tensors. What it does is not recorded;
            ``register_autograd`` gives the op its gradient.
        mutates_args: the names of arguments that it writes to.
        device_types: the devices that it is for, all by default.
        schema: its schema, inferred from the annotations by default.
    """

    def made(function: Callable[..., Any]) -> CustomOpDef:
        space, separator, own = name.partition("::")
        if not separator or not own:
            raise ValueError(f"Expected the name of a custom operator to be 'namespace::name', but got {name!r}")
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        return CustomOpDef(space, own, f"{own}{text}", function, device_types, tags)

    return made if fn is None else made(fn)


class CustomOpDef:
    """A custom op: a function, and the place where its forms for devices, gradients and batches are registered."""

    def __init__(
        self, space: str, name: str, schema: str, function: Callable[..., Any], device_types: Any, tags: Any = None
    ):
        self._namespace, self._name, self._init_fn = space, name, function
        self.__name__, self.__doc__, self.__module__ = name, function.__doc__, function.__module__
        operator = Operator(space, parse(schema))
        operator.tags = tuple(tags or ())
        earlier = namespace(space)._packets.get(name)
        if earlier is not None:  # the module that defines it has been read once more
            for overload in list(earlier._overloads.values()):
                namespace(space).remove(overload)
        namespace(space).add(operator)
        self._opoverload = operator
        self.register_kernel(device_types, function)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _schema(self) -> str:
        return self._opoverload.schema.text.removeprefix(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op."""
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Call ``fn`` for tensors of these devices; None: of all."""
        return registered(self._opoverload, devices_of(device_types), fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Call ``fn`` for tensors without memory, of the meta device."""
        registered(self._opoverload, ["fake"], fn)
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:  # fmt: skip
        """Give it a gradient: ``backward(ctx, *grads)``; ``setup_context(ctx, inputs, output)`` saves what it needs."""
        self._opoverload.backward, self._opoverload.setup_context = backward, setup_context
        self._opoverload.changed()

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Give it a form for batches: ``func(info, in_dims, *args)`` returns (result, the batch's dim of it)."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._opoverload.vmap = function
            self._opoverload.changed()
            return function

        return register if func is None else register(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Nothing: arguments keep their dtypes inside of ``autocast``."""

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        """Nothing: there is no dispatcher that such classes could see."""
        return (lambda function: function) if fn is None else fn


def devices_of(device_types: Any) -> list[str]:
    """The keys of device types, which are one, several, or None for all."""
    if device_types is None:
        return ["default"]
    return [device_types] if isinstance(device_types, str) else list(device_types)


def registered(operator: Operator, keys: Iterable[str], fn: Callable[..., Any] | None) -> Any:
    """Keep ``fn`` for keys, now or as a decorator."""
    keys = list(keys)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        operator.kernels.update(dict.fromkeys(keys, function))
        operator.changed()
        return function

    return register if fn is None else register(fn)
