"""Steps of optimisers: a loop over one parameter, and one launch over all of them.

Each loop is written for one parameter, flat: parameter, gradient, state, the counters, of which ``step`` is the last,
where it has them, then the hyper-parameters as run-time numbers, ``lr`` first. ``foreach`` makes a kernel of it that
takes the arrays of any number of parameters, of any shapes, and is compiled once. ``adaptive_optimizers.py`` has more
loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgrad.kernels import threads
from jitgrad.kernels.argument_kinds import kinds_of
from jitgrad.kernels.compile_ahead import ask
from jitgrad.kernels.compiler import compile_kernel
from jitgrad.kernels.device_array import DeviceArray, MetaArray, run_on_device
from jitgrad.kernels.direct_call import refuse
from jitgrad.kernels.direct_parts import direct_calls
from jitgrad.kernels.kept_texts import kept_text
from jitgrad.kernels.kernel_text import KernelText, kernel_text
from jitgrad.kernels.launch import Kernel, Loop, loop
from jitgrad.kernels.lazy_array import LazyArray, Unresolved
from jitgrad.kernels.numba_flags import numba_flag
from jitgrad.kernels.split_call import FIRST, LAST, PART, SplitCall
from jitgrad.kernels.words import maximum
from jitgrad.kernels.words.vocabulary import T

__all__ = [
    "COUNTERS",
    "Foreach",
    "adagrad",
    "adam",
    "ask_for_step",
    "foreach",
    "rmsprop",
    "sgd",
    "sgd_momentum",
]

# Arrays of one element that a step advances, of one dtype, which is not the parameter's.
COUNTERS = ("mu_product", "mu", "eta", "step")


@loop
def sgd(param, grad, lr, weight_decay, maximize):
    """param -= lr (grad + weight_decay param)."""
    rate, decay, sign = T(lr), T(weight_decay), T(-1 if maximize else 1)
    for i in range(param.size):
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * param[i]
        param[i] -= rate * g


@loop
def sgd_momentum(param, grad, buffer, lr, momentum, dampening, weight_decay, nesterov, maximize, fresh):
    """buffer = momentum buffer + (1 - dampening) grad, or grad the first time; param -= lr buffer."""
    rate, decay, sign = T(lr), T(weight_decay), T(-1 if maximize else 1)
    # 0 * buffer would be NaN if the uninitialised buffer held one: it is cleared first.
    keep, damped = T(momentum), T(1 - dampening)
    if fresh:
        keep, damped = T(0), T(1)
        for i in range(buffer.size):
            buffer[i] = 0
    look = T(momentum)
    for i in range(param.size):
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * param[i]
        b = keep * buffer[i] + damped * g
        buffer[i] = b
        param[i] -= rate * (g + look * b if nesterov else b)


def bias_corrections(step, lr, beta1, beta2):
    """Adam's rate and the root of its second correction, in float64 as PyTorch has them."""
    # 1 - beta**step cancels: float32 would keep four of seven digits for beta = 0.999 at the first step.
    count = np.float64(step)
    return lr / (1 - beta1**count), np.sqrt(1 - beta2**count)


@loop
def adam(
    param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, decoupled, amsgrad,
    maximize,
):  # fmt: skip
    """Adam; AdamW where the decay is ``decoupled`` from the gradient. Advances ``step``.

    ``max_exp_avg_sq`` is read and written for ``amsgrad`` alone: else any array of the size will do.
    """
    step[0] += 1
    corrected = bias_corrections(step[0], lr, beta1, beta2)
    # The inverse: with one division an element instead of two the loop takes a fifth less.
    rate, inverse = T(corrected[0]), T(1 / corrected[1])
    new, keep2, new2, tiny = T(1 - beta1), T(beta2), T(1 - beta2), T(eps)
    decay, sign = T(0 if decoupled else weight_decay), T(-1 if maximize else 1)
    # AdamW's decay is a factor on the parameter, Adam's an addition to the gradient.
    shrink = T(1 - lr * weight_decay if decoupled else 1)
    for i in range(param.size):
        p = param[i] * shrink
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * p
        m = exp_avg[i] + new * (g - exp_avg[i])
        v = keep2 * exp_avg_sq[i] + new2 * g * g
        exp_avg[i] = m
        exp_avg_sq[i] = v
        if amsgrad:
            v = maximum(max_exp_avg_sq[i], v)
            max_exp_avg_sq[i] = v
        param[i] = p - rate * m / (np.sqrt(v) * inverse + tiny)


@loop
def rmsprop(
    param, grad, square_avg, grad_avg, buffer, step, lr, alpha, eps, weight_decay, momentum, centered, maximize,
):  # fmt: skip
    """square_avg averages grad^2; param -= lr grad / (sqrt(square_avg) + eps).

    ``grad_avg`` is read and written if ``centered`` alone, ``buffer`` with ``momentum`` alone.
    """
    step[0] += 1
    rate, keep, new, tiny = T(lr), T(alpha), T(1 - alpha), T(eps)
    decay, sign, inertia = T(weight_decay), T(-1 if maximize else 1), T(momentum)
    for i in range(param.size):
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * param[i]
        v = keep * square_avg[i] + new * g * g
        square_avg[i] = v
        if centered:
            mean = grad_avg[i] + new * (g - grad_avg[i])
            grad_avg[i] = mean
            v -= mean * mean
        change = g / (np.sqrt(v) + tiny)
        if momentum > 0:
            change += inertia * buffer[i]
            buffer[i] = change
        param[i] -= rate * change


@loop
def adagrad(param, grad, sum_sq, step, lr, lr_decay, weight_decay, eps, maximize):
    """sum_sq += grad^2; param -= lr / (1 + (step - 1) lr_decay) grad / (sqrt(sum_sq) + eps)."""
    step[0] += 1
    rate = T(lr / (1 + (np.float64(step[0]) - 1) * lr_decay))
    decay, sign, tiny = T(weight_decay), T(-1 if maximize else 1), T(eps)
    for i in range(param.size):
        g = sign * grad[i]
        if weight_decay != 0:
            g += decay * param[i]
        total = sum_sq[i] + g * g
        sum_sq[i] = total
        param[i] -= rate * g / (np.sqrt(total) + tiny)


# A NumPy array's header, as NumPy's C headers publish it and every extension has compiled in: the
# object's own head, the last word of which is its type, the data's address, the number of dimensions, the address of
# their sizes. To read it costs 30 ns an array; to ask Python for the address costs 1 us. Other objects have another
# header, so the function does nothing but clear the table's first word if not all are of one type.
_HEAD = object.__basicsize__
_TEXT = f"""\
@njit(nogil=True)
def word(address):
    return number_at(address, np.uintp)

@njit(nogil=True)
def size_of(array):
    size = 1
    sizes = word(array + {_HEAD + 16})
    for d in range(number_at(array + {_HEAD + 8}, np.int32)):
        size *= number_at(sizes + 8 * d, np.intp)
    return size

{{loop_text}}
S = np.{{counter}}
{{loop}}_one = njit(nogil=True, error_model="numpy", fastmath={{{{"contract"}}}})({{loop}})

# Several threads may each do elements ``first`` to ``last`` of all parameters. The first advances the counters, so that
# the others (part > 0) have a second table, of copies of them, and advance copies of these.
def {{loop}}_all(tables, part, first, last, {{scalars}}):
    half = tables.size // 2
    table = tables if part < 0 else tables[half:] if part > 0 else tables[:half]
    kind = word(table[0] + {_HEAD - 8})
    for k in range(1, table.size):
        if word(table[k] + {_HEAD - 8}) != kind:
            tables[0] = 0
            return
    {{copies}}
    count = table.size // {{arrays}}
    start = 0
    for k in range(count):
        size = size_of(table[k])
        # The range cut to this parameter's elements, counted from its first one.
        begin, end = first - start, last - start
        begin = 0 if begin < 0 else size if begin > size else begin
        end = 0 if end < 0 else size if end > size else end
        start += size
{{counters}}
        {{loop}}_one({{parts}}, {{scalars}})
"""
_PART = "array_at(word(table[{k} * count + k] + {head}) + begin * {item}, end - begin, T)"
_COPY = "copy{k} = scratch(1, S)"
_COUNTER = """\
        counter{k} = array_at(word(table[{k} * count + k] + {head}), 1, S)
        if part > 0:
            copy{k}[0] = counter{k}[0]
            counter{k} = copy{k}"""


class Foreach(Kernel):
    """A parameter's loop over ``count`` parameters in one launch.

    Its arguments are all parameters, then all gradients, and so on, contiguous and of one dtype, the
    counters last, then the scalars. It is one compiled function for any number of them: it is handed
    the array objects and finds addresses and sizes itself.
    """

    __slots__ = ("arrays", "count", "counted", "loop", "scalars")

    # Parameters of every loop are arrays up to ``step``, or where there is none up to ``lr``, numbers from there on.
    def __init__(self, loop: Loop, count: int):
        parameters = list(loop.source.parameters)
        first = parameters.index("step") + 1 if "step" in parameters else parameters.index("lr")
        self.loop, self.count = loop, count
        self.counted = sum(p in COUNTERS for p in parameters)
        self.arrays, self.scalars = parameters[:first], parameters[first:]
        self.name, self.call = f"{loop.name}_foreach", self._run  # ``writes`` is left to __getattr__

    def __getattr__(self, name: str) -> Any:
        """``writes`` when first asked for: most programs never do, and it is read off the loop's text."""
        if name != "writes":
            raise AttributeError(f"a kernel has no attribute {name!r}")
        self.writes = tuple(w * self.count + k for w in self.loop.writes for k in range(self.count))
        return self.writes

    def _run(self, *args: Any) -> None:
        if type(args[0]) is not np.ndarray:
            if type(args[0]) is DeviceArray:
                return run_on_device("foreach", (self, *args))
            if type(args[0]) is MetaArray:
                return None
            args = _plain_arrays(args)
        count = self.count
        many = len(self.arrays) * count
        arrays, scalars = args[:many], args[many:]
        if numba_flag("DISABLE_JIT"):
            self._run_plain(arrays, scalars)
            return
        call = _compiled(self.loop, arrays[0].dtype, arrays[-1].dtype)
        total = sum([a.size for a in arrays[:count]])
        if self.is_shared(total):
            arrays = _plain_arrays(arrays)
            copies = [a.copy() for a in self.counters(arrays)]
            call, tables = self.shared(arrays, copies)
            _in_parts_directly(call, total)(tables, scalars)
            return
        tables = np.fromiter(map(id, arrays), np.uintp, many)
        call(tables, -1, 0, total, *scalars)
        if not tables.item(0):
            self._run(*_plain_arrays(args))

    def is_shared(self, total: int) -> bool:
        """Whether parameters of so many elements in all are worth more than one thread."""
        return total >= _SPLIT_SIZE and threads.get_num_threads() > 1

    def counters(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Those of the arrays that count steps, which threads but the first get copies of."""
        return arrays[len(arrays) - self.counted * self.count :]

    def shared(self, arrays: Sequence[Any], copies: Sequence[Any]) -> tuple[SplitCall, Any]:
        """(the kernel on several threads, its tables) for NumPy's own arrays and copies of the counters.

        It is called with the tables, 0, 0, the number of elements of all parameters, and the scalars. Elements are
        numbered through; each thread has a range of them, cut anywhere. All arrays have to live until it is done.
        """
        second = (*arrays[: len(arrays) - len(copies)], *copies)
        tables = np.fromiter(map(id, (*arrays, *second)), np.uintp, 2 * len(arrays))
        return _in_parts(self.loop, arrays[0].dtype, arrays[-1].dtype), tables

    def _run_plain(self, arrays: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
        # Under NUMBA_DISABLE_JIT there are no addresses to read: a call for each parameter.
        flat = [a.reshape(-1) for a in arrays]
        for k in range(self.count):
            self.loop.call(*flat[k :: self.count], *scalars)


def _plain_arrays(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, subclasses of NumPy's arrays as arrays; Unresolved for lazy ones."""
    if LazyArray in map(type, args):
        raise Unresolved
    if set(map(type, args)) == {np.ndarray}:
        return args
    return tuple([a.view(np.ndarray) if isinstance(a, np.ndarray) else a for a in args])


@functools.cache
def foreach(loop: Loop, count: int) -> Foreach:
    """Return the kernel that runs ``loop`` over ``count`` parameters."""
    return Foreach(loop, count)


def ask_for_step(loop: Loop, dtype: np.dtype[Any], numbers: Sequence[Any]) -> None:
    """Have the kernel of ``foreach`` compiled ahead, for parameters of a dtype and such numbers."""
    run = _compiled(loop, dtype, np.dtype(np.float32))
    args = np.zeros(1, np.uintp), -1, 0, 1, *numbers
    ask(run.made, kinds_of(args))


# Elements from which two threads are quicker, by a tenth for Adam; to share the work costs 15 us.
_SPLIT_SIZE = 1 << 17


@functools.cache
def _in_parts(loop: Loop, dtype: np.dtype[Any], counter: np.dtype[Any]) -> SplitCall:
    roles = {1: PART, 2: FIRST, 3: LAST}
    return SplitCall(_compiled(loop, dtype, counter), roles, lambda args: args[3], _SPLIT_SIZE // 2, multiple=16)


@functools.lru_cache(64)
def _in_parts_directly(call: SplitCall, total: int) -> Callable[[Any, tuple[Any, ...]], None]:
    """``step(tables, scalars)``, which runs the kernel in parts over ``total`` elements.

    After some calls by a direct one (`direct_parts`): Adam of 200,000 elements then takes 65 to 70 us, before 75 to 90.
    """
    direct, calls = refuse, None

    def step(tables: Any, scalars: tuple[Any, ...]) -> None:
        nonlocal direct, calls
        if code := direct(tables, *scalars):
            if calls is None:
                calls = direct_calls(call, (0, *range(4, 4 + len(scalars))))
            direct = calls.other(code, direct, (tables, *scalars), (tables, 0, 0, total, *scalars))

    return step


@functools.cache
def _compiled(loop: Loop, dtype: np.dtype[Any], counter: np.dtype[Any]) -> Any:
    variant = f"all of {dtype.name}, counted in {counter.name}"
    made = kept_text(loop.source.function, variant, lambda: _text_of_all(loop, dtype, counter))
    if made.writes is not None:
        loop.writes = made.writes
    return compile_kernel(made)


def _text_of_all(loop: Loop, dtype: np.dtype[Any], counter: np.dtype[Any]) -> KernelText:
    """The text that does a loop over all parameters; ``writes`` are those of the loop."""
    kernel = foreach(loop, 1)
    arrays = kernel.arrays
    plain, counters = arrays[: len(arrays) - kernel.counted], range(len(arrays) - kernel.counted, len(arrays))
    assert not set(plain) & set(COUNTERS), "counters come last"
    parts = [_PART.format(k=k, head=_HEAD, item=dtype.itemsize) for k in range(len(plain))]
    text = _TEXT.format(
        loop_text=loop.text(dtype.name), loop=loop.name, counter=counter.name, arrays=len(arrays),
        parts=", ".join([*parts, *[f"counter{k}" for k in counters]]), scalars=", ".join(kernel.scalars),
        copies="; ".join([_COPY.format(k=k) for k in counters]),
        counters="\n".join([_COUNTER.format(k=k, head=_HEAD) for k in counters]),
    )  # fmt: skip
    return kernel_text(f"{loop.name}_all", text, allocates=False)._replace(writes=loop.source.writes)
