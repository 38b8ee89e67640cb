"""The unpickler of ``weights_only=True``: it makes tensors, numbers, texts and containers, and calls nothing else.

A pickle is a program for a small machine with a stack. This machine knows the few instructions that checkpoints are
written with, and of what a pickle can name, only what is in a table: nothing is imported, and no attribute is looked
up. What is called are PyTorch's functions that make tensors, and a few classes, whose arguments are looked at before.
Every error is an UnpicklingError (or EOFError, for a pickle that ends too early), in PyTorch's words.
"""

from __future__ import annotations

import warnings
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pickle import UnpicklingError, decode_long
from struct import unpack
from types import FunctionType
from typing import Any

from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.memory.pickled import OWN_NAMES
from jitgrad.ops.memory.rebuild import TORCH_NAMES, _rebuild_tensor
from jitgrad.serialization.allow_list import CALLED, FACTORIES, allowed_globals, brief, check_key, user_globals
from jitgrad.serialization.names import import_late

__all__ = ["Unpickler", "globals_of"]

BLOCKED = ("sys", "os", "posix", "nt")  # whose names are refused though a program has allowed them

# -- the machine ------------------------------------------------------------------------------------

_NESTED = ("torch.nested._internal.nested_tensor.NestedTensor", "torch.nested._internal.nested_tensor._rebuild_njt",
           "torch._dynamo.decorators._DimRange")  # fmt: skip
_PROTOCOL = (
    "Detected pickle protocol {} in the checkpoint, which was not the default pickle protocol used by `torch.load` "
    "(2). The weights_only Unpickler might not support all instructions implemented by this protocol, please file an "
    "issue for adding support if you encounter this."
)


class Unpickler:
    """Reads one pickle from a file, as ``pickle.Unpickler`` does; and nothing else."""

    def __init__(self, file: Any, *, encoding: str = "bytes"):
        self.encoding = encoding
        self._file = file
        self.memo: dict[int, Any] = {}
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self._outside = False  # while code of the caller's runs, whose errors are its own

    def load(self) -> Any:
        """The value of the pickle; UnpicklingError, or EOFError where it ends too early."""
        try:
            while True:
                code = self._take(1)[0]
                step = _STEPS.get(code)
                if step is None:
                    raise UnpicklingError(f"Unsupported operand {code}")
                if step is _stop:
                    return self.stack.pop()
                step(self)
        except (IndexError, KeyError, UnicodeError, OverflowError, AttributeError, RecursionError,
                MemoryError) as error:  # fmt: skip
            if self._outside:
                raise
            raise UnpicklingError(f"the pickle makes no sense ({type(error).__name__}: {error})") from None

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the file means; UnpicklingError if it is not allowed."""
        path = f"{module}.{name}"
        if module in BLOCKED:
            raise UnpicklingError(f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked.")
        import_late(module, name)
        for allowed in (allowed_globals(), user_globals(), FACTORIES):
            if path in allowed:
                return allowed[path]
        if path in _NESTED:
            raise UnpicklingError(
                "``torch.nested`` and ``torch._dynamo`` must be imported to load nested jagged tensors (NJTs)"
            )
        if path.startswith("torch.distributed."):
            raise UnpicklingError("``torch.distributed.tensor`` must be imported to load DTensors")
        path = path.removeprefix("builtins.")
        raise UnpicklingError(
            f"Unsupported global: GLOBAL {path} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{path}])` or the `torch.serialization.safe_globals([{path}])` "
            "context manager to allowlist this global if you trust this class/function."
        )

    def persistent_load(self, place: Any) -> Any:
        """What is kept outside of the pickle, by the name that it has there; set by who knows."""
        raise UnpicklingError("unsupported persistent id encountered")

    # -- reading --

    def _take(self, count: int) -> bytes:
        content = self._file.read(count)
        if len(content) < count:
            raise EOFError("Ran out of input")
        return content

    def _line(self) -> str:
        line = self._file.readline()
        if line[-1:] != b"\n":
            raise EOFError("Ran out of input")
        return line[:-1].decode("utf-8")

    def read_global(self) -> tuple[str, str]:
        """The module and the name of a GLOBAL; those of Python 2 as Python 3's."""
        module, name = self._line(), self._line()
        if (module, name) in NAME_MAPPING:
            return NAME_MAPPING[(module, name)]
        return IMPORT_MAPPING.get(module, module), name

    def _marked(self) -> list[Any]:
        items, self.stack = self.stack, self.marks.pop()
        return items

    # -- making --

    def _allowed(self, value: Any) -> bool:
        return _same(value, allowed_globals()) or _same(value, user_globals())

    def _call(self, function: Any, args: Any) -> Any:
        if type(args) is not tuple:
            raise UnpicklingError(f"the arguments of {brief(function)} are no tuple")
        function = function if _same(function, user_globals()) else CALLED.get(function, function)
        if getattr(function, "__name__", "").startswith("_rebuild_from_type"):
            self._check_rebuilt(*args)
        try:
            return function(*args)
        except (TypeError, ValueError, AssertionError) as error:
            raise UnpicklingError(f"{getattr(function, '__name__', function)}: {error}") from None

    def _check_rebuilt(self, function: Any, kind: Any, args: Any, state: Any) -> None:
        """The call within a call that makes a tensor of a subclass, or with attributes."""
        if not (isinstance(kind, type) and issubclass(kind, Tensor) and self._allowed(kind)):
            raise UnpicklingError(f"Can only rebuild tensors of allowed classes, but got {brief(kind)}")
        name = TORCH_NAMES[function][1] if isinstance(function, FunctionType) and function in TORCH_NAMES else ""
        if not name.startswith("_rebuild") or name.startswith("_rebuild_from_type"):
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {brief(function)}")

    def reduce(self) -> None:
        """Call what is on the stack."""
        args = self.stack.pop()
        function = self.stack[-1]
        if not self._allowed(function):
            about = f" which belongs to {function.__self__}" if hasattr(function, "__self__") else ""
            what = brief(function) if isinstance(function, (tuple, list, dict, set)) else function
            raise UnpicklingError(f"Trying to call reduce for unrecognized function {what}{about}")
        self.stack[-1] = self._call(function, args)

    def new(self) -> None:
        """Make an object of an allowed class, without its ``__init__``."""
        args = self.stack.pop()
        kind = self.stack.pop()
        if kind is Parameter:
            self.stack.append(self._call(kind, args))
        elif isinstance(kind, type) and _same(kind, user_globals()):
            self.stack.append(kind.__new__(kind, *args))
        elif kind in (Size, set, OrderedDict, Counter):
            self.stack.append(self._call(kind, args))
        else:
            raise UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
                f"{kind}"
            )

    def build(self) -> None:
        """Give the object on the stack its state."""
        state = self.stack.pop()
        made = self.stack[-1]
        kind = type(made)
        if kind is Tensor:  # of very old files
            self._call(Tensor.set_, (made, self._call(_rebuild_tensor, state)))
        elif kind in (OrderedDict, Counter):
            made.__dict__.update(state)
        elif _same(kind, user_globals()):
            _set_state(made, state)
        elif kind is Parameter:  # of old files: (data, requires_grad, hooks)
            data, requires_grad = state[:2]
            made.data, made.requires_grad = data, requires_grad
        else:
            raise UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
                f"{kind}"
            )

    def append(self, items: list[Any], what: str) -> None:
        """Add to the list on the stack."""
        if type(self.stack[-1]) is not list:
            raise UnpicklingError(f"Can only {what} lists, but got {type(self.stack[-1])}")
        self.stack[-1].extend(items)

    def set_items(self, items: list[Any], code: str) -> None:
        """Add [key, value, ...] to the dict on the stack."""
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter, defaultdict):
            raise UnpicklingError(
                f"Can only {code} for dict, collections.OrderedDict, collections.Counter, but got {type(target)}"
            )
        try:
            for key, value in zip(items[::2], items[1::2], strict=True):
                target[check_key(key) if isinstance(key, tuple) else key] = value
        except (TypeError, ValueError) as error:
            raise UnpicklingError(f"the keys and values of a dict make no sense: {error}") from None

    def persistent(self) -> None:
        """Read a storage, which is outside of the pickle."""
        place = self.stack.pop()
        if type(place) not in (tuple, int):
            raise UnpicklingError(f"persistent_load id must be tuple or int, but got {type(place)}")
        if type(place) is tuple and place and not (
            isinstance(place[0], (str, bytes)) and place[0] in ("storage", b"storage")
        ):
            raise UnpicklingError(f"Only persistent_load of storage is allowed, but got {type(place[0])}")
        self._outside = True
        self.stack.append(self.persistent_load(place))
        self._outside = False


def _same(value: Any, allowed: dict[str, Any]) -> bool:
    """Whether a value is one of these itself: ``==`` would be a question to the value."""
    return any(value is item for item in allowed.values())


def _set_state(made: Any, state: Any) -> None:
    """What ``pickle`` does with the state of an object."""
    if getattr(made, "__setstate__", None) is not None:
        made.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if isinstance(made, Tensor) and OWN_NAMES & {*(state or ()), *(slots or ())}:
        raise UnpicklingError("a file may not set what is a tensor's own")
    if state:
        made.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(made, name, value)


def _stop(machine: Unpickler) -> None:
    """The end of the pickle."""


def _push(make: Callable[[Unpickler], Any]) -> Callable[[Unpickler], None]:
    def step(m: Unpickler) -> None:
        value = make(m)  # which may exchange the stack
        m.stack.append(value)

    return step


def _mark(m: Unpickler) -> None:
    m.marks.append(m.stack)
    m.stack = []


def _tuple(count: int) -> Callable[[Unpickler], None]:
    def step(m: Unpickler) -> None:
        if len(m.stack) < count:
            raise IndexError("the stack is empty")
        m.stack[-count:] = [tuple(m.stack[-count:])]

    return step


def _short_string(m: Unpickler) -> Any:
    content = m._take(m._take(1)[0])
    return content if m.encoding == "bytes" else content.decode(m.encoding, "strict")


def _remember(read: Callable[[Unpickler], int]) -> Callable[[Unpickler], None]:
    def step(m: Unpickler) -> None:
        m.memo[read(m)] = m.stack[-1]

    return step


def _protocol(m: Unpickler) -> None:
    number = m._take(1)[0]
    if number != 2:
        warnings.warn(_PROTOCOL.format(number), UserWarning, stacklevel=2)


def _byte(m: Unpickler) -> int:
    return m._take(1)[0]


def _word(m: Unpickler) -> int:
    return unpack("<I", m._take(4))[0]


def _text(m: Unpickler) -> str:
    return m._take(_word(m)).decode("utf-8", "surrogatepass")


def _item(m: Unpickler) -> None:
    value = m.stack.pop()
    key = m.stack.pop()
    m.set_items([key, value], "SETITEM")


_STEPS: dict[int, Callable[[Unpickler], None]] = {ord(code): step for code, step in {
    ".": _stop, "(": _mark, "\x80": _protocol, "Q": Unpickler.persistent, "R": Unpickler.reduce,
    "\x81": Unpickler.new, "b": Unpickler.build,
    "c": _push(lambda m: m.find_class(*m.read_global())),
    "N": _push(lambda m: None), "\x88": _push(lambda m: True), "\x89": _push(lambda m: False),
    "]": _push(lambda m: []), "}": _push(lambda m: {}), ")": _push(lambda m: ()), "\x8f": _push(lambda m: set()),
    "J": _push(lambda m: unpack("<i", m._take(4))[0]), "K": _push(_byte),
    "M": _push(lambda m: unpack("<H", m._take(2))[0]), "G": _push(lambda m: unpack(">d", m._take(8))[0]),
    "\x8a": _push(lambda m: decode_long(m._take(_byte(m)))), "X": _push(_text), "U": _push(_short_string),
    "t": _push(lambda m: tuple(m._marked())), "\x85": _tuple(1), "\x86": _tuple(2), "\x87": _tuple(3),
    "h": _push(lambda m: m.memo[_byte(m)]), "j": _push(lambda m: m.memo[_word(m)]),
    "q": _remember(_byte), "r": _remember(_word),
    "a": lambda m: m.append([m.stack.pop()], "append to"), "e": lambda m: m.append(m._marked(), "extend"),
    "s": _item, "u": lambda m: m.set_items(m._marked(), "SETITEMS"),
}.items()}  # fmt: skip


def globals_of(file: Any) -> set[str]:
    """The full names of all that a pickle names, without making anything; the same instructions are known."""
    found: set[str] = set()

    class Reader(Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found.add(f"{module}.{name}")

        reduce = new = build = persistent = lambda self: None

    machine = Reader(file)
    skipped: dict[int, Callable[[Unpickler], None]] = {ord("c"): lambda m: m.find_class(*m.read_global())}
    arguments = {"\x80": 1, "J": 4, "K": 1, "M": 2, "G": 8, "h": 1, "j": 4, "q": 1, "r": 4}
    skipped |= {ord(code): lambda m, n=n: m._take(n) for code, n in arguments.items()}  # type: ignore[misc]
    skipped |= {ord("X"): _text, ord("U"): _short_string, ord("\x8a"): _short_string}  # type: ignore[dict-item]
    while (code := machine._take(1)[0]) != ord("."):
        if code not in _STEPS:
            raise UnpicklingError(f"Unsupported operand {code}")
        skipped.get(code, lambda m: None)(machine)
    return found


