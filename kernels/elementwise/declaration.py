"""How an elementwise op is declared, and the kernels that follow from a declaration."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jitgrad.kernels.codegen.emit_cpu import Argument, elementwise_text
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.compiler import compile_text
from jitgrad.kernels.cuda import provider as cuda
from jitgrad.kernels.elementwise.declaration_checks import (
    check_attributes,
    check_gradients,
    check_names,
    check_parameters,
)  # fmt: skip
from jitgrad.kernels.launch import Kernel
from jitgrad.kernels.past_caches import STREAMED_BYTES
from jitgrad.kernels.split_call import CUT, FIRST, LAST, SplitCall
from jitgrad.kernels.words import WORDS
from jitgrad.kernels.words.syntax import ships_with_jitgrad

__all__ = [
    "TABLE", "Elementwise", "ElementwiseKernel", "StridedKernel", "elementwise_kernel", "on_declaration", "split_size",
    "splits",
]  # fmt: skip

TABLE: dict[str, type[Elementwise]] = {}
_owners: dict[str, type[Elementwise]] = {}  # by public name and by alias
_taken: list[Callable[[type[Elementwise], str], str]] = []
_listeners: list[Callable[[type[Elementwise]], None]] = []


def on_declaration(
    listener: Callable[[type[Elementwise]], None], taken: Callable[[type[Elementwise], str], str]
) -> None:
    """Call ``listener`` with every op declared so far and from now on.

    ``taken(op, name)`` says what else has the name already that the op would be published under, "" if nothing.
    """
    _listeners.append(listener)
    _taken.append(taken)
    for op in tuple(TABLE.values()):
        listener(op)


class Elementwise:
    """Base of elementwise ops: a subclass with scalar rules is a complete declaration.

    ``forward(x, y, alpha=1)``: parameters without default are tensors, those with one are scalars.
    ``grad_x(g, out, x)``: the gradient for input ``x``; what it names is what is saved. An input
    that gradients are not to reach says ``grad_x = None``. Complex gradients are conjugated for ``holomorphic`` ops.

    A subclass of an op is another op that has its rules and attributes where it does not state its own;
    ``grad_x = None`` drops a rule. ``variants`` declares subclasses that differ in attributes alone.
    ``class Name(Elementwise, public=True)`` is published: as ``jitgrad.NAME``, ``Tensor.NAME`` and, unless it says
    ``in_place = False``, ``Tensor.NAME_``; ``class SpecialI0e(Elementwise, public="special")`` as
    ``jitgrad.special.i0e``.
    Without it, an op is for others to be composed of. Either is called as ``Name.apply(...)``.
    """

    name: ClassVar[str] = ""  # public name; the class name in snake case by default
    grad_name: ClassVar[str] = ""  # the grad_fn's name; ClassName + "Backward0" by default
    kind: ClassVar[str] = "float"  # result dtype: "float", "same", "bool" or "real"
    accepts: ClassVar[str] = "bool int float complex"  # dtype categories of the inputs
    refuses: ClassVar[dict[str, tuple[type[Exception], str]]] = {}  # category: its own error
    error_name: ClassVar[str] = ""  # in errors about dtypes; NAME_cpu by default, without "special_"
    domain: ClassVar[Any] = (-3, 3)  # where samples are drawn; one pair, or one for each input
    reference: ClassVar[Callable[..., Any] | None] = None  # the same on NumPy arrays
    holomorphic: ClassVar[bool] = True
    in_double: ClassVar[bool] = False  # whether kernels for floats of any size compute in float64
    aliases: ClassVar[tuple[str, ...]] = ()  # further public names
    operators: ClassVar[tuple[str, ...]] = ()  # Python's special methods
    # Whether jitgrad.NAME and Tensor.NAME exist, or the module that has NAME; not inherited.
    public: ClassVar[bool | str] = False
    in_place: ClassVar[bool] = True  # whether a public op has a Tensor.NAME_
    # Whether it may write into a tensor of which several elements have one place in memory, as in an expanded one.
    allows_internal_overlap: ClassVar[bool] = False
    conditions: ClassVar[tuple[str, ...]] = ()  # boolean inputs, outside type promotion
    literals: ClassVar[dict[str, tuple[float, ...]]] = {}  # scalar operands worth a kernel of their own
    numbers: ClassVar[tuple[str, ...] | None] = None  # inputs that may be numbers; None: all, beside a tensor
    # What is rounded to floats of 16 bits beside such, be it a number or a tensor without dims; None: all inputs, as
    # tensors with dims always are.
    rounds: ClassVar[tuple[str, ...] | None] = None
    numbers_alone: ClassVar[bool] = False  # whether there need be no tensor among the inputs
    numbers_only: ClassVar[bool] = False  # whether all inputs but the first are numbers
    # The order in memory of results: "inputs", of the first input that has an order; "tensors", the same where numbers
    # are no inputs of PyTorch's; "last input first"; "copy", that of a copy of the first input, which of empty tensors
    # is another one; "row-major".
    memory_order: ClassVar[str] = "inputs"
    variants: ClassVar[dict[str, dict[str, Any]]] = {}  # name of an op with these rules: attributes that differ

    inputs: ClassVar[tuple[str, ...]]
    scalars: ClassVar[dict[str, Any]]
    rule: ClassVar[Rule]
    grads: ClassVar[dict[str, Rule]]
    apply: ClassVar[Callable[..., Any]]  # the op's function, which dispatch/elementwise_publish.py makes

    def __init_subclass__(cls, public: bool | str = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.public = public
        own = cls.__dict__
        cls.name = own.get("name") or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        cls.grad_name = own.get("grad_name") or f"{cls.__name__}Backward0"
        check_attributes(cls, _ATTRIBUTES)
        cls.aliases, cls.operators = own.get("aliases", ()), own.get("operators", ())
        cls.error_name = cls.error_name or f"{cls.name.removeprefix('special_')}_cpu"
        cls.rule = Rule(cls.__name__, cls.forward)  # type: ignore[attr-defined]
        cls.inputs = tuple(p for p in cls.rule.parameters if p not in cls.rule.defaults)
        cls.scalars = cls.rule.defaults
        cls.grads = {n: Rule(cls.__name__, rule) for n, rule in cls._gradient_rules()}
        check_parameters(cls)
        check_names(cls, _owners, _taken)
        if not ships_with_jitgrad(cls.__module__):
            for rule in (cls.rule, *cls.grads.values()):
                rule.tree  # noqa: B018  (parsed: what is wrong with a user's rule shows where it is declared)
        check_gradients(cls)
        TABLE[cls.name] = cls
        _owners.update(dict.fromkeys((cls.name, *cls.aliases), cls))
        for listener in tuple(_listeners):
            listener(cls)
        for name, attributes in own.get("variants", {}).items():
            known = {"name": name, "__doc__": cls.__doc__, "__module__": cls.__module__}
            body = known | attributes
            type(name.title().replace("_", ""), (cls,), body, public=body.pop("public", False))

    @classmethod
    def _gradient_rules(cls) -> list[tuple[str, Callable[..., Any]]]:
        """(input, function) for inputs that have a gradient rule, stated here or inherited."""
        bases = [c for c in reversed(cls.__mro__) if c not in (Elementwise, object)]
        keys = dict.fromkeys(k for c in bases for k in c.__dict__ if k.startswith("grad_") and k != "grad_name")
        return [(k.removeprefix("grad_"), rule) for k in keys if (rule := getattr(cls, k)) is not None]


_ATTRIBUTES = {k: None for k in vars(Elementwise) if not k.startswith("_")}  # a set that keeps their order
_kernels: dict[Any, Kernel] = {}
# Elements from which kernels are split for two threads, which takes half a microsecond: of words that polynomials
# approximate (0.3 to 1.5 ns an element of float32), and of plain arithmetic (0.16 ns). exp and gelu of 16 thousand take
# 0.6 of the time on one thread, a product of 48 thousand 0.9. Where some ops of a program are split and others of the
# same size are not, cores fetch halves from each other's caches: gelu(x) * sigmoid(x) + tanh(x) of 24 thousand and its
# gradient take 133 us, where plain arithmetic is split from 32 thousand on 178.
PARALLEL_SIZE, _COSTLY_SIZE = 1 << 14, 1 << 13
# The most elements of a part. Where that is enough, each thread has one part, and finds it in its own cache in the next
# op. Larger arrays have more parts than threads, so that others do the work of a thread that starts late.
_PART = 1 << 18


def split_size(rules: Sequence[tuple[Rule, str]]) -> int:
    """The number of elements from which a kernel of these rules should run on two threads."""
    calls = [n for rule, _ in rules for n in ast.walk(rule.tree) if isinstance(n, ast.Call)]
    words = [WORDS[c.func.id] for c in calls if isinstance(c.func, ast.Name)]
    return _COSTLY_SIZE if any(w.approximates for w in words) else PARALLEL_SIZE


def splits(rules: Sequence[tuple[Rule, str]], size: int) -> bool:
    """Whether a kernel of these rules should run on several threads for so many elements."""
    return size >= PARALLEL_SIZE or (size >= _COSTLY_SIZE and size >= split_size(rules))


def streams(rules: Sequence[tuple[Rule, str]], nbytes: int) -> bool:
    """Whether a kernel of these rules should write past the caches, for so many bytes of arrays; see past_caches.py."""
    return nbytes >= STREAMED_BYTES and split_size(rules) == PARALLEL_SIZE


def elementwise_kernel(
    name: str, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], out_dtypes: Sequence[str],
    dtype: str, strided: bool, parallel: bool, conjugate: bool = False, device: str = "cpu", wide: bool = False,
    row_steps: tuple[int, ...] = (), tiled: bool = False, inplace: bool = False, streamed: bool = False,
) -> Kernel:  # fmt: skip
    """Return the kernel that evaluates ``rules`` on arrays.

    Its arguments are the input arrays, one output array per rule, the scalars and, when
    ``strided``, the collapsed shape, the strides, and the first and last row to do. On a ``device``
    other than the CPU they end as `cuda.CudaElementwise` says. row_steps, tiled, inplace, streamed: as in
    ``elementwise_text``.
    """
    key = (
        name, tuple(rules), tuple(arguments), tuple(out_dtypes), dtype, strided, parallel, conjugate, device, wide,
        row_steps, tiled, inplace, streamed,
    )  # fmt: skip
    if key not in _kernels and device == "meta":
        _kernels[key] = Kernel(name, _nothing, ())
    if key not in _kernels and device != "cpu":
        _kernels[key] = cuda.elementwise(name, rules, arguments, out_dtypes, dtype, strided, conjugate, wide)
    if key not in _kernels:
        text = elementwise_text(
            name, rules, arguments, out_dtypes, dtype, strided, conjugate, row_steps, tiled, inplace, streamed
        )
        # Arguments are input arrays, then one output per rule: those positions are written.
        arrays = sum(a.kind == "array" for a in arguments)
        writes = tuple(range(arrays, arrays + len(rules)))
        call = compile_text(name, text, allocates=False)
        if parallel:
            once = [a.once for a in arguments if a.kind == "array"] + [False] * len(rules)
            call = _in_parts(call, once, strided, split_size(rules) // 2)
        made = (StridedKernel if strided else ElementwiseKernel)(name, call, writes)
        made.halves = any(a.half for a in arguments) or any(d.endswith("float16") for d in out_dtypes)
        made.rules, made.arguments, made.out_dtypes = tuple(rules), tuple(arguments), tuple(out_dtypes)
        made.dtype, made.conjugate = dtype, conjugate
        _kernels[key] = made
    return _kernels[key]


def _nothing(*args: Any) -> None:
    """What a kernel does on arrays without data."""


class ElementwiseKernel(Kernel):
    """A kernel of the CPU that evaluates rules on flat arrays, with what its text was made of.

    So programs can make one loop of several such kernels. The attributes are `elementwise_kernel`'s arguments.
    """

    __slots__ = ("arguments", "conjugate", "dtype", "halves", "out_dtypes", "rules")

    rules: tuple[tuple[Rule, str], ...]
    arguments: tuple[Argument, ...]
    out_dtypes: tuple[str, ...]
    dtype: str
    conjugate: bool
    halves: bool  # whether an array is of float16 or bfloat16


class StridedKernel(ElementwiseKernel):
    """An elementwise kernel whose arrays are first elements; their shape is an argument."""

    __slots__ = ()

    def shapes(self, args: tuple[Any, ...]) -> dict[int, tuple[int, ...]]:
        """The collapsed shape, for every array of values."""
        shape = tuple(int(n) for n in args[-4])
        return dict.fromkeys(range(max(self.writes) + 1), shape)


def _in_parts(call: Callable[..., None], once: Sequence[bool], strided: bool, grain: int) -> SplitCall:
    """The kernel on threads; ``once`` says of each array whether it is of one element that is read once."""
    shares = {"grain": grain, "parts_per_thread": 1, "most": _PART}
    if strided:  # it takes the first and last row of its part, and the arrays stay whole
        return SplitCall(call, {-2: FIRST, -1: LAST}, lambda args: args[-1] * int(args[-4][-1]), **shares)
    # 16 elements of float32 are a cache line, into which two threads should not write.
    cut = {k: CUT for k, o in enumerate(once) if not o}
    return SplitCall(call, cut, lambda args: args[len(once) - 1].size, multiple=16, **shares)
