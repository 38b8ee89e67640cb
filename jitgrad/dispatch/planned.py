"""Functions of tensors that are planned by layouts: the launches are worked out once for each combination of arguments.

    @planned("x")
    def forward(x, dim, keepdim=False):  # x is a Layout here
        ...
        return Launches([(kernels.sum_rows, Read("x", (4, 16)), Written(0, (4,)))], [result_layout])

What the decorated function returns is kept under the layouts of the tensors and the values of the other arguments. A
call of what ``planned`` makes takes tensors: it is one look-up, the allocations, the launches, and the new tensors.
Instead of Launches the function may return another function of the tensors, for combinations that need more than
launches; that is kept as well. Errors that it raises are raised again by the next call, since nothing was kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from jitgrad.core.dtypes import dtype
from jitgrad.core.layout import Layout, array_shape, cache, intern
from jitgrad.core.storage import allocator
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.tensor_observers import announce_tensor, tensor_observers
from jitgrad.dispatch.copying import copy_to_layout
from jitgrad.dispatch.declaration_checks import REQUIRED, parameters_of
from jitgrad.dispatch.foresight import foresee
from jitgrad.dispatch.generated_function import generated_function
from jitgrad.dispatch.launch_plan import resolved
from jitgrad.kernels.compile_ahead import begun
from jitgrad.kernels.device_array import NoValues
from jitgrad.kernels.direct_call import refuse
from jitgrad.kernels.direct_parts import direct_calls, is_direct
from jitgrad.kernels.launch import Kernel, Loop, launch, observers
from jitgrad.kernels.lazy_array import Unresolved

__all__ = ["Launches", "Number", "Read", "Written", "compiled", "constant", "planned", "reads_arrays", "row_major"]

View = tuple[int, ...] | str | Callable[[Tensor], Any] | None


class Read(NamedTuple):
    """The array of tensor ``name``: as it is, in the shape ``view``, or what ``view(tensor)`` is.

    The view "T" is a transposed matrix, "mT" a stack of transposed matrices.
    """

    name: str
    view: View = None


def row_major(name: str, layout: Layout, shape: tuple[int, ...]) -> Read:
    """Tensor ``name`` of ``layout`` as a row-major array of ``shape``: a copy where its memory is in another order."""
    shape = array_shape(shape, layout.numpy_dtype.itemsize)
    if layout.contiguous:
        return Read(name, shape)
    ordered = intern(layout.numpy_dtype, layout.shape, None, layout.device)
    return Read(name, lambda x: copy_to_layout(wrap(x._data, x._layout), ordered)._data.reshape(shape))


class Written(NamedTuple):
    """New array ``number``: as it is, in the shape ``view``, or transposed ("T").

    The view "columns", which Read takes too, is for column-major matrices (*, rows, columns): (count, columns, rows),
    all dims before the last two taken as one.
    """

    number: int
    view: tuple[int, ...] | str | None = None


class Number(NamedTuple):
    """The number that the call gives as argument ``name``, one of the decorator's ``numbers``."""

    name: str


class Launches(NamedTuple):
    """What to launch and what to return.

    launches: (kernel, *arguments), one after the other, none where there is no element; an argument is a Read, Written
    or Number, anything else is a constant. layouts: those of the new arrays, uninitialised. returned: so many of these,
    the first, become the results; the others are working memory. results: makes the result of several tensors, by
    default their tuple.
    """

    launches: Sequence[tuple[Any, ...]]
    layouts: Sequence[Layout]
    returned: int = 1
    results: Callable[..., Any] | None = None


def planned(*tensors: str, numbers: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function of layouts, which returns Launches, one of tensors; see above.

    tensors: the parameters that get tensors, with a question mark after those that may get None. numbers: parameters
    that the plan doesn't depend on, such as factors that change from call to call. Plans are found by arguments that
    are equal, as 1, 1.0 and True are: where users may give any of these, the caller makes them one.
    """

    def decorate(plan: Callable[..., Any]) -> Callable[..., Any]:
        names, defaults, _ = parameters_of(plan)
        required = {n for n in tensors if n[-1] != "?"}
        given = {n.rstrip("?") for n in tensors}
        plans = cache()

        def make(*args: Any) -> Callable[..., Any]:
            """Plan a call with these arguments, and keep the plan if they are hashable."""
            known = [a._layout if n in given and a is not None else a for n, a in zip(names, args, strict=True)]
            made = plan(*known)
            if isinstance(made, Launches):
                named = dict(zip(names, known, strict=True))
                if begun() and len(made.launches) > 1:
                    foresee(compiled(made._replace(results=None), named), *args)
                made = compiled(made, named)
            key = scope["key_of"](*args)
            if constant(key):
                with suppress(TypeError):
                    plans[key] = made
            return made

        def generated() -> FunctionType:
            key = _key(names, required, given, numbers)
            taken = [n if d is REQUIRED else f"{n}=default_{n}" for n, d in zip(names, defaults, strict=True)]
            exec(_FUNCTION.format(key=key, arguments=", ".join(names), parameters=", ".join(taken)), scope)
            return scope["compute_planned"]

        scope: dict[str, Any] = {"find": plans.get, "plan": make, "__name__": plan.__module__}
        scope |= {f"default_{n}": d for n, d in zip(names, defaults, strict=True) if d is not REQUIRED}
        return functools.wraps(plan)(generated_function(plan.__name__, scope, generated))

    return decorate


def constant(key: tuple[Any, ...]) -> bool:
    """Whether a plan may be kept under a key: not where a tensor in it, as a size or a dim, may become another one."""
    return not any(isinstance(k, Tensor) or (type(k) is tuple and not constant(k)) for k in key)


_FUNCTION = """\
def key_of({arguments}):
    return ({key})

def compute_planned({parameters}):
    try:
        compute = find(({key}))
    except TypeError:  # an argument that is not hashable, as a list of dims
        compute = None
    return (compute or plan({arguments}))({arguments})
"""


def _key(names: Sequence[str], required: set[str], given: set[str], numbers: Sequence[str]) -> str:
    """The expression of a call's key."""
    parts = []
    for name in names:
        if name in required:
            parts.append(f"{name}._layout")
        elif name in given:
            parts.append(f"None if {name} is None else {name}._layout")
        elif name not in numbers:
            parts.append(name)
    return "".join(f"{p}, " for p in parts)


# -- the text of a plan -------------------------------------------------------------------------------------

_COMPUTE = """\
def make(constants, kernels, calls, results):
    {unpack}
    def compute({parameters}):
{allocate}
        try:  # costs nothing while nothing is raised
            if observers:{observed}
            else:{plain}
        except Unresolved:{retry}
        except NoValues:
            pass
{wrap}
        return {result}
    return compute
"""
_WRAP = """\
        out{k} = new(Tensor); out{k}._data = data{k}; out{k}._layout = layout{k}
        if tensor_observers: announce_tensor(out{k})"""


def compiled(made: Launches, arguments: dict[str, Any], half: dtype | None = None) -> Callable[..., Any]:
    """The function that carries out a plan, of all arguments of the planned function.

    Results of a plan that names no device are where the arguments are. half: the dtype, of 16 bits, of tensors whose
    bits the plan moves as int16.
    """
    constants: list[Any] = []
    inputs = [x for a in arguments.values() for x in (a if isinstance(a, list) else (a,)) if isinstance(x, Layout)]
    device = next((x.device for x in inputs if x.device != "cpu"), "cpu")
    if device != "cpu":
        made = made._replace(layouts=[_on(device, x) for x in made.layouts])
    pattern, calls, ends, direct = [], [], [], []
    for kernel, *given in made.launches:
        texts = [_expression(a, arguments, made.layouts, constants, half is not None) for a in given]
        pattern.append(tuple(texts))
        call, last = _call(kernel, given, arguments, made.layouts)
        direct.append(_given(given) if _is_direct(kernel, call, given, arguments, made.layouts) else ())
        calls.append(direct_calls(call, [k for k, _ in direct[-1]]) if direct[-1] else call)
        ends.append(tuple([f"c{len(constants) + k}" for k in range(len(last))]))
        constants += last
    used = len(constants)
    plain = tuple([x.plain for x in made.layouts])
    for x, row_major in zip(made.layouts, plain, strict=True):
        if half is not None and x.numpy_dtype == _BITS:
            x = intern(half.numpy, x.shape, x.strides, x.device)
        constants += [x, x.shape, x.numpy_dtype] if row_major else [x, allocator(x)]
    maker = _maker(
        tuple(arguments), tuple(pattern), tuple(ends), tuple(direct), used, plain, made.returned, made.results is None
    )
    kernels = [kernel for kernel, *_ in made.launches]
    return maker(constants, kernels, calls, made.results)


def reads_arrays(made: Launches) -> bool:
    """Whether a plan's kernels read the arrays of tensors, and nothing that is made of them at each call."""
    return not any(isinstance(a, Read) and callable(a.view) for _, *given in made.launches for a in given)


def _on(device: Any, layout: Layout) -> Layout:
    return layout if layout.device != "cpu" else intern(layout.numpy_dtype, layout.shape, layout.strides, device)


_BITS = np.dtype(np.int16)


def _expression(
    argument: Any, arguments: dict[str, Any], layouts: Sequence[Layout], constants: list[Any], as_bits: bool
) -> str:  # fmt: skip
    """The text of one of a kernel's arguments; what it needs is added to ``constants``."""
    if isinstance(argument, Number):
        return argument.name
    if isinstance(argument, Read):
        array, layout = f"{argument.name}._data", arguments[argument.name]
    elif isinstance(argument, Written):
        array, layout = f"data{argument.number}", layouts[argument.number]
    else:
        constants.append(argument)
        return f"c{len(constants) - 1}"
    view = argument.view
    if as_bits and layout.numpy_dtype == _BITS:
        array = f"{array}.view(bits)"
    if view is None or view == layout.shape:
        return array
    if view == "T":
        return f"{array}.T"
    if view == "mT":
        return f"{array}.transpose(0, 2, 1)"
    if view == "columns":
        constants.append(_by_columns(layout.array_shape))
        return f"{array}.swapaxes(-1, -2).reshape(c{len(constants) - 1})"
    constants.append(array_shape(view, layout.numpy_dtype.itemsize) if isinstance(view, tuple) else view)
    name = f"c{len(constants) - 1}"
    return f"{name}({argument.name})" if callable(view) else f"{array}.reshape({name})"


def _call(kernel: Kernel, given: Sequence[Any], arguments: dict[str, Any], layouts: Sequence[Layout]) -> Any:
    """What runs a kernel, and its last arguments: of a loop that no threads share, the compiled function itself."""
    if not isinstance(kernel, Loop):
        return kernel.call, ()
    leading = given[kernel.dtype_from]
    layout = None
    if isinstance(leading, Read) and not callable(leading.view):
        layout = arguments[leading.name]
    elif isinstance(leading, Written):
        layout = layouts[leading.number]
    known = [a for a in (*arguments.values(), *layouts) if isinstance(a, Layout)]
    shapes = [_shape(a, arguments, layouts) for a in given]
    unknown = kernel.pieces is not None and any(s == () for s in shapes if isinstance(s, tuple))
    if layout is None or any(x.device != "cpu" for x in known) or unknown:
        return kernel.call, ()
    return kernel.ready(layout.numpy_dtype, shapes)


def _is_direct(
    kernel: Kernel, call: Any, given: Sequence[Any], arguments: dict[str, Any], layouts: Sequence[Layout]
) -> bool:  # fmt: skip
    """Whether a launch is worth a direct call; see kernels/direct_call.py."""
    viewed = any(isinstance(a, Read) and callable(a.view) for a in given)  # by a function, which may make a copy
    if viewed or not isinstance(kernel, Loop):
        return False
    read = [arguments[a.name] for a in given if isinstance(a, Read)]
    written = [layouts[a.number] for a in given if isinstance(a, Written)]
    constants = [a.nbytes for a in given if isinstance(a, np.ndarray)]
    return is_direct(call, sum([x.numel * x.numpy_dtype.itemsize for x in (*read, *written)], sum(constants)))


def _given(given: Sequence[Any]) -> tuple[tuple[int, str], ...]:
    """What a direct call gets: the number of the kernel's argument, and the expression. It knows the constants."""
    found = []
    for k, a in enumerate(given):
        if isinstance(a, Read):
            found.append((k, f"{a.name}._data"))
        elif isinstance(a, Written):
            found.append((k, f"data{a.number}"))
        elif isinstance(a, Number):
            found.append((k, a.name))
    return tuple(found)


def _shape(argument: Any, arguments: dict[str, Any], layouts: Sequence[Layout]) -> Any:
    """The shape of one of a kernel's arguments, None for a number; () where it is not known: no kernel takes such.

    Of an array that is part of the plan, the array.
    """
    if not isinstance(argument, (Read, Written)):
        return argument if isinstance(argument, np.ndarray) else None
    layout = arguments[argument.name] if isinstance(argument, Read) else layouts[argument.number]
    if isinstance(argument.view, tuple):
        return array_shape(argument.view, layout.numpy_dtype.itemsize)
    if argument.view in ("T", "mT"):
        *lead, rows, columns = layout.array_shape
        return (*lead, columns, rows)
    if argument.view == "columns":
        return _by_columns(layout.array_shape)
    return layout.array_shape if argument.view is None else ()


def _by_columns(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """The shape (count, columns, rows) of matrices, all dims before the last two taken as one."""
    *batch, rows, columns = shape
    return math.prod(batch), columns, rows


@functools.cache
def _maker(
    parameters: tuple[str, ...], pattern: tuple[tuple[str, ...], ...], ends: tuple[tuple[str, ...], ...],
    direct: tuple[tuple[tuple[int, str], ...], ...], used: int, plain: tuple[bool, ...], count: int, bare: bool,
) -> Callable[..., Any]:  # fmt: skip
    """``make(constants, kernels, calls, results)``, which returns ``compute``; see _COMPUTE.

    pattern: the texts of the kernels' arguments. ends: of what their compiled functions get after these. direct: what
    `_given` returns, () where the call is not direct. used: so many constants they need. plain: for each new array,
    whether ``np.empty`` makes it. count, bare: so many of them are results, which are returned as they are.
    """
    names = [f"c{k}" for k in range(used)]
    for k, row_major in enumerate(plain):
        names += [f"layout{k}", f"shape{k}", f"dtype{k}"] if row_major else [f"layout{k}", f"fresh{k}"]
    unpack = [f"{', '.join(names)}, = constants" if names else ""]
    unpack += [f"kernel{k}, call{k} = kernels[{k}], calls[{k}]" for k in range(len(pattern))]
    unpack += [f"calls{k}, call{k} = call{k}, refuse" for k, d in enumerate(direct) if d]
    again = f"\n            return compute(*all_resolved(({', '.join([*parameters, ''])})))"
    observed = "".join(f"\n                launch(kernel{k}, {', '.join(p)})" for k, p in enumerate(pattern))
    changed = [f"call{k}" for k, d in enumerate(direct) if d]
    outs = [f"out{k}" for k in range(count)]
    together = ", ".join(outs) + (", " if bare and count > 1 else "")
    text = _COMPUTE.format(
        unpack="\n    ".join(unpack),
        parameters=", ".join([*parameters, ""]),
        allocate="\n".join(
            [f"        nonlocal {', '.join(changed)}"] * bool(changed)
            + [
                f"        data{k} = {f'empty(shape{k}, dtype{k})' if row_major else f'fresh{k}()'}"
                for k, row_major in enumerate(plain)
            ]
        ),
        observed=observed or " pass",
        # What makes no result writes into arguments: ``launch`` stores to those whose arrays are lazy.
        retry=again if plain else observed or " pass",
        plain="".join(
            "\n                " + _run(k, ", ".join([*p, *e]), ", ".join([text for _, text in d]))
            for k, (p, e, d) in enumerate(zip(pattern, ends, direct, strict=True))
        )
        or " pass",
        wrap="\n".join(_WRAP.format(k=k) for k in range(count)),
        result=together if bare else f"results({together})",
    )
    scope: dict[str, Any] = {
        "launch": launch, "observers": observers, "empty": np.empty, "new": object.__new__, "Tensor": Tensor,
        "Unresolved": Unresolved, "NoValues": NoValues, "all_resolved": _all_resolved, "refuse": refuse,
        "tensor_observers": tensor_observers, "announce_tensor": announce_tensor, "__name__": __name__, "bits": _BITS,
    }  # fmt: skip
    exec(text, scope)
    return scope["make"]


def _run(number: int, arguments: str, given: str) -> str:
    """The statement that runs launch ``number``, by a direct call if there is something ``given`` to one."""
    call = f"call{number}"
    if not given:
        return f"{call}({arguments})"
    return f"if code := {call}({given}): {call} = calls{number}.other(code, {call}, ({given}, ), ({arguments}, ))"


def _all_resolved(args: tuple[Any, ...]) -> list[Any]:
    """The arguments with the tensors resolved whose arrays are lazy; Unresolved if there are none."""
    found = [resolved(a) if isinstance(a, Tensor) else a for a in args]
    if all(a is f for a, f in zip(args, found, strict=True)):
        raise Unresolved
    return found
