"""How an elementwise op is declared, and the kernels that follow from a declaration."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from . import threads
from .compiler import compile_text
from .emit import Argument, elementwise_text
from .launch import Kernel
from .rules import Rule, RuleError

__all__ = ["TABLE", "Elementwise", "elementwise_kernel", "on_declaration"]

TABLE: dict[str, type[Elementwise]] = {}
_listeners: list[Callable[[type[Elementwise]], None]] = []


def on_declaration(listener: Callable[[type[Elementwise]], None]) -> None:
    """Call ``listener`` with every op declared so far and from now on."""
    _listeners.append(listener)
    for op in tuple(TABLE.values()):
        listener(op)


class Elementwise:
    """Base of elementwise ops: a subclass with scalar rules is a complete declaration.

    ``forward(x, y, alpha=1)``: parameters without default are tensors, those with one are scalars.
    ``grad_x(g, out, x)``: the gradient for input ``x``; what it names is what is saved. An input
    without a rule gets none. Complex gradients are conjugated for ``holomorphic`` ops.
    """

    name: ClassVar[str] = ""  # public name; the class name in snake case by default
    grad_name: ClassVar[str] = ""  # the grad_fn's name; ClassName + "Backward0" by default
    kind: ClassVar[str] = "float"  # result dtype: "float", "same", "bool" or "real"
    accepts: ClassVar[str] = "bool int float complex"  # dtype categories of the inputs
    domain: ClassVar[tuple[float, float]] = (-3, 3)  # where samples are drawn
    reference: ClassVar[Callable[..., Any] | None] = None  # the same on NumPy arrays
    holomorphic: ClassVar[bool] = True
    aliases: ClassVar[tuple[str, ...]] = ()  # further public names
    operators: ClassVar[tuple[str, ...]] = ()  # Python's special methods
    function: ClassVar[bool] = True  # whether jitgrad.NAME exists
    method: ClassVar[bool] = True  # whether Tensor.NAME and Tensor.NAME_ exist
    conditions: ClassVar[tuple[str, ...]] = ()  # boolean inputs, outside type promotion
    literals: ClassVar[dict[str, tuple[float, ...]]] = {}  # scalar operands worth a kernel of their own

    inputs: ClassVar[tuple[str, ...]]
    scalars: ClassVar[dict[str, Any]]
    rule: ClassVar[Rule]
    grads: ClassVar[dict[str, Rule]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = cls.__dict__.get("name") or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        cls.grad_name = cls.__dict__.get("grad_name") or f"{cls.__name__}Backward0"
        if not (cls.__doc__ and "__doc__" in cls.__dict__):
            raise RuleError(f"{cls.__name__}: an op needs a docstring; it becomes jitgrad.{cls.name}'s")
        cls.rule = Rule(cls.__name__, cls.__dict__["forward"])
        cls.inputs = tuple(p for p in cls.rule.parameters if p not in cls.rule.defaults)
        cls.scalars = cls.rule.defaults
        cls.grads = {
            key.removeprefix("grad_"): Rule(cls.__name__, value)
            for key, value in cls.__dict__.items()
            if key.startswith("grad_") and callable(value)
        }
        cls._check_names()
        TABLE[cls.name] = cls
        for listener in tuple(_listeners):
            listener(cls)

    @classmethod
    def _check_names(cls) -> None:
        for name, rule in cls.grads.items():
            known = {"g", "out", *cls.inputs, *cls.scalars}
            if name not in cls.inputs:
                raise RuleError(f"{cls.__name__}.grad_{name}: forward has no input {name!r}; it has {cls.inputs}")
            if unknown := set(rule.parameters) - known:
                raise RuleError(f"{cls.__name__}.grad_{name}: unknown parameters {unknown}; known are {sorted(known)}")


_kernels: dict[Any, Kernel] = {}
PARALLEL_SIZE = 1 << 18


def elementwise_kernel(
    name: str, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], out_dtypes: Sequence[str],
    dtype: str, strided: bool, parallel: bool, conjugate: bool = False, device: str = "cpu",
) -> Kernel:  # fmt: skip
    """Return the kernel that evaluates ``rules`` on arrays.

    Its arguments are the input arrays, one output array per rule, the scalars and, when
    ``strided``, the collapsed shape, the strides, and the first and last row to do.
    """
    key = (name, tuple(rules), tuple(arguments), tuple(out_dtypes), dtype, strided, parallel, conjugate, device)
    if key not in _kernels:
        text = elementwise_text(name, rules, arguments, out_dtypes, dtype, strided, conjugate)
        arrays = sum(a.kind == "array" for a in arguments)
        writes = tuple(range(arrays, arrays + len(rules)))
        call = compile_text(name, text)
        if parallel:
            call = _split_rows(call) if strided else _split_flat(call, arrays + len(rules))
        _kernels[key] = Kernel(name, call, writes)
    return _kernels[key]


def _split_flat(call: Callable[..., None], arrays: int) -> Callable[..., None]:
    def split(*args: Any) -> None:
        parts = threads.spans(args[arrays - 1].size, threads.get_num_threads())
        scalars = args[arrays:]
        threads.run_together([(call, (*(a[b:e] for a in args[:arrays]), *scalars)) for b, e in parts])

    return split


def _split_rows(call: Callable[..., None]) -> Callable[..., None]:
    def split(*args: Any) -> None:
        *rest, begin, end = args
        parts = min(threads.get_num_threads(), end - begin) or 1
        edges = [begin + (end - begin) * k // parts for k in range(parts + 1)]
        threads.run_together([(call, (*rest, b, e)) for b, e in zip(edges, edges[1:], strict=False)])

    return split
