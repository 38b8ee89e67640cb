"""Results of a function that share memory: they count writes together, and views know what they are views of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from jitgrad.compiler.guards import NotReplayable
from jitgrad.core.inference import is_inference
from jitgrad.core.storage import UNWRITTEN
from jitgrad.core.tensor import Tensor

__all__ = ["Families", "families_of"]


class Families:
    """``together``: by id, the counters of several results; ``related`` results that have views among them.

    Also related is a view to which writes can't be recorded.
    """

    def __init__(self, together: set[int], related: set[int]):
        self.together, self.related = together, related
        self._first: dict[int, str] = {}

    def lines(self, variable: str, tensor: Tensor, base_of: Callable[[Tensor], str]) -> list[str]:
        """Lines that say of the tensor made anew as ``variable`` what it has in common with others.

        base_of: the variable of a base, made now if it is not there.
        """
        found, key = [], id(tensor._counter)
        if key in self.together and not is_inference(tensor):
            first = self._first.setdefault(key, variable)
            value = f"[{tensor._counter[0]}]" if first == variable else f"{first}._counter"
            found.append(f"{variable}._counter = {value}")
        if id(tensor) in self.related and tensor._base is not None:
            base = base_of(tensor._base)
            if tensor._base._requires_grad:
                found.append(f"{base}._requires_grad = False")  # its history is nowhere asked for
            found.append(f"{variable}._base, {variable}._view_kind = {base}, {tensor._view_kind!r}")
            if tensor._layout.dtype.category >= 2:
                found.append(f"{base}._views = [*({base}._views or ()), reference({variable})]")
        return found


def families_of(results: Sequence[Tensor]) -> Families:
    """The families of new results. NotReplayable where a write to one would change the history of another."""
    every = list({id(r): r for r in results}.values())
    sizes = Counter(_family(r) for r in every)
    several = [r for r in every if sizes[_family(r)] > 1]
    # Nobody may write to a view of several outputs, as ``chunk`` makes, so that of them no history is changed.
    safe = {_family(r) for r in every if r._view_kind == "multi"} - {id(r) for r in every}
    unsafe = [r for r in several if _family(r) not in safe]
    if any(r._requires_grad or (r._base is not None and r._base._requires_grad) for r in unsafe):
        raise NotReplayable("it returns a view of another of its results, and gradients flow through them")
    related = [r for r in every if sizes[_family(r)] > 1 or r._view_kind]
    counters = [r._counter for r in (*every, *{id(r._base): r._base for r in related if r._base is not None}.values())]
    shared = Counter(id(c) for c in counters if c is not UNWRITTEN)
    return Families({key for key, count in shared.items() if count > 1}, {id(r) for r in related})


def _family(tensor: Tensor) -> int:
    return id(tensor if tensor._base is None else tensor._base)
