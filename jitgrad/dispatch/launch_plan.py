"""From layouts to a launch: which kernel, layouts of the results, and the kernel's arguments.

Whatever depends on shapes and dtypes alone is computed once for each combination of layouts and kept in a LaunchPlan;
after that an op is one dictionary look-up, one allocation and one call of the kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.core.dtypes import HALVES
from jitgrad.core.errors import same_device
from jitgrad.core.layout import Layout, broadcast_strides, cache, collapse, intern, is_dense, layout_of
from jitgrad.core.storage import allocator, device_of_array
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.core.tensor_observers import announce_tensor, tensor_observers
from jitgrad.dispatch.strides import copied_strides, dense_strides, empty_with_strides, result_strides
from jitgrad.kernels import threads
from jitgrad.kernels.codegen.emit_cpu import TILE, Argument
from jitgrad.kernels.codegen.rules import Rule
from jitgrad.kernels.cuda import provider as cuda
from jitgrad.kernels.device_array import missing_kernel
from jitgrad.kernels.direct_call import refuse
from jitgrad.kernels.direct_parts import direct_calls, is_direct
from jitgrad.kernels.elementwise.arithmetic import ConjPhysical, Neg
from jitgrad.kernels.elementwise.declaration import elementwise_kernel, splits, streams
from jitgrad.kernels.launch import Kernel, launch, observers, register_resolvers
from jitgrad.kernels.lazy_array import LazyArray, Unresolved

__all__ = ["LaunchPlan", "plan_elementwise", "resolved"]


class LaunchPlan:
    """One kernel for one combination of layouts, with the layouts of its results.

    ``compute(*tensors, *numbers)`` launches it and returns the results as new tensors;
    ``write(*tensors, *numbers, array)`` puts its one result into an existing array. ``tail`` are the kernel's last
    arguments: sizes and strides, for the forms of loops that have them.
    """

    __slots__ = ("compute", "kernel", "layouts", "tail", "write")

    def __init__(self, kernel: Any, counts: tuple[int, int], layouts: tuple[Layout, ...], form: str,
                 tail: tuple[Any, ...], uploads: tuple[int, ...] = (),
                 expanded: tuple[int, ...] = (), halves: tuple[int, ...] = (),
                 gapless: tuple[int, ...] = (), direct: bool = False):  # fmt: skip
        self.kernel, self.layouts, self.tail = kernel, layouts, tail
        self.compute = _launcher(*counts, len(layouts), form, False, uploads, expanded, halves, gapless, direct)(self)
        self.write = _launcher(*counts, len(layouts), form, True, uploads, expanded, halves, gapless, direct)(self)


# How a launch passes an array to the kernel, by form. Flat loops want one dimension; ravel("K") is a view of dense
# memory in any order of dims. Strided loops get the first element and index from it, so that one compiled overload
# serves every rank, permutation and broadcast; a row-major array begins with it, and as a vector is made sooner.
_ARRAY = {"1d": "{}", "flat": "{}.ravel()", "permuted": "{}.ravel('K')", "strided": "first_element({})",
          "tiled strided": "first_element({})", "device flat": "{}", "device strided": "{}"}  # fmt: skip
_FLAT = ("1d", "flat", "permuted")
_TAILS = {"strided": 4, "tiled strided": 4, "device flat": 1, "device strided": 2}
_FRESH = """\
        data{k} = empty(shape{k}, dtype{k}) if plain{k} else fresh{k}()"""
_WRAP = """\
        out{k} = new(Tensor); out{k}._data = data{k}; out{k}._layout = layout{k}
        if tensor_observers: announce_tensor(out{k})"""
_LAUNCHER = """\
def make(plan):
    kernel, layouts, tail, call = plan.kernel, plan.layouts, plan.tail, plan.kernel.call
{constants}
    def launcher({parameters}):
{allocate}
        try:  # costs nothing while nothing is raised
            # launch, written out: with nobody observing it is the bare call.
            if observers: launch(kernel, {arguments})
            {call}
        except Unresolved:
            {retry}
{wrap}
        return {results}
    return launcher
"""


# What runs the kernel: the dispatcher or, of a short kernel, a call that knows the arguments' types.
_CALL = {
    False: "else: call({arguments})",
    True: "elif code := direct({given}): direct = calls.other(code, direct, ({given}, ), ({arguments}, ))",
}

# On lazy arrays a launcher calls itself again with resolved ones; see kernels/lazy_array.py.
_RETRY = {
    False: "return launcher(*all_resolved(({tensors})){numbers})",
    True: "return write_resolved(launcher, ({tensors}), data0, layout0{numbers})",
}


@functools.cache
def _launcher(
    inputs: int, numbers: int, outputs: int, form: str, target: bool, uploads: tuple[int, ...] = (),
    expanded: tuple[int, ...] = (), halves: tuple[int, ...] = (), gapless: tuple[int, ...] = (), direct: bool = False,
) -> Callable[[LaunchPlan], Callable[..., Any]]:  # fmt: skip
    """``make(plan)``, which returns ``compute`` or, for a ``target``, ``write``, for these counts of arguments.

    uploads: the inputs that have to be copied to the device of the others first. expanded: those that are one number,
    of which the kernel gets the first element. halves: the arrays, inputs and then results, of float16 and bfloat16, of
    which it gets the bits. gapless: those, in the order of ``halves``, that strided loops get as vectors. direct:
    whether the kernel is called directly; see kernels/direct_call.py.

    Generated as text, as namedtuple generates methods: these are the library's hottest functions, and loops over one or
    two arguments would double their cost. For the same reason ``launch`` is written out in them: it tests ``observers``
    and calls the kernel, and a call of it with a variable number of arguments takes 100 of 1,000 ns.
    """
    tensors, scalars = [f"x{k}" for k in range(inputs)], [f"number{k}" for k in range(numbers)]
    count = range(outputs)
    constants = [
        f"    layout{k} = layouts[{k}]; shape{k} = layout{k}.shape; dtype{k} = layout{k}.numpy_dtype\n"
        f"    plain{k} = layout{k}.plain; fresh{k} = allocator(layout{k})"
        for k in count
    ]
    tail = [f"tail{k}" for k in range(_TAILS.get(form, 0))]
    if tail:
        constants.append(f"    {', '.join(tail)}, = tail")
    if direct:
        constants.append("    calls, direct = direct_calls(call), refuse")
    values = [f"uploaded({t}._data)" if k in uploads else f"{t}._data" for k, t in enumerate(tensors)]
    forms = [_ARRAY["strided" if k in expanded else form] for k in range(inputs)] + [_ARRAY[form]] * outputs
    forms = [_ARRAY["flat"] if k in gapless else f for k, f in enumerate(forms)]
    values += [f"data{k}" for k in count]
    values = [f"{v}.view(uint16)" if k in halves else v for k, v in enumerate(values)]
    arrays = [f.format(a) for f, a in zip(forms, values, strict=True)]
    given = ", ".join([*[f"{t}._data" for t in tensors], *[f"data{k}" for k in count], *scalars])
    arguments = ", ".join([*arrays, *scalars, *tail])
    text = _LAUNCHER.format(
        constants="\n".join(constants),
        parameters=", ".join([*tensors, *scalars, *(["data0"] if target else [])]),
        allocate="\n".join(
            ["        nonlocal direct"] * direct + [_FRESH.format(k=k) for k in count if not target]
        ),
        arguments=arguments,
        call=_CALL[direct].format(given=given, arguments=arguments),
        wrap="\n".join([] if target else [_WRAP.format(k=k) for k in count]),
        results="None" if target else ", ".join(f"out{k}" for k in count),
        retry=_RETRY[target].format(tensors=", ".join([*tensors, ""]), numbers="".join(f", {s}" for s in scalars)),
    )
    scope = {
        "launch": launch, "observers": observers, "empty": np.empty, "allocator": allocator, "uint16": np.dtype("u2"),
        "new": object.__new__, "Tensor": Tensor, "first_element": first_element,
        "Unresolved": Unresolved, "all_resolved": _all_resolved, "write_resolved": _write_resolved,
        "direct_calls": direct_calls, "refuse": refuse,
        "uploaded": cuda.uploaded, "tensor_observers": tensor_observers, "announce_tensor": announce_tensor,
    }  # fmt: skip
    exec(text, scope)
    return scope["make"]  # type: ignore[return-value]


# -- lazy arrays --------------------------------------------------------------------------------------


def resolved(x: Tensor) -> Tensor:
    """The numbers of a tensor whose array is lazy, unrecorded in new memory of the same layout; else ``x`` itself."""
    return wrap(_read(x._data), x._layout) if type(x._data) is LazyArray else x


def _all_resolved(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    found = [resolved(t) for t in tensors]
    if all(t is f for t, f in zip(tensors, found, strict=True)):
        raise Unresolved
    return found


def _write_resolved(write: Callable[..., None], tensors: tuple[Tensor, ...], data: Any, layout: Layout,
                    *numbers: Any) -> None:  # fmt: skip
    """Launch a ``write`` some of whose arrays are lazy; ``data``, the target, is of ``layout``."""
    if type(data) is not LazyArray:
        write(*_all_resolved(tensors), *numbers, data)
        return
    given = [resolved(t) for t in tensors]
    result = given[0]._data if tensors[0]._data is data else empty_with_strides(layout)
    write(*given, *numbers, result)
    _store(result, data)


def _read(lazy: LazyArray) -> Any:
    """A new array, with the strides of a lazy one, of the numbers that it stands for."""
    layout = layout_of(lazy.memory, device_of_array(lazy.memory))
    array = empty_with_strides(layout)
    _apply_bits(lazy, wrap(lazy.memory, layout), array)
    return array


def _store(array: Any, lazy: LazyArray) -> None:
    """Write the numbers of ``array`` to a lazy one of the same shape."""
    _apply_bits(lazy, wrap(array, layout_of(array, device_of_array(array))), lazy.memory)


def _apply_bits(lazy: LazyArray, source: Tensor, target: Any) -> None:
    """Write the numbers of ``source``, conjugated and negated as the bits of ``lazy`` say, to an array.

    This reads a lazy array and also stores to one, since both operations are their own inverses.
    """
    ops = [op for bit, op in ((lazy.conjugate, ConjPhysical), (lazy.negative, Neg)) if bit]
    for op in ops:
        layout = layout_of(target, source._layout.device)
        plan = _bit_plans.get((op, source._layout, layout))
        if plan is None:
            plan = _bit_plans[op, source._layout, layout] = plan_elementwise(
                f"{op.name}_forward", [(op.rule, "out")], [Argument("x", "array")], [source._layout],
                layout.numpy_dtype, layout.shape, [layout.numpy_dtype], target=layout,
            )  # fmt: skip
        plan.write(source, target)
        source = wrap(target, layout)


_bit_plans: dict[Any, LaunchPlan] = cache()
register_resolvers(_read, _store)


def first_element(array: Any) -> Any:
    """A contiguous view of an array's first element, from which strided kernels index (without dims: the array)."""
    return (array[(slice(0, 1),) * array.ndim] if array.ndim else array).ravel()


def plan_elementwise(
    name: str, rules: Sequence[tuple[Rule, str]], arguments: Sequence[Argument], inputs: Sequence[Layout],
    dtype: np.dtype[Any], shape: tuple[int, ...], out_dtypes: Sequence[np.dtype[Any]], conjugate: bool = False,
    target: Layout | None = None, order: str = "inputs", inplace: bool = False,
) -> LaunchPlan:  # fmt: skip
    """Plan the launch of a kernel that evaluates ``rules`` on arrays of layouts ``inputs``.

    name: the kernel's. rules: (rule, name of its result) pairs. arguments: the operands of the rules, those that are
    arrays in the order of ``inputs``. dtype: what the kernel computes in. shape, out_dtypes: those of the results;
    ``target``: the layout of an existing array, into which the one result goes; inplace: whether that is the array of
    the first input. conjugate: whether the first argument and the results are conjugated, as complex gradients are.
    order: that of the results in memory, as ``Elementwise.memory_order`` says, or "several shapes" where PyTorch makes
    tensors without dims of numbers among the inputs: a size of 1 then has another stride.
    """
    # The device of any tensor that is not on the CPU: of those there, only tensors without dims have passed the checks.
    device: Any = next((x.device for x in inputs if x.device != "cpu"), "cpu")
    if target is not None and target.device != device:
        raise same_device(name.removesuffix("_forward"), target.device, device)
    arguments, walked = _read_once(arguments, inputs, shape) if device == "cpu" else (arguments, inputs)
    strides = None
    if order == "copy" and inputs[0].shape == shape:
        strides = copied_strides(inputs[0])
    elif order == "several shapes":
        strides = dense_strides(inputs, shape)
    elif order != "row-major":
        strides = result_strides(inputs[::-1] if order == "last input first" else inputs, shape)
    outs = [target] if target else [intern(d, shape, strides, device) for d in out_dtypes]
    form, tail = _form([*walked, *outs], shape, outs[0])
    if len(walked) < len(inputs):
        if form.endswith("strided"):  # where strides are needed anyway, one of 0 does the same
            arguments, walked = [a._replace(once=False) for a in arguments], inputs
            form, tail = _form([*inputs, *outs], shape, outs[0])
        elif form == "1d":
            form = "flat"  # the single elements may have no dimension
    wide = False
    if device != "cpu" and device.type == "meta":
        form, tail = "device flat", (0,)
    elif device != "cpu":
        if any(x.dtype.is_half for x in (*inputs, *outs)):
            raise missing_kernel(name, " for floats of 16 bits")
        form, tail, wide = _device_form(form, [*inputs, *outs], shape, outs[0])
    row_steps = _row_steps(tail[1], len(outs)) if form == "strided" and outs[0].numel >= ROWS_SIZE else ()
    # The kernel drops imaginary parts where a result is real; that of a comparison, which an array of reals may get
    # as 0 and 1, has none.
    stored = [
        d.name if d.kind == "b" and not o.dtype.is_half else o.numpy_dtype.name
        for d, o in zip(out_dtypes, outs, strict=True)
    ]
    halves = () if device != "cpu" else tuple([k for k, x in enumerate([*inputs, *outs]) if x.dtype.is_half])
    if halves:
        dtype, arguments = _COMPUTE.get(dtype.name, dtype), _of_halves(arguments, inputs)
    written = inplace and device == "cpu" and outs[0].numel >= INPLACE_SIZE
    nbytes = sum([x.numel * x.numpy_dtype.itemsize for x in (*inputs, *outs)])
    kernel = elementwise_kernel(
        name, rules, arguments, stored, dtype.name, strided=form.endswith("strided"),
        parallel=device == "cpu" and threads.helpers_for(2) > 0 and splits(rules, outs[0].numel),
        conjugate=conjugate, device="cpu" if device == "cpu" else device.type, wide=wide,
        row_steps=row_steps, tiled=form == "tiled strided",
        inplace=written, streamed=device == "cpu" and not written and form in _FLAT and streams(rules, nbytes),
    )  # fmt: skip
    if outs[0].numel == 0:  # observers see the launch, but nothing is compiled for it
        kernel = Kernel(name, _nothing, ())
    counts = len(inputs), sum(a.kind == "scalar" for a in arguments)
    meta = device != "cpu" and device.type == "meta"
    uploads = () if meta else tuple(k for k, x in enumerate(inputs) if x.device != device)
    expanded = tuple(k for k, x in enumerate(inputs) if x not in walked and x.numel > 1)
    strided = form in ("strided", "tiled strided")
    gapless = tuple([k for k, x in enumerate([*inputs, *outs]) if strided and x.contiguous and k not in expanded])
    direct = is_direct(kernel.call, nbytes) and (not counts[1] or dtype.kind != "c")
    return LaunchPlan(kernel, counts, tuple(outs), form, tail, uploads, expanded, halves, gapless, direct)


_COMPUTE = dict.fromkeys(HALVES, np.dtype("float32"))  # what kernels compute in for dtypes of 16 bits


def _of_halves(arguments: Sequence[Argument], inputs: Sequence[Layout]) -> list[Argument]:
    """The arguments, with the dtypes of those that are arrays of float16 or bfloat16."""
    names = iter([x.dtype.name if x.dtype.is_half else "" for x in inputs])
    return [a._replace(half=next(names)) if a.kind == "array" else a for a in arguments]


# Elements from which a strided loop is compiled for the innermost strides, 0 or 1 each, that it meets: it is three to
# five times as fast, and one more kernel to compile.
ROWS_SIZE = 1 << 13


# Elements from which an op in place has a kernel of its own, whose loop is a vector loop.
INPLACE_SIZE = 1 << 10


def _row_steps(strides: np.ndarray, outputs: int) -> tuple[int, ...]:
    """The innermost strides of the arrays of a strided loop, inputs and then outputs; () unless all are 0 or 1.

    And () where an output's is 0, as that of an expanded tensor's copy: the loops step through what they write.
    """
    steps = tuple(int(s) for s in strides[:, -1])
    return steps if set(steps) <= {0, 1} and all(steps[-outputs:]) else ()


def _read_once(
    arguments: Sequence[Argument], inputs: Sequence[Layout], shape: tuple[int, ...]
) -> tuple[Sequence[Argument], Sequence[Layout]]:
    """The arguments, with inputs of one element among longer ones marked ``once``, and the layouts of the others.

    A kernel reads such an input before the loop, so ``x * tensor(2.0)`` is a flat loop and not a strided one. So is
    what takes a number that was expanded, such as the gradient of ``sum``, whose strides are all 0.
    """
    single = [_is_one_number(x) if x.numel > 1 else x.numel == 1 and x.shape != shape for x in inputs]
    if not any(single) or (all(single) and all(x.numel == 1 for x in inputs)):
        return arguments, inputs
    marks = iter(single)
    marked = [a._replace(once=next(marks)) if a.kind == "array" else a for a in arguments]
    return marked, [x for x, s in zip(inputs, single, strict=True) if not s]


def _is_one_number(x: Layout) -> bool:
    """Whether all elements are one in memory."""
    return all(s == 0 or n == 1 for s, n in zip(x.strides, x.shape, strict=True))


def _nothing(*args: Any) -> None:
    """The kernel of empty tensors, for which none has to be compiled; launches of it are observed as others are."""


def _device_form(
    form: str, every: Sequence[Layout], shape: tuple[int, ...], out: Layout
) -> tuple[str, tuple[Any, ...], bool]:
    """(form of a launch on a device, its ``tail``, whether indices need 64 bits); those of 32 bits are quicker."""
    n = int(np.prod(shape, dtype=np.int64))
    if not form.endswith("strided"):
        return "device flat", (n,), False
    sizes, steps = _loops(every, shape, out)
    wide = n + sum(abs(s) * size for step in steps for s, size in zip(step, sizes, strict=True)) >= 1 << 32
    return "device strided", (cuda.geometry(sizes, steps, wide), n), wide


def _form(every: Sequence[Layout], shape: tuple[int, ...], out: Layout) -> tuple[str, tuple[Any, ...]]:
    """(form of a launch on the CPU, its ``tail``): the simplest loop that visits all arrays in step."""
    same = all(x.shape == shape for x in every)
    if same and all(x.contiguous for x in every):
        return ("1d" if len(shape) == 1 else "flat"), ()
    # One order of dims for all: the loop may walk through memory as it lies, without any strides.
    if same and all(x.strides == out.strides for x in every) and is_dense(out):
        return "permuted", ()
    if out.numel == 0:
        return "flat", ()  # nothing to do; the loop's bound is the empty result
    # Unsigned: Numba checks signed indices for negative values, and LLVM then does not vectorise the loop.
    sizes, steps = _loops(every, shape, out)
    across = _dim_across(sizes, steps)
    tiled = across is not None and sizes[-1] >= TILE
    if across is not None:  # before the last of the dims for squares, else in its place
        place = -1 if tiled else len(sizes)
        for values in (sizes, *steps):
            values.insert(place, values.pop(across))
    rows = math.prod(sizes[:-2]) * -(-sizes[-2] // TILE) if tiled else math.prod(sizes[:-1])
    tail = (np.array(sizes, np.uint64), np.array(steps, np.uint64), 0, rows)
    return "tiled strided" if tiled else "strided", tail


# Elements from which another variant of a kernel pays, which visits squares: twice as fast in cache, more beyond.
TILED_SIZE = 1 << 12


def _dim_across(sizes: list[int], steps: list[list[int]]) -> int | None:
    """The dim along which some input's memory runs, if it isn't the last one and long enough for a loop of its own."""
    if math.prod(sizes) < TILED_SIZE:
        return None
    for step in steps:
        across = min(range(len(sizes)), key=lambda d: (step[d] or math.inf, -sizes[d]))
        if step[-1] > step[across] > 0 and sizes[across] >= TILE:
            return across
    return None


def _loops(every: Sequence[Layout], shape: tuple[int, ...], out: Layout) -> tuple[list[int], list[list[int]]]:
    """(sizes, strides for each array) of nested loops, outermost first, which write ``out`` in order of memory."""
    order = sorted(range(len(shape)), key=lambda d: -abs(out.strides[d]))  # stable: of a row-major result that of dims
    steps = [broadcast_strides(x, shape) for x in every]
    return collapse(tuple([shape[d] for d in order]), [tuple([s[d] for d in order]) for s in steps])
