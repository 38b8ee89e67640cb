"""What of a stretch's results can't cross the border behind it, since a run could not leave the same there."""

from __future__ import annotations

from typing import Any

from jitgrad.compiler.addresses import root_of
from jitgrad.compiler.notes import is_scalar
from jitgrad.compiler.parts import Cut, Stretch
from jitgrad.compiler.recording import Recording
from jitgrad.core.tensor import Tensor
from jitgrad.func.tree import leaves_of
from jitgrad.kernels.program import Ranges, extent_of

__all__ = ["obstacle"]


def obstacle(made: Recording, stretch: Stretch) -> tuple[str, Cut] | None:
    """Why the results of a recorded run can't be those of a program, and where to cut so that they need not."""
    named = _named(made, stretch)
    odd = [name for name, value in named.items() if _is_odd(value)]
    if odd:
        return f"{odd[0]} is a {type(named[odd[0]]).__name__}", Cut(assigned=frozenset(odd))
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    new = {name: t for name, t in tensors.items() if id(t) not in made.notes.tensors}
    views = _views(made, new)
    if views:
        return f"{views[0]} is a view of another tensor", Cut(assigned=frozenset(views))
    found = {id(t): t for t in leaves_of(made.result) if isinstance(t, Tensor) and id(t) not in made.notes.tensors}
    alive = {key for key, t in found.items() if made.has_graph(t)}
    if len(alive) + sum(made.is_behind(t, r) for t in found.values() if t._edge is None for r in found.values()) < 2:
        return None
    # One node would stand for all of them: it frees all at once, and gradients don't flow from one to another.
    apart = [name for name, t in new.items() if t._requires_grad]
    return f"{len(alive)} of its results have a graph", Cut(behind=frozenset(apart))


def _named(made: Recording, stretch: Stretch) -> dict[str, Any]:
    """The results by the names of the variables that they are of."""
    value = made.result
    if stretch.ends:
        ended, value = value
        if ended:
            return {}
    if len(stretch.results) < 2:
        return dict.fromkeys(stretch.results, value)
    return dict(zip(stretch.results, value, strict=True))


def _is_odd(value: Any) -> bool:
    """Whether a value has to stay the very object that it is."""
    if type(value) is tuple:
        return any(map(_is_odd, value))
    return not (isinstance(value, Tensor) or is_scalar(value))


def _views(made: Recording, new: dict[str, Tensor]) -> list[str]:
    """Names of tensors on memory of what is outside, or of another result; writes to one are seen in the other."""
    outside = Ranges(extent_of(n.data) for n in made.notes.tensors.values() if n.layout.numel)
    owners: dict[int, Tensor] = {}
    found = []
    for name, tensor in sorted(new.items(), key=lambda pair: _is_view(pair[1])):
        root: Any = root_of(tensor._data)
        if outside.meets(*extent_of(root)) or owners.setdefault(id(root), tensor) is not tensor:
            found.append(name)
    return found


def _is_view(tensor: Tensor) -> bool:
    return tensor._base is not None
