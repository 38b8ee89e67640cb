"""Calls with sparse tensors: the slow paths of ops come here, and go on to the sparse form of what was called.

    @sparse_form("neg", "negative")
    def neg(x): ...

A form takes the arguments that users give to the function of this name; one with ``op=True`` those of the declared op.
Where an op has no form, SparseOperand is raised; a published function that is made of such ops may have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, TypeVar

from jitgrad.core.sparse import SparseOperand, SparseTensor
from jitgrad.core.tensor import Tensor

__all__ = ["among", "apply_form", "bring_forms", "form_after", "forms_later", "is_sparse",
           "sparse_form"]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
FORMS: dict[str, Callable[..., Any]] = {}  # by the name of the published function
OP_FORMS: dict[str, Callable[..., Any]] = {}  # by the name of the declared op


def sparse_form(*names: str, op: bool = False, method: bool = True) -> Callable[[F], F]:
    """Let a function be what functions (and methods) of these names do with sparse tensors."""

    def register(function: F) -> F:
        for name in names:
            (OP_FORMS if op else FORMS)[name] = function
            if method and not op and hasattr(Tensor, name):
                setattr(SparseTensor, name, function)
        return function

    return register


_modules: list[str] = []


def forms_later(*modules: str) -> None:
    """Have modules with forms imported when the first sparse tensor is made."""
    _modules.extend(modules)


def bring_forms() -> None:
    """Import the modules named to ``forms_later``; called where sparse tensors are made."""
    while _modules:
        import_module(_modules.pop())


def among(values: Iterable[Any]) -> bool:
    """Whether a sparse tensor is among values or the items of lists."""
    for value in values:
        if isinstance(value, SparseTensor):
            return True
        if isinstance(value, (list, tuple)) and value and type(value[0]) is not int and among(value):
            return True
    return False


def is_sparse(layout: Any) -> bool:
    """Whether the argument ``layout=`` of a function names a sparse one."""
    return layout is not None and layout.name.startswith("sparse_")


def apply_form(name: str, args: Sequence[Any], own: bool = True, **named: Any) -> Any:
    """The sparse form of an op on its arguments; SparseOperand if there is none.

    own: whether the published function of this name is the op's own.
    """
    bring_forms()
    form = OP_FORMS.get(name) or (FORMS.get(name) if own else None)
    if form is None:
        raise SparseOperand(name, _backend(args))
    return form(*args, **named)


def form_after(error: SparseOperand, name: str, args: Any = ()) -> Callable[..., Any]:
    """The sparse form of a published function in which an op has raised ``error``; raises it if there is none."""
    form = FORMS.get(name)
    if form is None:
        if not error.op:
            error.op, error.backend = name, _backend(args)
        raise error
    return form


def _backend(args: Iterable[Any]) -> str:
    for value in args:
        if isinstance(value, SparseTensor):
            return value._layout.backend
        if isinstance(value, (list, tuple)) and among(value):
            return _backend(value)
    return "SparseCPU"
