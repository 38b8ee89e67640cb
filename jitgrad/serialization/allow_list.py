"""What a file may name that is read with ``weights_only=True``: a table of PyTorch's names, and what programs add."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.device import device
from jitgrad.core.layout import Size
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.registry import FUNCTIONS
from jitgrad.nn.parameter import Parameter
from jitgrad.ops.memory.rebuild import TORCH_NAMES
from jitgrad.ops.memory.storage import UntypedStorage
from jitgrad.ops.memory.typed_storage import TypedStorage, storage_dtype
from jitgrad.serialization.names import StorageType

__all__ = ["add_safe_globals", "allowed_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

_KEY_NODES = 10_000  # parts of a key of a dict: hashing nested tuples that repeat each other could take for ever

# -- what programs allow ----------------------------------------------------------------------------

_safe: list[Any] = []


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow functions and classes in files that are read with ``weights_only=True``: they are called, and made.

    An item is a function or class, or (function or class, the full name that files have for it).
    """
    _safe.extend(item for item in safe_globals if item not in _safe)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was given."""
    _safe.clear()


class safe_globals:
    """A context in which these functions and classes are allowed, too; see `add_safe_globals`."""

    def __init__(self, safe_globals: list[Any]):
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: Any) -> None:
        _safe[:] = [item for item in _safe if item not in self.safe_globals]


def user_globals() -> dict[str, Any]:
    """{full name: function or class} of what programs allow."""
    found: dict[str, Any] = {}
    for item in _safe:
        if not isinstance(item, tuple):
            name = f"{item.__module__}.{item.__qualname__}"
            found[name] = item
            if name.startswith("jitgrad."):  # which files name by PyTorch's name
                found["torch" + name.removeprefix("jitgrad")] = item
            continue
        if len(item) != 2:
            raise ValueError(
                f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(item)}"
            )
        if type(item[1]) is not str:
            raise TypeError(f"Expected second item in tuple to be str of callable full path, but got: {type(item[1])}")
        found[item[1]] = item[0]
    return found


# -- what is allowed always -------------------------------------------------------------------------


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """``_codecs.encode``, which stands for bytes in protocol 2."""
    if type(text) is not str or encoding not in ("latin1", "latin-1", "utf-8", "utf8", "ascii"):
        raise UnpicklingError(f"Trying to encode {type(text).__name__} with {brief(encoding)}: only bytes are made so")
    return text.encode(encoding)


def _bytearray(*args: Any) -> bytearray:
    """A number would be a size, to be allocated."""
    if any(type(a) not in (bytes, str) for a in args):
        raise UnpicklingError("Can only make a bytearray of bytes")
    return bytearray(*args)


def _tensor(*args: Any) -> Tensor:
    """``torch.Tensor()``, of very old files, which set the storage afterwards."""
    if args:
        raise UnpicklingError("Can only make a Tensor without arguments")
    return FUNCTIONS["empty"](0)


# Builtin classes that a file may name, as what a defaultdict makes; they are not called.
FACTORIES: dict[str, Any] = {f"builtins.{kind.__name__}": kind for kind in (int, float, list, dict, str, tuple, bool)}


def _defaultdict(*args: Any) -> defaultdict[Any, Any]:
    """Of such classes only."""
    if args and args[0] not in (None, set, *FACTORIES.values()):
        raise UnpicklingError(f"Can only make a defaultdict of a builtin class, but got {brief(args[0])}")
    return _hashing(defaultdict)(*args)


def _hashing(kind: Any) -> Callable[..., Any]:
    """A class whose argument's items, or the keys of whose pairs, are hashed."""

    def make(*args: Any) -> Any:
        for arg in args:
            for item in arg if isinstance(arg, (list, tuple)) else ():
                check_key(tuple(item) if isinstance(item, list) else item)
        return kind(*args)

    return make


_made: dict[str, Any] = {}
_COUNT = "\n"  # no name of a file's
# What is called in the place of a class of the table.
CALLED: dict[Any, Callable[..., Any]] = {
    bytearray: _bytearray, Tensor: _tensor, defaultdict: _defaultdict,
    **{kind: _hashing(kind) for kind in (set, OrderedDict, Counter)},
}  # fmt: skip


def allowed_globals() -> dict[str, Any]:
    """{full name in files: what it means} of what needs no permission."""
    if _made.get(_COUNT) != len(TORCH_NAMES):  # other kinds of tensors may have come since
        _made.update({
            _COUNT: len(TORCH_NAMES),
            "collections.OrderedDict": OrderedDict, "collections.Counter": Counter,
            "collections.defaultdict": defaultdict, "torch.nn.parameter.Parameter": Parameter, "torch.Size": Size,
            "torch.Tensor": Tensor, "torch.device": device, "_codecs.encode": _encode,
            "builtins.bytearray": bytearray, "builtins.set": set, "builtins.complex": complex,
            "torch.storage.TypedStorage": TypedStorage, "torch.storage.UntypedStorage": UntypedStorage,
            **{f"torch.{d.name}": d for d in dtypes.all_dtypes()},
            **{f"torch.{d.title}Tensor": _tensor for d in dtypes.all_dtypes()},
        })  # fmt: skip
        for d in dtypes.all_dtypes():
            try:
                storage_dtype(f"{d.title}Storage")
            except KeyError:
                continue
            _made[f"torch.{d.title}Storage"] = StorageType(f"{d.title}Storage")
        _made.update({f"{m}.{n}": f for f, (m, n) in TORCH_NAMES.items() if m in ("torch._utils", "torch._tensor")})
        _made["torch.serialization._get_layout"] = _named_function("_get_layout")
    return _made


def _named_function(name: str) -> Any:
    return next(f for f, (_, n) in TORCH_NAMES.items() if n == name)


def brief(value: Any) -> str:
    """A value in an error: a container by its class, since one that repeats its parts could have an endless text."""
    return f"a {type(value).__name__}" if isinstance(value, (tuple, list, dict, set)) else f"{value!r:.100}"


def check_key(key: Any) -> Any:
    """Refuse a key whose hash would visit more parts than a checkpoint's has."""
    count, rest = 0, [key]
    while rest:
        item = rest.pop()
        count += 1
        if isinstance(item, tuple):
            rest.extend(item)
        if count > _KEY_NODES:
            raise UnpicklingError("A key of a dict is a tuple of too many parts")
    return key
