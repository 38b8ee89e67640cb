"""Guards as code: conditions under which a recording holds, compared by words of memory where that is possible.

Most of what a function reads stands in dictionaries, lists, classes and variables of enclosing functions. Those are
compared as a whole, by compiled code (kernels/program/object_words.py). Only where one of them has changed are the
conditions looked at that depend on it; if they hold all the same, the words of the changed object are expected next.
So most conditions are rarely looked at, and stay what they are, without a text: compiling that takes longer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from operator import contains, not_, truth
from types import CellType
from typing import Any, NamedTuple

from jitgrad.compiler.notes import Guard, is_scalar, same
from jitgrad.compiler.trust import ABSENT, static_attribute
from jitgrad.kernels.program import (
    Rows,
    words_of_cell,
    words_of_class,
    words_of_dict,
    words_of_list,
    words_of_own_dict,
)

__all__ = ["Attributes", "Call", "Guards", "Item", "Names", "NotReplayable", "one_each"]


class NotReplayable(Exception):
    """A recording that no program can be made of; the message says why."""


class Names:
    """Constants of a text, by the names that they have there; ``scope`` is where the text is run."""

    def __init__(self, scope: dict[str, Any]):
        self.scope = scope
        self._names: dict[int, str] = {}

    def __call__(self, value: Any) -> str:
        """The name of a constant."""
        if value is None or value is True or value is False:
            return repr(value)
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"k{len(self._names)}"
            self.scope[name] = value
        return name

    def equals(self, expression: str, value: Any) -> str:
        """The condition that an expression has a constant's value."""
        if is_scalar(value) and value is not None and not isinstance(value, bool):
            return f"({expression} is {self(value)} or same({expression}, {self(value)}))"
        return f"{expression} is {self(value)}"


class Item(NamedTuple):
    """The condition that ``container[key]`` has a constant's value."""

    container: Any
    key: Any
    value: Any

    def holds(self) -> bool:
        """Whether that is so."""
        return same(self.container[self.key], self.value)

    def text(self, name: Names) -> str:
        """It as an expression."""
        return name.equals(f"{name(self.container)}[{name(self.key)}]", self.value)


class Attributes(NamedTuple):
    """The condition that attributes of ``obj`` have constant values."""

    obj: Any
    names: tuple[str, ...]
    values: tuple[Any, ...]

    def holds(self) -> bool:
        """Whether that is so."""
        return all(same(getattr(self.obj, n), v) for n, v in zip(self.names, self.values, strict=True))

    def text(self, name: Names) -> str:
        """It as an expression."""
        pairs = zip(self.names, self.values, strict=True)
        return " and ".join(name.equals(f"{name(self.obj)}.{n}", v) for n, v in pairs)


class Contents(NamedTuple):
    """The condition that a container has these items, or a dictionary these pairs of key and value, in this order."""

    container: Any
    items: tuple[Any, ...]

    def holds(self) -> bool:
        """Whether that is so."""
        here = self.container
        if len(here) != len(self.items):
            return False
        if isinstance(here, dict):
            return all(same(k, a) and same(v, b) for (k, v), (a, b) in zip(here.items(), self.items, strict=True))
        return all(map(same, here, self.items))

    def text(self, name: Names) -> str:
        """It as an expression."""
        return f"{name(self.holds)}()"


class Call(NamedTuple):
    """The condition that a function of these constants returns what counts as true."""

    function: Callable[..., Any]
    args: tuple[Any, ...]

    def holds(self) -> bool:
        """Whether that is so."""
        return bool(self.function(*self.args))

    def text(self, name: Names) -> str:
        """It as an expression."""
        return f"{name(self.function)}({', '.join(map(name, self.args))})"


def _lacks(container: Any, key: Any) -> bool:
    return key not in container


def _has_static(cls: type, name: str, value: Any) -> bool:
    return static_attribute(cls, name) is value


def _is_float_at(container: Any, key: Any) -> bool:
    return type(container[key]) is float


Condition = Item | Attributes | Contents | Call


class _Group:
    """The conditions that depend on one dictionary, list, cell or class.

    owner: the object of whose attributes a dictionary is the ``__dict__``, if that is what counts.
    live: (key of a live number, key in the dictionary). alive: what is known by its address as long as it is expected.
    """

    __slots__ = ("alive", "conditions", "live", "obj", "owner", "texts")  # a step of a network has hundreds of groups

    def __init__(self, obj: Any, owner: Any = None):
        self.obj, self.owner, self.conditions = obj, owner, list[Condition]()
        self.texts: tuple[str, ...] = ()
        self.live: tuple[tuple[Any, Any], ...] = ()
        self.alive: Any = None

    def words(self) -> tuple[Any, Any]:
        """What stays as it is while the object does, None where that can't be told; what has to live meanwhile."""
        if self.owner is not None:
            return words_of_own_dict(self.owner), None
        if isinstance(self.obj, OrderedDict) and any(type(c) is Contents for c in self.conditions):
            return None, None  # its order changes without it getting another version
        if isinstance(self.obj, CellType):
            value = self.obj.cell_contents
            return words_of_cell(self.obj, value), value
        if isinstance(self.obj, type):
            return words_of_class(self.obj), None
        if isinstance(self.obj, dict):
            return words_of_dict(self.obj), None
        items = tuple(self.obj) if type(self.obj) is list else ()
        return words_of_list(self.obj, items), items


class Guards:
    """The guards of a recording; ``hold()`` is whether they do, which need be asked only if ``rows`` have changed."""

    def __init__(
        self, guards: Iterable[Guard], live: dict[Any, tuple[Any, Any]], name: Names,
        set_number: Callable[[Any, float], None],
    ):  # fmt: skip
        """live: {key of a live number: (dictionary, its key)}, which ``set_number(key, number)`` is told of."""
        self.name, self.set_number = name, set_number
        self.always: list[str] = []  # conditions that are looked at in each call
        self._groups: dict[int, _Group] = {}  # by id of what conditions depend on
        self._own: dict[int, _Group] = {}  # by id of that whose attributes they depend on
        for guard in guards:
            self._add(guard)
        for key, (obj, item) in live.items():
            self._group(obj).live += ((key, item),)

    def _group(self, obj: Any) -> _Group:
        group = self._groups.get(id(obj))
        if group is None:
            group = self._groups[id(obj)] = _Group(obj)
        return group

    def depends(self, obj: Any, condition: str | Condition) -> None:
        """Add a condition that can only change when ``obj`` does."""
        self._to_group(self._group(obj), condition)

    def depends_on_own(self, owner: Any, condition: str | Condition | None = None) -> None:
        """Add a condition that can only change when an attribute in ``vars(owner)`` does, or that is exchanged."""
        group = self._own.get(id(owner))
        if group is None:
            group = self._own[id(owner)] = _Group(vars(owner), owner)
        if condition is not None:
            self._to_group(group, condition)

    def depends_on_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Add the condition that an attribute in ``vars(owner)`` has a value; ABSENT: that there is none."""
        own = vars(owner)
        self.depends_on_own(owner, Call(_lacks, (own, name)) if value is ABSENT else Item(own, name, value))

    def _to_group(self, group: _Group, condition: str | Condition) -> None:
        if not isinstance(condition, str):
            group.conditions.append(condition)
        elif condition not in group.texts:
            group.texts += (condition,)

    def _add(self, guard: Guard) -> None:
        kind, obj, key, value = guard
        if kind == "attr":
            self._add_attribute(obj, key, value)
        elif kind == "item":
            self.depends(obj, Item(obj, key, value))
        elif kind == "has":
            self.depends(obj, Call(contains if value else _lacks, (obj, key)))
        elif kind == "cell":
            self.depends(obj, Attributes(obj, ("cell_contents",), (value,)))
        elif kind == "lacks":
            self.depends_on_attribute(obj, key, ABSENT)
        elif kind == "static":
            self.depends(obj, Call(_has_static, (obj, key, value)))
        elif kind == "absent":
            self.always.append(f"not {self.name(hasattr)}({self.name(obj)}, {self.name(key)})")
        elif kind == "kept":
            call = f"{self.name(obj)}(*{self.name(key[0])}, **{self.name(dict(key[1]))})"
            self.always.append(self.name.equals(call, value))
        elif kind == "empty":
            self.depends(obj, Call(not_ if value else truth, (obj,)))
        elif kind == "float":
            self.depends(obj, Call(_is_float_at, (obj, key)))
        else:
            self.depends(obj, Contents(obj, value))

    def _add_attribute(self, obj: Any, key: str, value: Any) -> None:
        if not is_scalar(value) and getattr(obj, key) is not value:
            raise NotReplayable(f"{key} of a {type(obj).__name__} is another object each time that it is read")
        own = getattr(obj, "__dict__", None)
        if key == "__dict__":
            self.depends_on_own(obj)
        elif isinstance(own, dict) and key in own:
            self.depends_on_attribute(obj, key, value)
        else:
            self.always.append(self.name.equals(f"{self.name(obj)}.{key}", value))

    def finish(self) -> None:
        """Make the functions, after the last condition was added."""
        names, lines = self.name, list[str]()
        groups: list[_Group] = []
        rows: list[Any] = []
        for group in (*self._groups.values(), *self._own.values()):
            words, _ = group.words()
            if words is None:
                self.always += [*(c.text(names) for c in group.conditions), *group.texts]
                here = names(group.obj)
                if group.owner is not None:
                    self.always.append(f"{names(group.owner)}.__dict__ is {here}")
                self.always += [f"set_number({names(k)}, {here}[{names(i)}]) is None" for k, i in group.live]
            else:
                if group.texts:
                    lines.append(f"def group{len(groups)}(): return {' and '.join(group.texts)}")
                # Other words than there are: the run has changed things since they were read, so the first call looks
                # at all.
                rows.append([(at, offset, ~word) for at, offset, word in words])
                groups.append(group)
        names.scope |= {"same": same, "set_number": self.set_number}
        if lines:
            exec(compile("\n".join(lines), "<jitgrad guards>", "exec"), names.scope)
        self._texts = [names.scope.get(f"group{k}") for k in range(len(groups))]
        self._watched = groups
        self._groups.clear()
        self._own.clear()
        self.rows = Rows(rows)

    def _holds(self, number: int) -> bool:
        text, group = self._texts[number], self._watched[number]
        if group.owner is not None and vars(group.owner) is not group.obj:
            return False
        return all(c.holds() for c in group.conditions) and (text is None or text())

    def hold(self) -> bool:
        """Whether the conditions hold that depend on what has changed; live numbers among that are set anew."""
        changed = self.rows.unlike()
        try:
            while changed >= 0:
                group = self._watched[changed]
                # Before the conditions: a change by another thread meanwhile is seen next time.
                words, alive = group.words()
                if not self._holds(changed):
                    return False
                for key, item in group.live:
                    self.set_number(key, group.obj[item])
                if len(words) != self.rows.length(changed):
                    return False
                self.rows.expect(changed, words)
                group.alive = alive
                changed = self.rows.unlike(changed + 1)
        except (AttributeError, KeyError, IndexError, ValueError, TypeError):
            return False
        return True


def one_each(names: Sequence[str], others: str) -> list[str]:
    """Lines that refuse one tensor in the place of two: for two arguments, or for one and what is there already.

    others: the set of the ids of that, "" if there is nothing.
    """
    conditions = [f"{one} is {other}" for k, one in enumerate(names) for other in names[k + 1 :]]
    if len(names) > 3:
        conditions = [f"len({{{', '.join(f'id({n})' for n in names)}}}) < {len(names)}"]
    conditions += [f"id({n}) in {others}" for n in names if others]
    return [f"if {' or '.join(conditions)}: return MISS"] if conditions else []
