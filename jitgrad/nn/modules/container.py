"""Modules that hold modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar

from jitgrad.nn.modules.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]

S = TypeVar("S", bound="_Numbered")


class _Numbered(Module):
    """Children whose names are consecutive numbers, from "0" on, unless they were named otherwise."""

    def _name_at(self, idx: Any) -> str:
        """The name of child number ``idx``, counted from the end where negative."""
        number = operator.index(idx)
        if not -len(self) <= number < len(self):
            raise IndexError(f"index {number} is out of range")
        return list(self._modules)[number]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        for name in list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]:
            delattr(self, name)
        # Those behind the gap move up, so that names stay consecutive, as state_dict shows them.
        self._modules = {str(k): module for k, module in enumerate(self._modules.values())}

    def append(self: S, module: Any) -> S:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Take one or more modules out, and return them."""
        found = self[key]  # type: ignore[index]
        del self[key]
        return found

    def _insert(self, index: int, module: Any) -> None:
        for k in range(len(self), index, -1):
            self._modules[str(k)] = self._modules[str(k - 1)]
        self._modules[str(index)] = module


class Sequential(_Numbered):
    """Modules that run one after the other, each on what the one before returned.

    ``Sequential(a, b)`` names them by number; ``Sequential(OrderedDict(...))`` by its keys.
    """

    def __init__(self, *args: Any):
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        for name, module in args[0].items() if named else ((str(k), m) for k, m in enumerate(args)):
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        """Run the modules in turn."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __add__(self, other: Any) -> Sequential:
        _check_sequential(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        _check_sequential(other)
        return self.extend(list(other))

    def __mul__(self, other: Any) -> Sequential:
        self._check_factor(other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: Any) -> Sequential:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def _check_factor(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before number ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        self._insert(index + len(self) if index < 0 else index, module)
        return self

    def extend(self, sequential: Iterable[Any]) -> Sequential:
        """Add modules at the end."""
        for module in sequential:
            self.append(module)
        return self


def _check_sequential(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")


class ModuleList(_Numbered):
    """A list of modules, all registered. It has no ``forward``."""

    def __init__(self, modules: Iterable[Any] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._name_at(idx)]

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList(chain(self, other))

    def __iadd__(self, modules: Iterable[Any]) -> ModuleList:
        return self.extend(modules)

    def insert(self, index: int, module: Any) -> None:
        """Add a module before number ``index``."""
        self._insert(index, module)

    def extend(self, modules: Iterable[Any]) -> ModuleList:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in modules:
            self.append(module)
        return self

    def __repr__(self) -> str:
        runs: list[list[Any]] = []  # equal neighbours are shown once, with their number
        for k, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = k
            else:
                runs.append([k, k, text])
        lines = [f"({a}): {t}" if a == b else f"({a}-{b}): {b - a + 1} x {t}" for a, b, t in runs]
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {body}\n)" if lines else f"{self._get_name()}()"


class ModuleDict(Module):
    """A dictionary of modules, all registered. It has no ``forward``."""

    def __init__(self, modules: Any = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Take a module out, and return it."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """Pairs of name and module."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(name: str, values: Any) -> Iterable[tuple[str, Any]]:
    """(key, value) pairs of a mapping or of an iterable of pairs; errors speak of the class ``name``."""
    if not isinstance(values, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(values).__name__}"
        )
    if isinstance(values, (Mapping, ModuleDict)) or hasattr(values, "_keys"):  # that of ParameterDict
        return list(values.items())  # type: ignore[union-attr]
    pairs: list[Any] = list(values)
    for k, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name} update sequence element #{k} should be Iterable; is{type(pair).__name__}")
        if len(list(pair)) != 2:
            raise ValueError(f"{name} update sequence element #{k} has length {len(list(pair))}; 2 is required")
    return pairs
