"""The function by which a structured op is called, generated as text once for each pattern of parameters.

An op is called several times for each kernel that it launches, so its function has the op's parameters by name and no
loop over them. Of a planned op it looks up what layouts and arguments decide. Calls of other forms, with NumPy's
keywords, too few arguments or wrapped tensors, go on to ``_general``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any

from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import halves
from jitgrad.core.tensor import Tensor
from jitgrad.core.wrapped import outermost_wrapped
from jitgrad.dispatch import half_ops, sparse_calls
from jitgrad.dispatch.declaration_checks import ARGUMENT, LIST_INPUT, OPTIONAL, REQUIRED, TENSOR_INPUT, VALUE
from jitgrad.dispatch.foresight import foreseen, rehearse
from jitgrad.dispatch.generated_function import generated_function
from jitgrad.dispatch.older_order import is_older_order, older_order
from jitgrad.dispatch.out_argument import into_out
from jitgrad.dispatch.overriding import retried
from jitgrad.dispatch.parameter_types import PUBLIC_NAMES, explain
from jitgrad.dispatch.planned import Launches, compiled, constant, reads_arrays
from jitgrad.dispatch.structured_recorder import OTHER, PLAIN_TYPES, argument_kind, recorder_of
from jitgrad.kernels.compile_ahead import begun
from jitgrad.kernels.device_array import name_op

__all__ = ["bind_arguments", "function_of", "planned_forward"]

_ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<absent>"})()  # an argument that was not given

# Parameters are a0, a1, ... here; ``_renamed`` gives a copy of the code the op's own. ``_more`` and ``_named`` are
# what fits none of them.
_APPLY = """\
def apply({parameters}):
    if {unusual}grad_state.levels or (halves and has_half(({names}))):
        return general(({names}), _more, _named)
    try:
        _out = forward({names})
    except Exception as _error:
        if again(_error, ({names})):
            return redone(({names}))
        explained(_error, ({names}))
        raise
    if {wanted}:
        _kinds = ({kinds})
        (recorders.get(_kinds) or recorder_of(_kinds))(_out, {names})
    return _out
"""
# A plan is found only for tensors: not for arguments that are missing, nor for wrapped tensors, whose layouts are
# objects of their own. So there is no test for any of these.
_APPLY_PLANNED = """\
def apply({parameters}):
    try:
        _compute, _records = find(({key}))
    except (AttributeError, TypeError):
        _compute = None  # not here: an error of the call would have this one as its context
    if _compute is None or {unusual}:
        return general(({names}), _more, _named)
    try:
        _out = _compute({computed})
    except Exception as _error:
        if again(_error, ({names})):
            return redone(({names}))
        explained(_error, ({names}))
        raise
{scans}    if {wanted}:
        (_records.get({wants}) or recorder_of(({names}), _records, {wants}))(_out, {names})
    return _out
"""
# The kinds of plain values are known by their types, without a call.
_KIND = f"{OTHER} if {{0}}.__class__ in plain else argument_kind({{0}}), "
# False only where an argument requires no grad for sure: a list, into which ``argument_kind`` looks, may have a tensor
# that does.
_MAY_REQUIRE = "{0} is not None and getattr({0}, '_requires_grad', True)"
_KEY = {TENSOR_INPUT: "{}._layout, ", OPTIONAL: "None if {0} is None else {0}._layout, ",
        LIST_INPUT: "*map(layout_of, {}), ", ARGUMENT: "{}, ", VALUE: ""}  # fmt: skip
_REQUIRES = {TENSOR_INPUT: "{}._requires_grad", OPTIONAL: "({0} is not None and {0}._requires_grad)",
             LIST_INPUT: "_wants_{}"}  # fmt: skip
# Before that, of a list. A loop takes half the time of ``True in map(attrgetter("_requires_grad"), ...)``.
_SCAN = """\
    _wants_{0} = False
    for _one in {0}:
        if _one._requires_grad:
            _wants_{0} = True
            break
"""


@functools.cache
def _apply_code(positional: int, required: tuple[bool, ...], inputs: tuple[int, ...]) -> CodeType:
    """The code of ``apply`` of an op that is not planned. inputs: its differentiable parameters."""
    names = [f"a{k}" for k in range(len(required))]
    flags = map(_MAY_REQUIRE.format, [names[k] for k in inputs])
    wanted = f"grad_state.enabled and ({' or '.join(flags)})" if inputs else "False"
    return _code(
        _APPLY, names, positional, wanted=wanted, kinds="".join(map(_KIND.format, names)),
        unusual="_more or _named or " + "".join([f"{n} is absent or " for n, r in zip(names, required) if r]),
    )  # fmt: skip


@functools.cache
def _planned_code(roles: str, positional: int, inputs: tuple[int, ...], typed: bool) -> CodeType:
    """The code of ``apply`` of a planned op. roles: those of its parameters (see declaration_checks.py).

    typed: whether the types of arguments are looked up with them, for True and 1.0 are equal to 1.
    """
    names = [f"a{k}" for k in range(len(roles))]
    flags = [_REQUIRES[roles[k]].format(names[k]) for k in inputs]
    key = "".join([_KEY[r].format(n) for n, r in zip(names, roles)])
    types = "".join([f"{n}.__class__, " for n, r in zip(names, roles) if r == ARGUMENT and typed])
    return _code(
        _APPLY_PLANNED, names, positional, key=key + types,
        unusual="_more or _named" + "".join([f" or {n} is absent" for n, r in zip(names, roles) if r == VALUE]),
        computed=", ".join([n for n, r in zip(names, roles) if r != ARGUMENT]),
        scans="".join([_SCAN.format(names[k]) for k in inputs if roles[k] == LIST_INPUT]),
        wanted=f"({' or '.join(flags)}) and grad_state.enabled" if flags else "False",
        wants="True" if len(flags) == 1 else f"({', '.join(flags)})",
    )  # fmt: skip


def _code(text: str, names: list[str], positional: int, **parts: str) -> CodeType:
    """The code of the function that a text defines, for parameters of these names."""
    given = [f"{n}=None" for n in names]  # defaults are set for each function
    scope: dict[str, Any] = {}
    parameters = ", ".join([*given[:positional], "*_more", *given[positional:], "**_named"])
    exec(text.format(parameters=parameters, names="".join([f"{n}, " for n in names]), **parts), scope)
    code: CodeType = scope["apply"].__code__
    return code


def function_of(op: Any, public: bool) -> Callable[..., Any]:
    """The public function of an op: it binds arguments, calls ``forward`` or a plan, and records.

    public: whether errors may name the op; others are known to users by the functions that go on to them.
    """
    positional, forward = op.positional, op.forward
    inputs = tuple([op.parameters.index(n) for n in op.grads])
    call = forward if positional == len(op.parameters) else _by_position(op)

    def explained(error: Exception, args: tuple[Any, ...]) -> None:
        """Called with an error of ``forward``, before it is raised again."""
        if isinstance(error, NotImplementedError):  # of a kernel that a device lacks, which does not know the op's name
            name_op(error, op.name)
        elif public:
            explain(error, forward, op.name, args, {})

    def again(error: Exception, values: tuple[Any, ...], above: int = 2) -> bool:
        args, keywords = _as_given(op, values, ())
        return retried(error, args, keywords, above) or in_older_order(args)

    def in_older_order(args: tuple[Any, ...]) -> bool:
        return bool(op.older_factors) and is_older_order(op.older_factors, args)

    def redone(values: tuple[Any, ...]) -> Any:
        args, keywords = _as_given(op, values, ())
        if in_older_order(args):
            tensors = [PUBLIC_NAMES.get(n, n) for n in op.parameters if n not in op.older_factors]
            args = tuple(older_order(op.name, tensors, op.older_factors, args))
        return op.apply(*args, **keywords)

    def general(values: tuple[Any, ...], more: tuple[Any, ...], named: dict[str, Any]) -> Any:
        try:
            return _general(op, explained, call, values, more, named)
        except Exception as error:
            if not more and not named and again(error, values, 3):
                return redone(values)
            raise

    def made() -> FunctionType:
        if op.roles:
            code = _planned_code(op.roles, positional, inputs, op.typed)
        else:
            code = _apply_code(positional, tuple([d is REQUIRED for d in op.defaults]), inputs)
        return _renamed(code, scope, op.parameters, positional, op.defaults)

    scope: dict[str, Any] = {
        "forward": call, "find": op.plans.get, "general": general, "explained": explained, "recorders": op.recorders,
        "again": again, "redone": redone,
        "recorder_of": functools.partial(_planned_recorder if op.roles else _first_recorder, op),
        "grad_state": grad_state,
        "absent": _ABSENT, "halves": halves if half_ops.computed_widely(op) else (), "has_half": half_ops.among,
        "argument_kind": argument_kind, "plain": PLAIN_TYPES, "layout_of": attrgetter("_layout"),
        "__name__": __name__,
    }  # fmt: skip
    apply = generated_function(op.name, scope, made)
    apply.__doc__ = op.__doc__
    vars(apply)["__wrapped__"] = forward  # whose signature help() shows
    return apply


def _renamed(
    code: CodeType, scope: dict[str, Any], names: Sequence[str], positional: int, defaults: Sequence[Any]
) -> FunctionType:
    """A function of code whose first variables, its parameters, get these names and defaults."""
    values = [_ABSENT if d is REQUIRED else d for d in defaults]
    renamed = code.replace(co_varnames=(*names, *code.co_varnames[len(names) :]))
    made = FunctionType(renamed, scope, "apply", tuple(values[:positional]))
    if positional < len(names):
        made.__kwdefaults__ = dict(zip(names[positional:], values[positional:], strict=True))
    return made


def _by_position(op: Any) -> Callable[..., Any]:
    """forward with keyword-only parameters as a function of all arguments by position."""
    forward, parameters = op.forward, op.parameters
    return lambda *args: forward(**dict(zip(parameters, args, strict=True)))


# -- plans ----------------------------------------------------------------------------------------------


def planned_forward(op: Any) -> Callable[..., Any]:
    """``forward`` of a planned op: it plans, if there is no plan yet, and computes."""
    computed = [k for k, role in enumerate(op.roles) if role != ARGUMENT]
    # Other ops call forward for its views, so that of tensors and arguments alone has a quicker key.
    typed = op.typed
    simple = not typed and OPTIONAL not in op.roles and LIST_INPUT not in op.roles
    places = [(k, role == TENSOR_INPUT) for k, role in enumerate(op.roles) if role != VALUE]

    def simple_key(args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([args[k]._layout if tensor else args[k] for k, tensor in places])

    def forward(*args: Any) -> Any:
        if len(args) < len(op.parameters):
            args = bind_arguments(op, args, {})
        key = simple_key(args) if simple else tuple(_key(op.roles, args, typed))
        try:
            planned = op.plans.get(key)
        except TypeError:  # an argument without a hash, such as a list
            return _plan(op, args)(*[args[k] for k in computed])
        if planned is None:
            planned = (_plan(op, args), {})
            if constant(key):
                op.plans[key] = planned
        return planned[0](*[args[k] for k in computed])

    # Its parameters are those of ``plan``, with tensors in the place of layouts.
    kinds = inspect.Parameter
    types = {n.removesuffix("_layout"): t for n, t in op.plan.__annotations__.items()}
    parameters = [
        kinds(n, kinds.POSITIONAL_OR_KEYWORD if k < op.positional else kinds.KEYWORD_ONLY, default=d,
              annotation=types.get(n, kinds.empty))
        for k, (n, d) in enumerate(zip(op.parameters, op.defaults, strict=True))
    ]  # fmt: skip
    vars(forward)["__signature__"] = inspect.Signature(parameters)
    return forward


def _key(roles: str, args: Sequence[Any], typed: bool) -> Iterator[Any]:
    """What the texts above look up, item by item."""
    for arg, role in zip(args, roles, strict=True):
        if role == LIST_INPUT:
            yield from [t._layout for t in arg]
        elif role != VALUE:
            yield arg if role == ARGUMENT or arg is None else arg._layout
    if typed:
        yield from [type(arg) for arg, role in zip(args, roles, strict=True) if role == ARGUMENT]


def _plan(op: Any, args: Sequence[Any], half: Any = None) -> Any:
    """The function that computes the op for such arguments.

    half: the dtype of tensors for whose bits ``args`` stand; then there may be no such function, which is None.
    """
    given = {}
    for name, arg, role in zip(op.parameters, args, op.roles, strict=True):
        if role == LIST_INPUT:
            given[name] = [t._layout for t in arg]
        else:
            given[name] = arg if role in (ARGUMENT, VALUE) or arg is None else arg._layout
    planned = [v for v, role in zip(given.values(), op.roles, strict=True) if role != VALUE]
    if halves and half_ops.computed_widely(op) and half_ops.among(args):
        if op.refuses_half or half_ops.mixed(planned):
            op.plan(*planned)  # for its error, where dtypes have to be the same or wider
        places = [k for k, role in enumerate(op.roles) if role != ARGUMENT]
        return half_ops.planned_widely(op, args, places, _plan)
    made = op.plan(*planned)
    if isinstance(made, Launches):
        tensors = {n: v for (n, v), role in zip(given.items(), op.roles, strict=True) if role != ARGUMENT}
        if begun() and half is None:
            computed = [a for a, role in zip(args, op.roles, strict=True) if role != ARGUMENT]
            kinds = functools.partial(recorder_of, op, tuple(map(argument_kind, args)))
            rehearse(op, compiled(made._replace(results=None), tensors), computed, kinds, args)
        return compiled(made, tensors, half) if half is None or reads_arrays(made) else None
    return made if half is None else None


def _planned_recorder(op: Any, args: tuple[Any, ...], records: dict[Any, Any], wants: Any) -> Callable[..., Any]:
    """The recorder for arguments as these, kept with their plan under which of them require grad."""
    half = bool(halves) and half_ops.among(args)
    found = records[wants] = recorder_of(op, tuple(map(argument_kind, args)), half)
    return foreseen(op, found)


def _first_recorder(op: Any, kinds: tuple[int, ...]) -> Callable[..., Any]:
    """The recorder for arguments of these kinds, of which there was none yet."""
    return foreseen(op, recorder_of(op, kinds))


# -- calls of other forms -------------------------------------------------------------------------------


def _general(op: Any, explained: Any, forward: Any, values: tuple[Any, ...], more: tuple[Any, ...],
             named: dict[str, Any]) -> Any:  # fmt: skip
    """Apply an op to arguments of any form. values: one for each parameter, its default where none was given."""
    if not (more or named or op.roles or grad_state.levels) and (known := op.plans.get(half_ops.shown(values))):
        return _widely(op, explained, known, values)
    if more or named or any(v is _ABSENT for v in values):
        args, keywords = _as_given(op, values, more)
        keywords |= named
        if "out" in keywords and "out" not in op.parameters:
            out = keywords.pop("out")
            return into_out(op.name, op.apply(*args, **keywords), out)
        values = bind_arguments(op, args, keywords)
    if op.check:
        try:
            op.check(*values)
        except Exception as error:
            explained(error, values)
            raise
    if grad_state.levels and (wrapped := outermost_wrapped(values)) is not None:
        return wrapped.structured(wrapped._level, op, values, False)
    half = bool(halves) and half_ops.among(values)
    if half and not op.sparse and sparse_calls.among(values):
        return sparse_calls.apply_form(op.name, values, op.public)
    widely = half and not op.roles and half_ops.computed_widely(op)  # a planned op widens by its plans
    try:
        if widely:
            forward = half_ops.widening(op, forward, values)
        if widely and op.check_mixed and half_ops.mixed([getattr(v, "_layout", None) for v in values]):
            op.check_mixed(*values)
        out = forward(*values)
    except Exception as error:
        explained(error, values)
        raise
    if widely and list not in (key := half_ops.shown(values)) and tuple not in key:
        inputs = [k for k in map(op.parameters.index, op.grads) if isinstance(values[k], Tensor)]
        op.plans[key] = forward, {}, inputs
    if op.grads and grad_state.enabled:
        foreseen(op, recorder_of(op, tuple(map(argument_kind, values)), half))(out, *values)
    return out


def _widely(op: Any, explained: Any, known: Any, values: tuple[Any, ...]) -> Any:
    """Apply an op that is not planned to arguments, some of 16 bits, as ``_general`` has met and kept them before."""
    compute, records, inputs = known
    try:
        out = compute(*values)
    except Exception as error:
        explained(error, values)
        raise
    if grad_state.enabled and True in (wants := tuple([values[k]._requires_grad for k in inputs])):
        (records.get(wants) or _planned_recorder(op, values, records, wants))(out, *values)
    return out


def _as_given(op: Any, values: tuple[Any, ...], more: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(positional, keyword) arguments of a call, whose parameters have ``values``; those with defaults are left out."""
    missing = [v is _ABSENT or v is d for v, d in zip(values, op.defaults, strict=True)]
    count = op.positional
    if not more and True in missing[:count]:
        count = missing.index(True)
    rest = zip(op.parameters[count:], values[count:], missing[count:], strict=True)
    return (*values[:count], *more), {p: v for p, v, m in rest if not m}


# Keywords of PyTorch and NumPy -> parameters of declarations, where an op has no parameter of that name itself.
_KEYWORDS = {
    "input": "x", "self": "x", "other": "y", "tensor": "x", "axis": "dim", "keepdims": "keepdim",
    "axis0": "dim0", "axis1": "dim1", "a": "x", "x1": "x", "x2": "y",
}  # fmt: skip


def _missing(names: Sequence[str]) -> str:
    """PyTorch's words, in which one argument is plural and several are singular."""
    quoted = ", ".join([f'"{PUBLIC_NAMES.get(n, n)}"' for n in names])
    return f"missing {len(names)} required positional argument{'s' if len(names) == 1 else ''}: {quoted}"


def bind_arguments(op: Any, args: Any, kwargs: Any, name: str = "") -> tuple[Any, ...]:
    """An op's arguments in the order of its parameters, keywords and defaults included; TypeError if they don't fit.

    name: what the error calls the function, if not by the op's name.
    """
    count = len(args)
    if not kwargs and count <= op.positional and REQUIRED not in (rest := op.defaults[count:]):
        return (*args, *rest)
    names = {k if k in op.parameters else _KEYWORDS.get(k, k): v for k, v in kwargs.items()}
    if count <= op.positional and names.keys().isdisjoint(op.parameters[:count]):
        given = {**dict(zip(op.parameters, op.defaults, strict=True)), **dict(zip(op.parameters, args)), **names}
        if len(given) == len(op.parameters) and not any(v is REQUIRED for v in given.values()):
            return tuple(given.values())
    try:  # for its error
        bound = inspect.signature(op.forward).bind(*args, **names)
    except TypeError as error:
        taken = {*op.parameters[:count], *names}
        lacking = [n for n, d in zip(op.parameters, op.defaults, strict=True) if d is REQUIRED and n not in taken]
        raise TypeError(f"{name or op.name}() {_missing(lacking) if lacking else error}") from None
    bound.apply_defaults()
    return tuple(bound.arguments[p] for p in op.parameters)
