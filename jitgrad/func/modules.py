"""Modules as functions of their parameters: functional_call, and stacks of many modules' parameters for vmap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jitgrad.core.tensor import Tensor
from jitgrad.ops.shape.join import stack

__all__ = ["functional_call", "stack_module_state"]


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Mapping[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call ``module`` with other tensors in place of its parameters and buffers; the module stays as it is.

    parameter_and_buffer_dicts: {"layer.weight": tensor}, or several such, whose names differ. Names that
    are left out keep what the module has; ``strict`` wants all of them and no others. ``args``: a tuple, or a
    single argument. tie_weights: a tensor that the module has under several names is replaced under all.
    What the module assigns to its buffers is found in the dictionary afterwards.
    """
    given = _one_dictionary(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    with _replaced(module, given, tie_weights, strict):
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))


def _one_dictionary(dicts: Any) -> Any:
    """All dictionaries as one; a single one is the user's own, which then gets what the module assigns."""
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}"
        )
    if not all(isinstance(d, dict) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for d in dicts for name in d]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: value for d in dicts for name, value in d.items()}


@contextmanager
def _replaced(module: Any, given: Any, tie_weights: bool, strict: bool) -> Iterator[None]:
    """A block in which the module has other tensors; afterwards ``given`` has what the module assigned to them."""
    # Only where it is needed: modules that contain themselves have names without end.
    own = {
        name: tensor
        for named in (module.named_parameters, module.named_buffers)
        for name, tensor in (named(remove_duplicate=False) if tie_weights or strict else ())
    }
    values = _with_tied_names(given, own) if tie_weights else dict(given)
    if strict:
        _check_names(module, values, own)
    slots: dict[str, _Slot] = {}
    try:
        for name, value in values.items():
            slot = _Slot(module, name, value)
            slot.write(value)
            slots[name] = slot
        yield
    finally:
        # In reverse: of a module that is registered under two names, the second slot has seen the first one's tensor.
        assigned = {name: slot.restore() for name, slot in reversed(slots.items())}
        given.update({name: value for name, value in assigned.items() if name in given})


def _with_tied_names(given: Mapping[str, Any], own: Mapping[str, Tensor]) -> dict[str, Any]:
    """``given`` extended: a tensor of the module with several names is replaced under all of them."""
    names: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names.setdefault(id(tensor), []).append(name)
    values = dict(given)
    for name in given:
        shared = names[id(own[name])] if name in own else []
        if len({id(given[n]) for n in shared if n in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(n for n in shared if n in given)}, which are "
                "tied. Consider using tie_weights=False"
            )
        values.update(dict.fromkeys(shared, given[name]))
    return values


def _check_names(module: Any, values: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """RuntimeError unless ``values`` has the names of all of the module's tensors, and no others."""
    words = f"Error(s) in reparametrizing for {module._get_name()}:"
    found = {"Unexpected": sorted(values.keys() - own.keys()), "Missing": sorted(own.keys() - values.keys())}
    if any(found.values()):
        lists = [f"\n\t{kind} key(s): {', '.join(map(repr, names))}." for kind, names in found.items() if names]
        raise RuntimeError(words + "".join(lists))


def _submodule(module: Any, names: list[str]) -> Any:
    """A module's descendant. AttributeError and TypeError for what is none."""
    for k, name in enumerate(names):
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        module = getattr(module, name)
        if not hasattr(module, "_parameters"):
            path = ".".join(names[: k + 1])
            raise TypeError(f"submodule `{path}`: {module} is not an instance of torch.nn.Module")
    return module


class _Slot:
    """The place of one tensor in a module: a key in its parameters, its buffers or its plain attributes."""

    _NOTHING = object()

    def __init__(self, module: Any, path: str, value: Any):
        if not (value is None or isinstance(value, Tensor)):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
        *prefix, self.name = path.split(".")
        if self.name == "":
            raise KeyError('tensor name can\'t be empty string ""')
        self.owner = _submodule(module, prefix)
        stores = (self.owner._parameters, self.owner._buffers)
        self.store = next((s for s in stores if self.name in s), vars(self.owner))
        current = getattr(self.owner, self.name, None)
        if not (current is None or isinstance(current, Tensor)):
            raise TypeError(f"attribute `{self.name}`: {current} is not an instance of torch.Tensor")
        self.original = self.store.get(self.name, self._NOTHING)

    def write(self, value: Any) -> None:
        """Put a tensor there without the checks of ``setattr``: a parameter's place may get any tensor."""
        self.store[self.name] = value

    def restore(self) -> Any:
        """Put back what was there; return what is there now."""
        current = self.store.get(self.name)
        if self.original is self._NOTHING:
            self.store.pop(self.name, None)
        else:
            self.store[self.name] = self.original
        return current


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return (parameters, buffers) of modules of one class, each stacked along a new dim 0.

    For ``vmap`` of ``functional_call`` over an ensemble. Parameters are leaves that require grad where the
    modules' do. RuntimeError if the modules' classes, modes or requires_grad differ.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return (
        _stacked([dict(m.named_parameters()) for m in models]),
        _stacked([dict(m.named_buffers()) for m in models]),
    )


def _stacked(states: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    found = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        wanted = {t.requires_grad for t in tensors}
        if len(wanted) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        found[name] = stack(tensors).detach().requires_grad_(wanted.pop())
    return found
