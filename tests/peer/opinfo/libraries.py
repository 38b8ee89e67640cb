"""One sample under two libraries: the same memory and the same call, in each library's own types."""

import dataclasses
import types
from functools import reduce
from typing import Any

import torch

import jitgrad

HARNESS = "torch.testing."  # where functions live that are no op, but call one


class Library:
    """A library's module, and how the values of a sample and the functions of PyTorch become its own."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def own(self, value: Any, memo: dict[int, Any]) -> Any:
        """A copy of a tensor or dtype, or of a tree of them. ``memo`` keeps one copy of a tensor that is met twice."""
        if isinstance(value, torch.Tensor):
            if id(value) not in memo:
                memo[id(value)] = self.tensor(value)
            return memo[id(value)]
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return getattr(self.module, str(value).removeprefix("torch."))
        if isinstance(value, torch.device):
            return self.module.device(str(value))
        if isinstance(value, torch.nn.Module):  # one without parameters, made without arguments
            return getattr(self.module.nn, type(value).__name__)()
        if dataclasses.is_dataclass(value):  # options of a function
            given = {f.name: self.own(getattr(value, f.name), memo) for f in dataclasses.fields(value)}
            return getattr(self.module.nn, type(value).__name__)(**given)
        if isinstance(value, dict):
            return {key: self.own(part, memo) for key, part in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self.own(part, memo) for part in value])
        return value

    def tensor(self, value: torch.Tensor) -> Any:
        """A leaf with the same values, strides and offset, in memory of its own."""
        if value.layout is torch.sparse_csr:
            parts = [self.tensor(t.detach()) for t in (value.crow_indices(), value.col_indices(), value.values())]
            made = self.module.sparse_csr_tensor(*parts, tuple(value.shape))
            return made.requires_grad_() if value.requires_grad else made
        plain = value.detach().resolve_conj().resolve_neg()
        storage = torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage())
        if plain.dtype is torch.bfloat16:  # of which NumPy gets the bits
            made = self.module.from_numpy(storage.view(torch.int16).numpy().copy()).view(self.module.bfloat16).detach()
        else:
            made = self.module.from_numpy(storage.numpy().copy())
        if tuple(made.shape) != tuple(plain.shape) or tuple(made.stride()) != plain.stride():
            made = made.as_strided(tuple(plain.shape), plain.stride(), plain.storage_offset()).detach()
        return made.requires_grad_() if value.requires_grad else made

    def seeded(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        self.module.manual_seed(42)
        return op(*args, **kwargs)

    def named(self, path: str) -> Any:
        """The function or method of that name, None if there is none."""
        names = path.removeprefix("torch.").split(".")
        return reduce(lambda place, name: getattr(place, name, None), names, self.module)

    def rebound(self, function: types.FunctionType) -> Any:
        """A function of PyTorch's harness, run with ``torch`` meaning this library."""
        names = {**function.__globals__, "torch": self.module, "wrapper_set_seed": self.seeded}
        made = types.FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )
        made.__kwdefaults__ = function.__kwdefaults__
        return made


def is_harness(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and function.__module__.startswith(HARNESS)


THEIRS, OURS = Library(torch), Library(jitgrad)
