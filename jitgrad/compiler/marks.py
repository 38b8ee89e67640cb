"""``torch.compiler``'s marks and switches for PyTorch's compiler. jitgrad's needs none of them: they have no effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jitgrad.core.absent import absent

__all__ = [
    "allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "get_default_backend",
    "is_dynamo_compiling", "is_exporting", "list_backends", "load_compiled_function", "nested_compile_region",
    "save_cache_artifacts", "set_default_backend", "set_enable_guard_collectives", "set_stance", "substitute_in_graph",
    "wrap_numpy",
]  # fmt: skip

T = TypeVar("T")


def allow_in_graph(fn: T) -> T:
    """``fn`` itself."""
    return fn


def assume_constant_result(fn: T) -> T:
    """``fn`` itself."""
    return fn


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """``fn`` itself; without it a decorator that gives the function back."""
    return allow_in_graph if fn is None else fn


def wrap_numpy(fn: T) -> T:
    """NotImplementedError: functions of arrays are not compiled; take tensors."""
    raise NotImplementedError("torch.compiler.wrap_numpy: jitgrad.compile compiles functions of tensors")


def substitute_in_graph(original_fn: Any, **options: Any) -> Callable[[T], T]:
    """A decorator that gives the function back."""
    return allow_in_graph


def is_dynamo_compiling() -> bool:
    """Whether PyTorch's compiler reads this code: never."""
    return False


def is_exporting() -> bool:
    """Whether code is being exported: never."""
    return False


def list_backends(exclude_tags: Sequence[str] = ()) -> list[str]:
    """The names of compilers that ``compile(backend=...)`` takes: it takes any, and uses jitgrad's."""
    return ["jitgrad"]


class set_stance:
    """``force_eager`` and the like, as a call, block or decorator; it has no effect."""

    def __init__(self, stance: str = "default", **options: Any):
        self.stance = stance

    def __call__(self, fn: T) -> T:
        return fn

    def __enter__(self) -> None:
        """Nothing is switched."""

    def __exit__(self, *error: Any) -> None:
        """Nothing was switched."""


_backend: list[Any] = ["jitgrad"]


def get_default_backend() -> Any:
    """What ``set_default_backend`` was given."""
    return _backend[0]


def set_default_backend(backend: Any = None) -> None:
    """Remember a name, which has no effect."""
    _backend[0] = backend or "jitgrad"


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Nothing: there is one process."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Nothing."""


def save_cache_artifacts() -> None:
    """None: kernels are on disk already (``python -m jitgrad cache``)."""


load_compiled_function = absent("jitgrad.compiler", "load_compiled_function", "compiled functions live in a process")
