"""Module: the base of every layer, loss and model."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from jitgrad.nn.module_attributes import HOOKS
from jitgrad.nn.module_call import Caller
from jitgrad.nn.state_dict import Saver

__all__ = ["Module"]


class Module(Saver, Caller):
    """Base of everything that has parameters and a ``forward``.

    Assigning a Parameter, a Buffer or a Module to an attribute registers it: it is then found by
    ``parameters()``, saved by ``state_dict()`` and moved by ``to()``. A subclass calls
    ``super().__init__()`` first and defines ``forward``; the module is called like a function.
    """

    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses besides the children."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(child))}" for name, child in self._modules.items()]
        if len(lines) + len(children) == 0 or (len(lines) == 1 and not children):
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for hooks in HOOKS:  # a module that was pickled before it had them
            self.__dict__.setdefault(hooks, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def __hash__(self) -> int:
        return id(self)


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")
