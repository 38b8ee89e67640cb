"""The gateway: every kernel of every op on every device starts in ``launch``.

A kernel is anything with a ``name``, a ``call`` and the positions of the arguments that it
writes: an emitted elementwise loop, a hand-written loop (``@loop``), or a routine of a library
under a name (``@library``). Whoever wants to see, count, time or record launches adds a function
to ``observers``; its method ``before``, if it has one, is called ahead of a launch, which is left
out if that returns True. What of the launch's seconds went into machine code stands in
``statistics.compilation``.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.argument_kinds import kinds_of
from jitgrad.kernels.cache_files import cache_directory
from jitgrad.kernels.codegen.rule_text import INLINE, INLINE_REASSOC, uncounted, words_text
from jitgrad.kernels.codegen.source import LoopSource, makes_arrays
from jitgrad.kernels.compile_ahead import ask, begun
from jitgrad.kernels.compiled_function import CompiledFunction
from jitgrad.kernels.compiler import compile_kernel
from jitgrad.kernels.device_array import DeviceArray, MetaArray, NoValues, check_one_device, run_on_device
from jitgrad.kernels.direct_call import refuse
from jitgrad.kernels.direct_parts import direct_calls, is_direct
from jitgrad.kernels.half_arrays import WidenedLoop, has_halves, is_half
from jitgrad.kernels.kept_texts import is_kept, kept_text
from jitgrad.kernels.kernel_text import CONTRACT, REASSOCIATE, KernelText, kernel_text
from jitgrad.kernels.lazy_array import LazyArray, Unresolved
from jitgrad.kernels.split_call import CUT, FIRST, LAST, SplitCall
from jitgrad.kernels.statistics import compilation
from jitgrad.kernels.words.syntax import parameters

__all__ = [
    "Kernel", "Loop", "check", "check_observers", "launch", "library", "loop", "loop_head", "observers", "prepared",
    "register_resolvers", "text_file", "unchecked",
]  # fmt: skip

Observer = Callable[["Kernel", tuple[Any, ...], float], None]
observers: list[Observer] = []


def launch(kernel: Kernel, *args: Any) -> None:
    """Run ``kernel`` on ``args``: input arrays, output arrays, scalars. Arrays that are lazy are resolved first."""
    if not observers:
        try:
            kernel.call(*args)
        except Unresolved:
            _launch_resolved(kernel, args)
        except NoValues:  # of a tensor on the device "meta", whose kernels compute nothing
            pass
        return
    if LazyArray in map(type, args):
        _launch_resolved(kernel, args)
        return
    for observer in tuple(observers):
        before = getattr(observer, "before", None)
        if before is not None and before(kernel, args):
            return
    compilation.seconds, compilation.compiled = 0.0, False
    start = time.perf_counter()
    with suppress(NoValues):
        kernel.call(*args)
    seconds = time.perf_counter() - start
    for observer in tuple(observers):
        observer(kernel, args, seconds)


# ``read(lazy)``: a new array of the numbers that a lazy one stands for; ``store(array, lazy)`` writes them to it.
# Both are launches of elementwise kernels, which are planned some floors above, in dispatch/launch_plan.py.
_resolvers: list[Callable[..., Any]] = []


def register_resolvers(read: Callable[[LazyArray], Any], store: Callable[[Any, LazyArray], None]) -> None:
    """Let ``launch`` resolve lazy arrays by these functions."""
    _resolvers[:] = read, store


def _launch_resolved(kernel: Kernel, args: tuple[Any, ...]) -> None:
    """Run a kernel on new arrays in the place of those that are lazy, and store what it wrote to them."""
    read, store = _resolvers
    lazy = {id(a): a for a in args if type(a) is LazyArray}
    if not lazy:  # hidden in an argument, where ``launch`` can't replace it
        raise Unresolved
    resolved = {key: read(a) for key, a in lazy.items()}
    launch(kernel, *[resolved.get(id(a), a) for a in args])
    for k in kernel.writes:
        if id(args[k]) in lazy:
            store(resolved[id(args[k])], args[k])


# Called with (found, fail, args) by `check`.
check_observers: list[Callable[[Any, Callable[..., Any], tuple[Any, ...]], None]] = []


unchecked: list[bool] = []  # not empty while kernels are given arrays without data, and so look for nothing


def check(found: Any, fail: Callable[..., Any], *args: Any) -> None:
    """Call ``fail(found, *args)``, which raises, unless the first element of ``found``, an int64 vector, is zero.

    ``found`` was made of zeros for a kernel that has just looked for what it can't take. A recorded program clears it
    before the kernel and repeats the check after it.
    """
    if check_observers:
        for observer in tuple(check_observers):
            observer(found, fail, args)
    try:
        failed = found.item(0)
    except NoValues:
        return
    if failed and not unchecked:
        fail(found, *args)


class Kernel:
    """A named computation on arrays; ``writes`` holds the positions of the arguments it changes."""

    __slots__ = ("call", "name", "writes")

    def __init__(self, name: str, call: Callable[..., None], writes: tuple[int, ...]):
        self.name, self.call, self.writes = name, call, writes

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"

    def shapes(self, args: tuple[Any, ...]) -> dict[int, tuple[int, ...]]:
        """Position and shape of the arguments that hold tensors' values."""
        return {k: tuple(a.shape) for k, a in enumerate(args) if isinstance(getattr(a, "shape", None), tuple)}

    def origin(self) -> str:
        """Where the kernel's text is: a file in the cache, or the function that it wraps."""
        return _origin(self.call) or self.name

    def compiled_for(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """(the function that a launch on ``args`` ends up calling, its arguments); a `CompiledFunction` if compiled."""
        return getattr(self.call, "run", self.call), args  # run: of a SplitCall

    def uncompiled(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]] | None:
        """(text, argument kinds) of what a launch on ``args`` would compile; None for nothing that is kept on disk."""
        compiled, given = self.compiled_for(args)
        if not isinstance(compiled, CompiledFunction) or compiled.definitions:  # a user's text may come from anywhere
            return None
        kinds = kinds_of(given)
        return None if kinds in compiled.overloads else (compiled.made, kinds)

    def ask(self, *args: Any) -> None:
        """Have the other process, if there is one, compile the kernel for a launch on ``args`` that comes soon."""
        if begun() and (wanted := self.uncompiled(args)):
            ask(*wanted)


def library(*writes: str) -> Callable[[Callable[..., None]], Kernel]:
    """Wrap a call of BLAS, LAPACK, FFT or sort as a kernel; ``writes`` names the outputs."""

    def wrap(function: Callable[..., None]) -> Kernel:
        places = parameters(function)
        return Kernel(function.__name__, function, tuple(places.index(w) for w in writes))

    return wrap


# PyTorch sums small integers as int64, and float32 in double precision where this costs nothing.
_ACCUMULATORS = {"bool": "int64", "uint8": "int64", "int8": "int64", "int16": "int64", "int32": "int64"}
_WIDE = _ACCUMULATORS | {"float32": "float64", "complex64": "complex128"}
# Elements from which two threads are quicker, by a tenth to a fifth, for a loop that takes half a nanosecond for each.
SPLIT_SIZE = 1 << 14


def loop_head(dtype: str, source: LoopSource) -> str:
    """The text before a loop's own: its types for compute dtype ``dtype``, and the words that it calls."""
    scalar = {"bool": "bool_"}.get(dtype, dtype)
    types = f"T = np.{scalar}\nA = np.{_ACCUMULATORS.get(dtype, scalar)}\nW = np.{_WIDE.get(dtype, scalar)}\n"
    return types + words_text(source.words, dtype)


class Loop(Kernel):
    """A loop written by hand: its text is specialised to the dtype of its leading array."""

    __slots__ = (
        "dtype_from", "fastmath", "grain", "parts", "parts_per_thread", "pieces", "source", "split", "variants",
    )  # fmt: skip

    def __init__(
        self, function: Callable[..., None], reassoc: bool, split: tuple[str, ...], dtype_from: str | None, grain: int,
        pieces: Callable[..., tuple[int, int]] | None, parts_per_thread: int = 2,
    ):  # fmt: skip
        inline = INLINE_REASSOC if reassoc else INLINE
        self.source, self.pieces = LoopSource(function, inline=inline, uncounted=uncounted(inline)), pieces
        parameters = self.source.parameters
        # ``writes`` is left to __getattr__
        self.name, self.call = function.__name__, self._dispatch if pieces is None else self._dispatch_pieces
        self.fastmath = REASSOCIATE if reassoc else CONTRACT
        self.grain, self.parts_per_thread = grain, parts_per_thread
        self.split = tuple(parameters.index(s) for s in split)
        self.dtype_from = parameters.index(dtype_from) if dtype_from else 0
        # By the dtype object itself: hashing one costs less than taking its name.
        self.variants: dict[np.dtype[Any], Callable[..., None]] = {}
        self.parts: dict[np.dtype[Any], SplitCall] = {}  # of those, the ones that have been run on several threads

    def __getattr__(self, name: str) -> Any:
        """Attributes that are not there yet: ``writes`` is read off the text if it is asked for before any variant."""
        if name != "writes":
            raise AttributeError(f"a loop kernel has no attribute {name!r}")
        self.writes = self.source.writes
        return self.writes

    def text(self, dtype: str) -> str:
        """The self-contained source for compute dtype ``dtype``."""
        return f"{loop_head(dtype, self.source)}\n{self.source.text()}"

    def _text(self, dtype: str) -> KernelText:
        text = self.text(dtype)
        made = kernel_text(self.name, text, self.fastmath, allocates=makes_arrays(text))
        return made._replace(writes=self.source.writes) if is_kept(self.source.function) else made

    def origin(self) -> str:
        """Where the text of the latest variant is."""
        return _origin(next(reversed(self.variants.values()), None)) or self.name

    def compiled_for(self, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The compiled loop for the dtype of ``args``, and what it gets."""
        return self.variant(args[self.dtype_from].dtype), args if self.pieces is None else (*args, 0, 1)

    def variant(self, dtype: np.dtype[Any]) -> Callable[..., None]:
        """Return the compiled loop for ``dtype``."""
        if dtype not in self.variants and is_half(dtype):
            self.variants[dtype] = WidenedLoop(self.variant(np.dtype("float32")), lambda: self.writes)
        elif dtype not in self.variants:
            start = time.perf_counter()
            made = kept_text(self.source.function, f"{dtype.name} {self.source.inline}", lambda: self._text(dtype.name))
            if made.writes is not None:
                self.writes = made.writes
            self.variants[dtype] = compile_kernel(made)
            compilation.seconds += time.perf_counter() - start
        return self.variants[dtype]

    def ready(self, dtype: np.dtype[Any], shapes: Sequence[Any]) -> tuple[Callable[..., None], tuple[int, ...]]:
        """What ``call`` would run for a dtype and arguments of these shapes (None: a number), and its last arguments.

        A `SplitCall`, if they are so large that the number of threads decides. An array that is always the same may
        stand in the place of its shape.
        """
        if self.pieces is None:
            leading = shapes[self.dtype_from]
            many = self.split and (leading is None or math.prod(leading) >= self.grain)
            return (self.in_parts(dtype) if many else self.variant(dtype)), ()
        one = np.zeros((), dtype)  # what counts pieces may ask for the size of an element
        count, elements = self.pieces(*[np.broadcast_to(one, s) if isinstance(s, tuple) else s for s in shapes])
        many = count > 1 and elements >= self.grain
        return (self.in_parts(dtype) if many else self.variant(dtype)), (0, count)

    def in_parts(self, dtype: np.dtype[Any]) -> SplitCall:
        """The compiled loop for ``dtype`` on several threads."""
        if is_half(dtype):
            return WidenedLoop(self.in_parts(np.dtype("float32")), lambda: self.writes)  # type: ignore[return-value]
        if dtype not in self.parts:
            cut = dict.fromkeys(self.split, CUT) if self.pieces is None else {-2: FIRST, -1: LAST}
            place = self.dtype_from
            self.parts[dtype] = SplitCall(
                self.variant(dtype), cut, lambda args: args[place].size, self.grain // 2,
                parts_per_thread=self.parts_per_thread,
            )  # fmt: skip
        return self.parts[dtype]

    def _dispatch(self, *args: Any) -> None:
        array = args[self.dtype_from]
        if isinstance(array, DeviceArray):
            return run_on_device(self.name, args)
        try:
            run = self.variants[array.dtype]
        except KeyError:
            run = self.variant(array.dtype)
        if self.split and array.size >= self.grain and threads.get_num_threads() > 1:
            return self.in_parts(array.dtype)(*args)
        try:
            return run(*args)
        # Numba takes no device array; the error should say so, and checking beforehand would cost every launch.
        except TypeError:
            if MetaArray in map(type, args):
                return None
            check_one_device(args)
            if has_halves(args) and not is_half(array.dtype):
                return WidenedLoop(run, lambda: self.writes)(*args)
            raise

    def _dispatch_pieces(self, *args: Any) -> None:
        array = args[self.dtype_from]
        if isinstance(array, DeviceArray):
            return run_on_device(self.name, args)
        count, elements = self.pieces(*args)  # type: ignore[misc]
        if count > 1 and elements >= self.grain and threads.get_num_threads() > 1:
            return self.in_parts(array.dtype)(*args, 0, count)
        run = self.variants.get(array.dtype) or self.variant(array.dtype)
        try:
            return run(*args, 0, count)
        except TypeError:
            if MetaArray in map(type, args):
                return None
            raise


_PREPARED = """\
def make(kernel, call, first, end, calls):
    direct = refuse
    def run({given}):
        nonlocal direct
        try:
            if observers: launch(kernel, {arguments})
            {call}
        except Unresolved:
            launch(kernel, {arguments})
    return run
"""
_CALL = {
    False: "else: call({arguments}{pieces})",
    True: "elif code := direct({given}): direct = calls.other(code, direct, ({given}, ), ({arguments}{pieces}, ))",
}


@functools.cache
def _preparer(count: int, flat: int, in_pieces: bool, direct: bool) -> Callable[..., Callable[..., None]]:
    scope: dict[str, Any] = {"observers": observers, "launch": launch, "Unresolved": Unresolved, "refuse": refuse}
    given = [f"a{k}" for k in range(count)]
    arguments = ", ".join([f"{a}.reshape(-1)" if k < flat else a for k, a in enumerate(given)])
    call = _CALL[direct].format(given=", ".join(given), arguments=arguments, pieces=", first, end" if in_pieces else "")
    exec(_PREPARED.format(given=", ".join(given), arguments=arguments, call=call), scope)
    return scope["make"]


def prepared(
    kernel: Loop, dtype: np.dtype[Any], *shapes: tuple[int, ...] | None, flat: int = 0
) -> Callable[..., None]:  # fmt: skip
    """``launch`` of a loop on NumPy's arrays of these shapes (None: a number), without choosing again at each call.

    flat: so many of the first may come in other shapes, row-major; the loop gets them as vectors. A direct call takes
    them as they are, which saves making the views.
    """
    call, last = kernel.ready(dtype, shapes)
    known = [math.prod(s) for s in shapes if s is not None]  # 8 bytes each at most, but for complex numbers
    direct = is_direct(call, 8 * sum(known))
    return _preparer(len(shapes), flat, bool(last), direct)(kernel, call, *(last or (0, 0)), direct_calls(call))


def text_file(function: Any) -> str:
    """The name under which ``linecache`` has the text of a compiled function; "" for a routine of a library."""
    code = getattr(getattr(function, "py_func", None), "__code__", None)
    # A user's loop has the name of the user's file in its code.
    return getattr(function, "text_file", "") or (code.co_filename if code is not None else "")


def _origin(function: Any) -> str:
    name = text_file(function) or getattr(getattr(function, "__code__", None), "co_filename", "")
    return str(cache_directory() / name[len("<jitgrad ") : -1]) if name.startswith("<jitgrad ") else name


def loop(
    function: Callable[..., None] | None = None, *, reassoc: bool = False, split: tuple[str, ...] = (),
    dtype_from: str | None = None, grain: int = SPLIT_SIZE, pieces: Callable[..., tuple[int, int]] | None = None,
    parts_per_thread: int = 2,
) -> Any:  # fmt: skip
    """Declare a hand-written loop kernel.

    The function takes arrays and scalars, outputs after inputs, and names only its parameters,
    ``np``, ``math``, words, ``T`` (compute dtype: that of ``dtype_from``, by default the first
    parameter), ``A`` (accumulator dtype: int64 for integers) and ``W`` (the same, but float64 for
    float32: for totals of block sums). Float literals are read as ``T``. ``reassoc`` allows
    sums to be reordered, in the functions that it calls too, but not in words. ``split`` names the arrays that are
    cut along axis 0 for several threads, when rows are independent, where the array that gives the dtype has ``grain``
    elements.
    ``pieces`` is for work that is cut otherwise: given the arguments it returns how many pieces there are, and of
    how many elements in all, where threads pay from ``grain`` on. The function then has two more parameters, the
    first piece that it is to do and the one after its last. Every thread gets all of the arrays, so pieces may not
    write to the same element. ``parts_per_thread``: into how many parts the share of a thread is cut, so that a quick
    thread takes over parts of a slow one; 1 where each part has costs of its own, such as copies.
    """

    def wrap(function: Callable[..., None]) -> Loop:
        return Loop(function, reassoc, split, dtype_from, grain, pieces, parts_per_thread)

    return wrap if function is None else wrap(function)
