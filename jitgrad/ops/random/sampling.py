"""Random tensors: rand, randn, randint, randperm, bernoulli, normal, multinomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgrad.core import dtypes
from jitgrad.core.device import resolve
from jitgrad.core.errors import invalid_combination, must_be, not_implemented_for, overflow, scalar_type
from jitgrad.core.grad_mode import state as grad_state
from jitgrad.core.layout import Layout, cache, intern
from jitgrad.core.storage import empty_for
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch.batch_randomness import (
    all_samples,
    batch_for_draw,
    check_draw,
    draw_rule,
    new_like_batch,
    with_fills_allowed,
)
from jitgrad.dispatch.batch_rules import BatchedCall
from jitgrad.dispatch.drawing import fill_by, filled_new, generator_for, parameters_for_draw, unwritten
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.planned import Launches, Number, Written, compiled
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.sizes import as_flag, as_ints, check_dims, float_argument, int_argument, is_real, size_argument
from jitgrad.dispatch.structured import Structured
from jitgrad.kernels.launch import SPLIT_SIZE, launch
from jitgrad.kernels.loops import random as kernels
from jitgrad.ops.creation.constants import as_dtype, filled_like, finished, new, uninitialised_like
from jitgrad.ops.random.random_fills import (
    Integers,
    Normal,
    RandomFill,
    Uniform,
    bernoulli_,
    drawn_bernoulli,
    exponential_,
    integer_bounds,
    normal_,
    random_,
)  # fmt: skip
from jitgrad.ops.shape.copy import contiguous
from jitgrad.ops.shape.expand import shapes_broadcast
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.random import Generator, default_generator

__all__ = ["multinomial", "normal", "randint", "randperm"]


def _like(op: str, input: Any, dtype: Any = None, device: Any = None, memory_format: Any = None) -> Any:
    """A tensor to be filled of the shape and memory order of ``input``."""
    if not grad_state.levels or not isinstance(input, Tensor):
        return uninitialised_like(op, input, dtype, device, memory_format)
    check_draw()
    return new_like_batch(input, lambda x: uninitialised_like(op, x, dtype, device, memory_format))


def _sized(
    name: str, fill: type[RandomFill], parameters: tuple[float, ...], doc: str
) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:  # fmt: skip
    """Declare and return jitgrad.NAME(*size) and jitgrad.NAME_like(x).

    fill, parameters: the op that fills a new tensor, and its arguments before the generator.
    """

    def create(*size: Any, generator: Any = None, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
               device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
               **named: Any) -> Tensor:  # fmt: skip
        shape = size_argument(name, size, "size", named.pop("size", None)) if named else size_argument(name, size)
        if named:
            raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
        chosen = None if dtype is None else as_dtype(name, dtype)
        chosen = chosen or (dtypes.get_default_dtype() if out is None else out.dtype)
        source = default_generator if generator is None else generator_for(name, generator)
        if grad_state.levels:
            check_dims(shape)
            drawn = filled_new(fill, new(chosen, shape, device), *parameters, source, out=out)
        else:
            key = shape, chosen, device
            drawn = (plans.get(key) or _plan_drawing(fill, parameters, key, plans))(source)
        return finished(name, drawn, requires_grad, out) if requires_grad or out is not None else drawn

    def like(input: Tensor, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False, memory_format: Any = None) -> Tensor:  # fmt: skip
        empty = _like(f"{name}_like", input, dtype, device, memory_format)
        source = generator_for(f"{name}_like", generator)
        return finished(name, unwritten(fill.inplace(empty, *parameters, source)), requires_grad)

    plans: dict[Any, Callable[[Generator], Tensor]] = cache()
    for function, label, about in ((create, name, doc), (like, f"{name}_like", f"{doc} The shape is ``input``'s.")):
        function.__name__ = function.__qualname__ = label
        function.__doc__ = about
        public(function, method_too=False)
    return create, like


def _plan_drawing(
    fill: type[RandomFill], parameters: tuple[float, ...], key: tuple[Any, ...], plans: dict[Any, Any]
) -> Callable[[Generator], Tensor]:  # fmt: skip
    """The function of a generator that makes tensors of a shape, dtype and device."""
    shape, dtype, device = key
    check_dims(shape)
    layout = intern(dtype.numpy, shape, None, resolve(device))
    kernel = fill.chosen_kernel(layout) if dtype.is_floating_point and not dtype.is_half else None
    drawn = plans[key] = _drawing(fill, parameters, layout, kernel, parameters)
    return drawn


def _drawing(
    fill: type[RandomFill], parameters: tuple[Any, ...], layout: Layout, kernel: Any, numbers: tuple[Any, ...]
) -> Callable[[Generator], Tensor]:  # fmt: skip
    """The function of a generator that makes tensors of few elements by ``kernel`` alone, which takes ``numbers``.

    Without a kernel, and of many elements, by ``fill``, which takes ``parameters``.
    """
    n = layout.numel
    if kernel is None or not layout.plain or not 0 < n < SPLIT_SIZE:

        def drawn(source: Generator) -> Tensor:
            return filled_new(fill, wrap(empty_for(layout), layout), *parameters, source)
    else:
        made = Launches([(kernel, Written(0, (n,)), Number("state"), *numbers)], [layout])
        draw = compiled(made, {"state": None})

        def drawn(source: Generator) -> Tensor:
            with source.lock:
                return draw(source.state)

    return drawn


rand, rand_like = _sized("rand", Uniform, (0.0, 1.0), "A tensor of values uniform in [0, 1).")
randn, randn_like = _sized("randn", Normal, (0.0, 1.0), "A tensor of standard normals.")


def _low_and_high(op: str, position: int, bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int]:
    """The bounds of ``op(high)`` and ``op(low, high)``, arguments from ``position`` on."""
    if len(bounds) == 1 and type(bounds[0]) is int and not named:
        return 0, bounds[0]
    if len(bounds) == 2 and type(bounds[0]) is int is type(bounds[1]) and not named:
        return bounds
    low, high = integer_bounds(op, ("low", "high"), position, bounds, named)
    if high is None:
        raise TypeError(f"{op}() missing a required argument: 'high'")
    return low or 0, high


def randint(*args: Any, generator: Any = None, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
            device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
            **named: Any) -> Tensor:  # fmt: skip
    """``randint(high, size)``, ``randint(low, high, size)``: whole numbers in [low, high), int64 by default."""
    bounds = args if "size" in named else args[:-1]
    size = named.pop("size") if "size" in named else args[-1] if args else None
    if not isinstance(size, (tuple, list)):
        if bounds:
            raise must_be("randint", "size", len(args), "tuple of ints", size)
        raise invalid_combination("randint", args)
    low, high = _low_and_high("randint", 1, bounds, named)
    shape = as_ints("randint", size)
    source = default_generator if generator is None else generator_for("randint", generator)
    if dtype is None is out and not (requires_grad or grad_state.levels):
        key = shape, low, high, device
        return (_randints.get(key) or _plan_integers(*key))(source)
    check_dims(shape)
    chosen = as_dtype("randint", dtype) or (out.dtype if out is not None else dtypes.int64)
    result = filled_new(Integers, new(chosen, shape, device), low, high, source, out=out)
    return finished("randint", result, requires_grad, out)


_randints: dict[Any, Callable[[Generator], Tensor]] = cache()


def _plan_integers(shape: tuple[int, ...], low: int, high: int, device: Any) -> Callable[[Generator], Tensor]:
    """The function of a generator that makes tensors of int64 between these bounds."""
    check_dims(shape)
    layout = intern(np.dtype(np.int64), shape, None, resolve(device))
    first, span, wide = kernels.integer_range("int64", low, high)
    kernel = kernels.wide_integers if wide else kernels.integers
    drawn = _randints[shape, low, high, device] = _drawing(Integers, (low, high), layout, kernel, (first, span))
    return drawn


def randint_like(input: Tensor, *args: Any, generator: Any = None, dtype: Any = None, layout: Any = None,
                 device: Any = None, requires_grad: bool = False, memory_format: Any = None,
                 **named: Any) -> Tensor:  # fmt: skip
    """Whole numbers in [low, high) of ``input``'s shape and dtype: ``randint_like(x, [low,] high)``."""
    low, high = _low_and_high("randint_like", 2, args, named)
    empty = _like("randint_like", input, dtype, device, memory_format)
    source = generator_for("randint_like", generator)
    return finished("randint_like", unwritten(random_(empty, low, high, generator=source)), requires_grad)


def randperm(n: int, *, generator: Any = None, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """The numbers 0 .. n - 1 in random order; int64 by default."""
    if n.__class__ is int and dtype is None is out and not (requires_grad or grad_state.levels):
        source = default_generator if generator is None else generator_for("randperm", generator)
        return (_permutations.get((n, device)) or _plan_permutation(n, device))(source)
    n = int_argument("randperm", "n", 1, n)
    check_dims((n,))
    chosen = as_dtype("randperm", dtype) or (out.dtype if out is not None else dtypes.int64)
    if chosen.category in (0, 3):
        raise not_implemented_for("randperm", chosen)
    if n > 128 and chosen.category == 1 and n - 1 > np.iinfo(chosen.numpy).max:
        raise overflow(chosen)
    most = {"float16": 2049, "float32": (1 << 24) + 1, "float64": (1 << 53) + 1}.get(chosen.name, n)
    if n > most:  # the dtype does not hold each of the numbers
        limit = most if most < 1 << 24 else f"2^{most.bit_length() - 1}+1"
        raise RuntimeError(f"n cannot be greater than {limit} for {scalar_type(chosen)} type.")
    result = filled_new(Permutation, new(chosen, (n,), device), generator_for("randperm", generator), out=out)
    return finished("randperm", result, requires_grad, out, allows_internal_overlap=True)


_permutations: dict[Any, Callable[[Generator], Tensor]] = cache()


def _plan_permutation(n: int, device: Any) -> Callable[[Generator], Tensor]:
    """The function of a generator that makes permutations of int64."""
    check_dims((n,))
    layout = intern(np.dtype(np.int64), (n,), None, resolve(device))
    drawn = _permutations[n, device] = _drawing(Permutation, (), layout, kernels.permutation, ())
    return drawn


class Permutation(RandomFill):
    """Fill a vector with the numbers 0 .. n - 1 in random order; each row of a batch with an order of its own."""

    name = "permutation_fill"
    samples = cases(lambda: (draw(5), default_generator))

    def write(x, generator):
        # Under vmap x is a batch of vectors.
        for row in wrap(x._data, x._layout).reshape(-1, x._layout.shape[-1]) if x._layout.ndim > 1 else (x,):
            fill_by(kernels.permutation, row, generator)


class Bernoulli(Structured):
    """Ones with the probabilities of ``x``, else zeros."""

    name, batch = "bernoulli_of", draw_rule
    samples = cases(lambda: (draw(3, 4, low=0.1, high=0.9), default_generator))

    def forward(x, generator):
        return drawn_bernoulli(x._layout, x, generator)

    def grad_x(g):
        return filled_like(g, 0)


@public
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
    """Ones with the probabilities in ``input`` (or with probability ``p``), else zeros."""
    if p is not None:
        if grad_state.levels:
            check_draw(input, p, out=out)
        p = float(p) if is_real(p) else p
        # A row-major input gives a row-major result, as PyTorch's is whatever the order of ``input`` in memory.
        return unwritten(bernoulli_(_like("bernoulli", input.detach().contiguous()), p, generator=generator))
    if grad_state.levels:
        input = parameters_for_draw(input, out=out)
    drawn = Bernoulli.apply(input, default_generator if generator is None else generator_for("bernoulli", generator))
    return drawn if out is None else finished("bernoulli", drawn, out=out)


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Tensor | None = None,
           dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Normals of a mean and a standard deviation, each a number or a tensor; of ``size`` if both are numbers."""
    if grad_state.levels:
        check_draw(mean, std, out=out)
    if size is not None or not (isinstance(mean, Tensor) or isinstance(std, Tensor)):
        if not (is_real(mean) and is_real(std)):
            raise invalid_combination("normal", (mean, std))
        chosen = as_dtype("normal", dtype) or (out.dtype if out is not None else dtypes.get_default_dtype())
        shape = size_argument("normal", (size,))
        check_dims(shape)
        filled = unwritten(normal_(batch_for_draw(new(chosen, shape, device)), mean, std, generator=generator))
        return finished("normal", filled, requires_grad, out)
    if isinstance(std, Tensor):
        every = all_samples(std)
        if every._layout.numel and not bool((every >= 0).all()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not float_argument("normal", "std", 2, std) >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
    shape = tuple(shapes_broadcast(*[t._layout.shape for t in tensors]))
    found = normal_(batch_for_draw(new(tensors[0].dtype, shape, device)), generator=generator)
    centre, width = (t.detach() if isinstance(t, Tensor) else t for t in (mean, std))
    drawn = found * width + centre
    for parameter in tensors:
        # A level may be one of forward mode, which wants a tangent.
        if grad_state.levels or (grad_state.enabled and parameter._requires_grad):
            drawn = DrawnFrom.apply(drawn, parameter)
    return finished("normal", drawn, out=out)


def _drawn_batched(call: BatchedCall) -> Tensor:
    """A batch of parameters has the same numbers in all samples, unless these were drawn for each."""
    x = call["x"]
    return call.run(x=x if "x" in call.batched else x.expand(call.size, *x._layout.shape))


class DrawnFrom(Structured):
    """The random numbers ``x`` as a result of a parameter of their distribution, which has a gradient of 0."""

    linear, batch = ("x",), _drawn_batched
    grad_name, owned = "NormalBackward3", False
    samples = cases(lambda: (draw(2, 3), draw(3, seed=1)))
    reference = lambda x, parameter: x

    def forward(x, parameter):
        return wrap(x._data, x._layout)

    def grad_x(g):
        return g

    def grad_parameter(parameter_layout):
        return zeros_of(parameter_layout)


for _function in (randint, randint_like, randperm, normal):
    public(_function, method_too=False)


def _check_weights(weights: Tensor, count: int, replacement: bool) -> None:
    if not weights.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {scalar_type(weights.dtype)}"
        )
    if weights._layout.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > weights._layout.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    rows = all_samples(weights)
    if not bool(((rows >= 0) & (rows < math.inf)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not bool((rows.sum(-1) > 0).all()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _multinomial_batched(call: BatchedCall) -> Tensor:
    """The rows of all samples of a batch as rows of one matrix, from which columns are drawn."""
    weights = call["x"]
    if call.ndim("x") == 2:
        weights = weights.flatten(0, 1)
    found = with_fills_allowed(call, lambda call: call.run(x=weights))
    return found.reshape(*call["x"]._layout.shape[:-1], call["num_samples"])


class Multinomial(Structured):
    """Columns drawn with probabilities in proportion to the weights in each row."""

    name, batch = "multinomial_of", _multinomial_batched
    samples = cases(
        lambda: (draw(2, 5, low=0.1, high=0.9), 3, False, default_generator),
        lambda: (draw(5, low=0.1, high=0.9), 1, False, default_generator),
        lambda: (draw(2, 5, low=0.1, high=0.9), 7, True, default_generator),
    )

    def forward(x, num_samples, replacement, generator):
        if not replacement or num_samples == 1:
            # Exponential variables race: x / e, e of density exp(-e), is largest at column k with probability
            # x[k] / sum(x), and the num_samples largest are draws without replacement.
            race = x / exponential_(uninitialised_like("multinomial", x), generator=generator)
            return race.argmax(-1, keepdim=True) if num_samples == 1 else race.topk(num_samples, -1)[1]
        rows = contiguous(x)._data.reshape(-1, x._layout.shape[-1])
        result = new(dtypes.int64, (*x._layout.shape[:-1], num_samples), x.device)
        with generator.lock:
            launch(kernels.multinomial, rows, result._data.reshape(rows.shape[0], num_samples), generator.state)
        return result


@public
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None,
                out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Columns drawn with probabilities in proportion to the weights in each row: int64."""
    num_samples = int_argument("multinomial", "num_samples", 2, num_samples)
    weights = parameters_for_draw(input.detach(), out=out)
    _check_weights(weights, num_samples, as_flag(replacement))
    source = generator_for("multinomial", generator)
    return finished("multinomial", Multinomial.apply(weights, num_samples, replacement, source), out=out)
