"""``torch.utils._contextlib``: the base of context managers that are decorators, too."""

from jitgrad.core.grad_mode import Mode

__all__: list[str] = []


class _DecoratorContextManager(Mode):
    """Derive from it and define ``__enter__`` and ``__exit__``: an instance decorates functions and generators."""


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same, for managers without arguments: the class itself decorates."""

    def __new__(cls, orig_func=None):
        self = super().__new__(cls)
        return self if orig_func is None else self(orig_func)
