"""Structured ops, which are more than a rule for one element: how one is declared, called and recorded.

    class LogSoftmax(Structured, public=True):
        \"""Logarithm of the softmax along ``dim``.\"""
        def forward(x, dim): ...                  # launches kernels, returns a new tensor
        def grad_x(g, out, dim): ...              # differentiable tensor ops: the specification
        def kernel_x(g, out, dim): ...            # optional: launches the backward kernel
        samples = cases(lambda: (draw(3, 4), 1))  # arguments for the tests that every op is put to
        reference = scipy.special.log_softmax     # the same function of arrays, where NumPy or SciPy has one

Parameter names are the contract, as in the elementwise table: ``g`` is the incoming gradient (a tuple for several
outputs), ``out`` the result (or all results, of which one alone is named as in ``results``), ``NAME_layout`` the layout
of input NAME (``out_layout``: those of the results), any other name an argument of forward. A node saves what the rules
name. The differentiable inputs are those with a grad rule; where one is a list of tensors, its rule returns as many
gradients.
``kernels(wants, ...)``, if there is one, returns {input: gradient} of those that one kernel computes together.

A planned op has ``plan`` in the place of forward. It gets the layouts of tensors (``x_layout``; of a list,
``tensors_layout: list``) and the other arguments, and returns Launches (planned.py) or a function of the tensors, which
is kept for all calls with such layouts and equal arguments. Arguments that take ever new values, as indices do, are
named in ``values``; they are given to that function, after the tensors.

An op is called by its class's name in snake_case unless ``name`` says otherwise, and is no function or method of
its own unless the class says so: ``public=True`` publishes both, ``public="function"`` or ``"method"`` one of them,
any other word a function of that module: ``class LinalgInv(Structured, public="linalg")`` is ``jitgrad.linalg.inv``.
``class Name(Structured, listed=False)`` keeps out of OPS what makes a node but is no op that tests could call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from jitgrad.core.layout import cache
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.declaration_checks import (
    Rule,
    check_declaration,
    check_rules,
    parameters_of,
    refuse,
    roles_of,
    rules_of,
    snake_case,
)  # fmt: skip
from jitgrad.dispatch.op_calls import register
from jitgrad.dispatch.registry import OPS, place_in, public, published
from jitgrad.dispatch.structured_function import function_of, planned_forward
from jitgrad.dispatch.structured_node import StructuredNode, vjp_of_one
from jitgrad.dispatch.structured_recorder import argument_kind, recorder_of
from jitgrad.kernels.threads import fork_safe

__all__ = ["Structured", "View", "reapply", "record"]

class _NodeTypeOnFirstUse:
    """In the place of an op's ``node_type`` until it is first read: most programs record few of all ops."""

    def __init__(self) -> None:
        self.lock = fork_safe(threading.Lock())

    def __get__(self, instance: Any, op: type[Structured]) -> type[StructuredNode]:
        with self.lock:  # two threads that made one each would put the names of what is saved on different classes
            if vars(op)["node_type"] is self:
                body = {"op": op, "expands": op.expands, "__doc__": op.__doc__}
                body |= {"owned": op.owned, "owned_if_taken": op.owned_if_taken, "adds": op.onto is not None}
                if not op.multiple_results:
                    body["vjp"] = vjp_of_one
                op.node_type = type(op.grad_name, (StructuredNode,), body)
            return vars(op)["node_type"]


_LATER: Any = _NodeTypeOnFirstUse()


class Structured:
    """Base of structured ops; a subclass with a docstring, forward and gradient rules is a complete declaration.

    Classes are declarations, never instantiated: ``__init_subclass__`` checks one, makes its function ``apply``, which
    is its public form, and publishes it.
    """

    name: ClassVar[str] = ""
    grad_name: ClassVar[str] = ""  # what ``grad_fn`` shows; by default the class's name and "Backward0"
    aliases: ClassVar[tuple[str, ...]] = ()
    multiple_results: ClassVar[bool] = False  # forward returns a tuple
    # PyTorch's names of its items, as in ``_saved_NAME``; where a rule names one, the node saves no other.
    results: ClassVar[tuple[str, ...]] = ()
    constants: ClassVar[tuple[str, ...]] = ()  # those of ``results`` that have no gradient, though they are floating
    forward: ClassVar[Callable[..., Any]]
    plan: ClassVar[Any] = None  # replaces forward; of layouts, returns Launches or a function of tensors (planned.py)
    check: ClassVar[Any] = None  # called with all arguments before a plan is made: raises for what layouts do not show
    values: ClassVar[tuple[str, ...]] = ()  # arguments, after those of plan, that it does not know
    batch: ClassVar[Callable[[Any], Any] | None] = None  # what vmap does; see dispatch/batch_rules.py
    # Called with the names of inputs that have tangents before forward mode uses the rules; raises if it cannot.
    refuse_tangents: ClassVar[Callable[[list[str]], None] | None] = None
    # The tangents of the results, from the arguments and theirs (None for one that has none), where forward mode should
    # not go by the rules.
    tangents: ClassVar[Callable[[Sequence[Any], Sequence[Any]], Any] | None] = None
    is_view: ClassVar[bool] = False
    sparse: ClassVar[bool] = False  # whether it takes sparse tensors as they are; see sparse_calls.py
    typed: ClassVar[bool] = False  # whether its plans are found by the types of arguments, too, as those of public ops
    half: ClassVar[bool] = False  # whether it takes float16 and bfloat16 as they are; see half_ops.py
    refuses_half: ClassVar[bool] = False  # whether its plan, which sees no others than float32, may refuse them
    check_mixed: ClassVar[Any] = None  # called with all arguments if some, not all, are of 16 bits: may refuse them
    older_factors: ClassVar[tuple[str, ...]] = ()  # numbers that PyTorch once took in front; see older_order.py
    linear: ClassVar[tuple[str, ...]] = ()  # the inputs in each of which the op is linear
    jointly_linear: ClassVar[tuple[str, ...]] = ()  # the inputs in which, taken as one, the op is linear
    owned: ClassVar[bool] = True  # whether its gradients are new memory that nobody else holds
    owned_if_taken: ClassVar[bool] = False  # whether they are once nobody holds the incoming gradient any more
    expands: ClassVar[bool] = False  # whether the rule of its one gradient expands the incoming one
    samples: ClassVar[Callable[[], Iterator[tuple[Any, ...]]] | None] = None  # yields arguments; see op_samples.cases
    reference: ClassVar[Callable[..., Any] | None] = None  # of NumPy or SciPy, on arrays in the place of tensors

    parameters: ClassVar[tuple[str, ...]]
    defaults: ClassVar[tuple[Any, ...]]  # one for each parameter, REQUIRED where it must be given
    positional: ClassVar[int]  # so many of them may be given by position
    grads: ClassVar[dict[str, Rule]]  # {input: (rule of differentiable ops, its parameters)}
    backward_kernels: ClassVar[dict[str, Rule]]  # the same by launches, for inputs that have it
    joint_kernel: ClassVar[Rule | None]  # ``kernels``
    onto: ClassVar[Rule | None]  # ``add_to(g, there, ...)``, which adds the gradient of x, the one input, to another
    node_type: ClassVar[type[StructuredNode]]
    recorders: ClassVar[dict[tuple[int, ...], Callable[..., Any]]]  # {kind of each argument: recorder}
    roles: ClassVar[str]  # of a planned op: those of its parameters, a letter each; see declaration_checks.py
    plans: ClassVar[dict[Any, tuple[Callable[..., Any], dict[Any, Callable[..., Any]]]]]  # {key: (compute, recorders)}
    apply: ClassVar[Callable[..., Any]]
    public: ClassVar[bool]  # whether users call it by its own function

    def __init_subclass__(
        cls, abstract: bool = False, listed: bool = True, public: bool | str = False, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if abstract:
            return
        own = cls.__dict__
        check_declaration(cls)
        if "plan" in own or (cls.plan is not None and "forward" not in own):
            cls.roles, (cls.parameters, cls.defaults, cls.positional) = roles_of(cls)
            cls.check = staticmethod(cls.check) if cls.check else None
            cls.typed = cls.typed or bool(public)
            cls.plan, forward = staticmethod(cls.plan), planned_forward(cls)
        else:
            cls.roles, forward = "", cls.forward
            cls.parameters, cls.defaults, cls.positional = parameters_of(forward)
        cls.forward, cls.plans = staticmethod(forward), cache()
        cls.grads, cls.backward_kernels = rules_of(cls, "grad_"), rules_of(cls, "kernel_")
        joint = getattr(cls, "kernels", None)
        cls.joint_kernel = (joint, parameters_of(joint)[0]) if joint is not None else None
        add_to = getattr(cls, "add_to", None)
        cls.onto = (add_to, parameters_of(add_to)[0]) if add_to is not None else None
        check_rules(cls)
        cls.name = own.get("name") or snake_case(cls.__name__)
        cls.grad_name = own.get("grad_name") or f"{cls.__name__}Backward0"
        cls.node_type = _LATER  # set anew, since a base may have made its own
        cls.recorders, cls.public = {}, bool(public)
        apply = function_of(cls, bool(public))
        cls.apply = staticmethod(apply)
        register(apply, cls, own=True)
        if listed:
            OPS[cls.name] = cls
        if public:
            for name in (cls.name, *cls.aliases):
                publish(cls, apply, name, public)


def publish(cls: Any, function: Callable[..., Any], name: str, where: bool | str) -> None:
    """Publish a declaration's function; TypeError if the name is published already."""
    function_too, method_too = where != "method", where is True or where == "method"
    module = where if isinstance(where, str) and where not in ("function", "method") else ""
    taken = published(place_in(module, name)) if function_too else getattr(Tensor, name, None)
    if taken is not None:
        remedy = "give the op another name, or publish the function that goes on to it"
        raise refuse(cls, f"{name!r} is published already, by {taken.__module__}", remedy)
    public(function, name, function_too=function_too, method_too=method_too, module=module)


def reapply(op: type[Structured], args: Sequence[Any], inplace: bool = False) -> Any:
    """Apply an op, or its inplace form, to all its arguments in the order of its parameters."""
    function = op.inplace if inplace else op.apply  # type: ignore[attr-defined]
    if op.positional == len(args):
        return function(*args)
    named = zip(op.parameters[op.positional :], args[op.positional :], strict=True)
    return function(*args[: op.positional], **dict(named))


def record(op: type[Structured], args: tuple[Any, ...], out: Any) -> None:
    """Make ``out`` the output of a new node of an op that was applied to ``args``, one of which requires grad."""
    kinds = tuple(map(argument_kind, args))
    (op.recorders.get(kinds) or recorder_of(op, kinds))(out, *args)


class View(Structured, abstract=True):
    """Base of views: ops that return their input's memory under another layout and launch nothing."""

    linear: ClassVar[tuple[str, ...]] = ("x",)
    is_view = True
    owned, owned_if_taken = False, True  # a view's gradient is mostly a view of the incoming one
