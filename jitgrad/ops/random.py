"""Random tensors, and random values written into tensors; number for number PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from ..dtypes import TITLES
from ..kernels import random as kernels
from ..kernels.launch import launch
from ..layout import intern
from ..random import Generator, default_generator
from ..storage import empty_for
from ..tensor import Tensor, wrap
from .copy import contiguous, copy_into
from .create import as_dtype, finished, new, uninitialised_like
from .fill import zeros_like
from .part import ViewAsReal
from .registry import FUNCTIONS, public
from .sampling import cases
from .sizes import size_argument
from .structured import Structured
from .written import Written

__all__ = ["Uniform", "draw"]


def _source(op: str, generator: Any) -> Generator:
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"{op}(): argument 'generator' must be torch.Generator, not {type(generator).__name__}")
    return generator


def draw(kernel: Any, out: Tensor, generator: Generator, *scalars: Any, inputs: tuple[Any, ...] = ()) -> None:
    """Fill a tensor by a kernel in the order of its memory, as PyTorch does."""
    order = sorted(range(out._layout.ndim), key=lambda d: -out._layout.strides[d])
    memory = out._data if out._layout.contiguous else out._data.transpose(order)
    if memory.flags.c_contiguous:
        with generator.lock:
            launch(kernel, *inputs, memory.reshape(-1), generator.state, *scalars)
        return
    layout = intern(out._layout.numpy_dtype, memory.shape, None, out._layout.device)
    drawn = wrap(empty_for(layout), layout)
    draw(kernel, drawn, generator, *scalars, inputs=inputs)
    back = drawn.permute(sorted(range(len(order)), key=order.__getitem__))
    copy_into(out._data, out._layout, back)


def _refuse(op: str, x: Tensor) -> None:
    raise NotImplementedError(f'"{op}" not implemented for \'{TITLES[x.dtype.name]}\'')


class _Draw(Written, abstract=True):
    """A random fill: no gradient passes it."""

    function = method = False
    samples = cases()  # never the same twice

    def __init_subclass__(cls, **kwargs: Any) -> None:
        cls.grad_x = lambda g: zeros_like(g)  # type: ignore[attr-defined]
        super().__init_subclass__(**kwargs)


class Uniform(_Draw):
    """Fill with values uniform in [low, high)."""

    name, grad_name = "uniform_fill", "UniformBackward0"

    def write(x, low, high, generator):
        if x.dtype.category < 2:
            _refuse("check_uniform_bounds", x)
        if low > high:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
        real = ViewAsReal.forward(x) if x.dtype.is_complex else x
        kernel = kernels.uniform32 if real.dtype.name == "float32" else kernels.uniform64
        draw(kernel, real, generator, float(low), float(high))


class Normal(_Draw):
    """Fill with normals of a mean and a standard deviation."""

    name, grad_name = "normal_fill", "NormalBackward0"

    def write(x, mean, std, generator):
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        if x.dtype.category < 2:
            _refuse("normal_kernel_cpu", x)
        if x.dtype.is_complex:
            parts = ViewAsReal.forward(x)
            draw(_normal_kernel(parts), parts, generator, 0.0, float(std) / math.sqrt(2))
            if mean:
                copy_into(x._data, x._layout, wrap(x._data, x._layout) + mean)
            return
        draw(_normal_kernel(x), x, generator, float(mean), float(std))


def _normal_kernel(x: Tensor) -> Any:
    if x._layout.numel < 16 or not x._layout.contiguous:
        return kernels.normal_few
    return kernels.normal32 if x.dtype.name == "float32" else kernels.normal64


class Integers(_Draw):
    """Fill with whole numbers in [low, high)."""

    name, grad_name = "random_fill", "RandomBackward0"

    def write(x, low, high, generator):
        draw(kernels.integers, x, generator, *kernels.integer_range(x.dtype.name, low, high))


class BernoulliNumber(_Draw):
    """Fill with ones with probability ``p``, else zeros."""

    name, grad_name = "bernoulli_fill", "BernoulliBackward2"

    def write(x, p, generator):
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        draw(kernels.bernoulli, x, generator, float(p))


class BernoulliEach(_Draw):
    """Fill with ones with the probabilities of a tensor, else zeros."""

    name, grad_name = "bernoulli_fill_each", "BernoulliBackward1"

    def write(x, p, generator):
        _bernoulli_each(x, p.detach().expand(x._layout.shape), generator)


def _bernoulli_each(out: Tensor, p: Tensor, generator: Generator) -> None:
    if not p.dtype.is_floating_point:
        _refuse("bernoulli_tensor_cpu_p_", p)
    if p._layout.numel and not bool(((p >= 0) & (p <= 1)).all()):
        raise RuntimeError(
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If "
            "so, please report an enhancement request to PyTorch.)"
        )
    kernel = kernels.bernoulli_each32 if p.dtype.name == "float32" else kernels.bernoulli_each64
    drawn = new(out.dtype, out._layout.shape)
    draw(kernel, drawn, generator, inputs=(contiguous(p)._data.reshape(-1),))
    copy_into(out._data, out._layout, drawn)


def _declare(name: str, kernel: Any, checks: tuple[tuple[str, Callable[..., bool]], ...], *, whole: bool = False) -> Any:
    """A fill by one kernel with scalar parameters, each message raised where its check fails."""

    def write(x: Tensor, first: float, second: float | None, generator: Generator) -> None:
        scalars = (first,) if second is None else (first, second)
        if not whole and not x.dtype.is_floating_point:
            _refuse(f"{name}_cpu", x)
        for message, holds in checks:
            if not holds(*scalars):
                raise RuntimeError(message.format(*scalars))
        draw(kernel, x, generator, *map(float, scalars))

    doc = f"Fill by the distribution of ``{name}_``."
    body = {"write": write, "name": f"{name}_fill", "__doc__": doc, "__module__": __name__}
    return type(name.title().replace("_", ""), (_Draw,), {**body, "grad_name": f"{name.title().replace('_', '')}Backward0"})


Exponential = _declare(
    "exponential", kernels.exponential,
    (("exponential_ expects lambda > 0.0, but found lambda={0:g}", lambda rate: rate > 0),),
)  # fmt: skip
Geometric = _declare(
    "geometric", kernels.geometric, (("geometric_ expects p to be in (0, 1), but got p={0:g}", lambda p: 0 < p < 1),),
    whole=True,
)  # fmt: skip
Cauchy = _declare(
    "cauchy", kernels.cauchy, (("cauchy_ expects sigma > 0.0, but found sigma={1:g}", lambda median, s: s > 0),)
)
LogNormal = _declare(
    "log_normal", kernels.log_normal, (("log_normal_ expects std > 0.0, but found std={1:g}", lambda m, std: std > 0),)
)


# -- methods ------------------------------------------------------------------------------------------


def uniform_(self: Tensor, *bounds: float, generator: Any = None, **named: float) -> Tensor:
    """Fill with values uniform in [from, to); ``uniform_(from=0, to=1)``."""
    given = {"from": 0.0, "to": 1.0, **dict(zip(("from", "to"), bounds, strict=False)), **named}
    return Uniform.into(self, given["from"], given["to"], _source("uniform_", generator))


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normals of mean ``mean`` and standard deviation ``std``."""
    return Normal.into(self, mean, std, _source("normal_", generator))


def random_(self: Tensor, *bounds: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fill with whole numbers: ``random_(to)``, ``random_(from, to)``; without bounds all that the dtype holds."""
    order = ("to",) if len(bounds) == 1 else ("from", "to")
    given = {**dict(zip(order, bounds, strict=False)), **named}
    low, high = given.get("from"), given.get("to")
    low = 0 if low is None and high is not None else low
    return Integers.into(self, low, high, _source("random_", generator))


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones with probability ``p`` (a number, or a tensor that broadcasts), else zeros."""
    op = BernoulliEach if isinstance(p, Tensor) else BernoulliNumber
    return op.into(self, p, _source("bernoulli_", generator))


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with values of the density lambd exp(-lambd x)."""
    return Exponential.into(self, lambd, None, _source("exponential_", generator))


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the numbers of trials up to the first success, each of probability ``p``."""
    return Geometric.into(self, p, None, _source("geometric_", generator))


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with values of the Cauchy distribution."""
    return Cauchy.into(self, median, sigma, _source("cauchy_", generator))


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with exponentials of normals of mean ``mean`` and standard deviation ``std``."""
    return LogNormal.into(self, mean, std, _source("log_normal_", generator))


for _function in (uniform_, normal_, random_, bernoulli_, exponential_, geometric_, cauchy_, log_normal_):
    public(_function, function_too=False)


# -- functions ----------------------------------------------------------------------------------------


def _check_size(shape: tuple[int, ...]) -> None:
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")


def _sized(name: str, fill: Callable[..., Tensor], doc: str) -> None:
    """Declare jitgrad.NAME(*size) and jitgrad.NAME_like(x)."""

    def create(*size: Any, generator: Any = None, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
               device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **named: Any) -> Tensor:  # fmt: skip
        shape = size_argument(name, (named["size"],) if "size" in named and not size else size)
        _check_size(shape)
        chosen = as_dtype(name, dtype) or (out.dtype if out is not None else dtypes.get_default_dtype())
        return finished(name, fill(new(chosen, shape, device), generator=generator), requires_grad, out)

    def like(input: Tensor, *, generator: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False, memory_format: Any = None) -> Tensor:  # fmt: skip
        made = uninitialised_like(f"{name}_like", input, dtype, device)
        return finished(name, fill(made, generator=generator), requires_grad)

    for function, label, about in ((create, name, doc), (like, f"{name}_like", f"{doc} The shape is ``input``'s.")):
        function.__name__ = function.__qualname__ = label
        function.__doc__ = about
        public(function, method_too=False)


_sized("rand", uniform_, "A tensor of values uniform in [0, 1).")
_sized("randn", normal_, "A tensor of standard normals.")


def _integer_bounds(op: str, args: tuple[Any, ...], named: dict[str, Any], extra: int) -> tuple[int, int, list[Any]]:
    """(low, high, what follows) of randint(high, size) and randint(low, high, size)."""
    given = list(args)
    low = named.pop("low", None)
    high = named.pop("high", None)
    numbers = len(given) - extra
    if high is None:
        if low is None and numbers >= 2:
            low = given.pop(0)
        high = given.pop(0)
    elif low is None and numbers >= 1:
        low = given.pop(0)
    return int(0 if low is None else low), int(high), given


def randint(*args: Any, generator: Any = None, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
            device: Any = None, requires_grad: bool = False, pin_memory: bool = False, **named: Any) -> Tensor:  # fmt: skip
    """``randint(high, size)``, ``randint(low, high, size)``: whole numbers in [low, high), int64 by default."""
    size = named.pop("size", None)
    low, high, rest = _integer_bounds("randint", args, named, 0 if size is not None else 1)
    size = rest[0] if size is None else size
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' (position {len(args)}) must be tuple of ints, not "
                        f"{type(size).__name__}")  # fmt: skip
    shape = size_argument("randint", (size,))
    _check_size(shape)
    chosen = as_dtype("randint", dtype) or (out.dtype if out is not None else dtypes.int64)
    result = random_(new(chosen, shape, device), low, high, generator=generator)
    return finished("randint", result, requires_grad, out)


def randint_like(input: Tensor, *args: Any, generator: Any = None, dtype: Any = None, layout: Any = None,
                 device: Any = None, requires_grad: bool = False, memory_format: Any = None, **named: Any) -> Tensor:  # fmt: skip
    """Whole numbers in [low, high) of ``input``'s shape and dtype: ``randint_like(x, high)`` or ``(x, low, high)``."""
    low, high, _ = _integer_bounds("randint_like", args, named, 0)
    made = uninitialised_like("randint_like", input, dtype, device)
    return finished("randint_like", random_(made, low, high, generator=generator), requires_grad)


def randperm(n: int, *, generator: Any = None, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
             device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """The numbers 0 .. n - 1 in random order; int64 by default."""
    _check_size((int(n),))
    chosen = as_dtype("randperm", dtype) or (out.dtype if out is not None else dtypes.int64)
    if chosen.category == 1 and n - 1 > np.iinfo(chosen.numpy).max:
        title = {"uint8": "uint8_t", "int8": "int8_t", "int16": "short", "int32": "int"}[chosen.name]
        raise RuntimeError(f"value cannot be converted to type {title} without overflow")
    result = new(chosen, (int(n),), device)
    draw(kernels.permutation, result, _source("randperm", generator))
    return finished("randperm", result, requires_grad, out)


for _function in (randint, randint_like, randperm):
    public(_function, method_too=False)


class Bernoulli(Structured):
    """Ones with the probabilities of ``x``, else zeros."""

    name, function, method, samples = "bernoulli_of", False, False, cases()

    def forward(x, generator):
        out = uninitialised_like("bernoulli", x)
        _bernoulli_each(out, x.detach(), generator)
        return out

    def grad_x(g):
        return zeros_like(g)


@public
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
    """Ones with the probabilities in ``input`` (or with probability ``p``), else zeros."""
    if p is not None:
        return bernoulli_(uninitialised_like("bernoulli", input), p, generator=generator)
    return finished("bernoulli", Bernoulli.apply(input, _source("bernoulli", generator)), out=out)


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Tensor | None = None,
           dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Normals of a mean and a standard deviation, each a number or a tensor; of ``size`` if both are numbers."""
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        chosen = as_dtype("normal", dtype) or (out.dtype if out is not None else dtypes.get_default_dtype())
        made = new(chosen, size_argument("normal", (size,)), device)
        return finished("normal", normal_(made, mean, std, generator=generator), requires_grad, out)
    if isinstance(std, Tensor):
        if std._layout.numel and not bool((std >= 0).all()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    shapes = [t._layout.shape for t in (mean, std) if isinstance(t, Tensor)]
    shape = tuple(FUNCTIONS["broadcast_shapes"](*shapes))
    drawn = normal_(new((mean if isinstance(mean, Tensor) else std).dtype, shape, device), generator=generator)
    plain = [t.detach() if isinstance(t, Tensor) else t for t in (mean, std)]
    return finished("normal", drawn * plain[1] + plain[0], out=out)


public(normal, method_too=False)


def _check_weights(weights: Tensor, count: int, replacement: bool) -> None:
    if not weights.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {TITLES[weights.dtype.name]}"
        )
    if weights._layout.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > weights._layout.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not bool(((weights >= 0) & (weights < math.inf)).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not bool((weights.sum(-1) > 0).all()):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


@public
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None,
                out: Tensor | None = None) -> Tensor:  # fmt: skip
    """Columns drawn with probabilities in proportion to the weights in each row: int64."""
    weights = input.detach()
    _check_weights(weights, num_samples, replacement)
    source = _source("multinomial", generator)
    if not replacement or num_samples == 1:
        race = weights / exponential_(uninitialised_like("multinomial", weights), generator=source)
        found = race.argmax(-1, keepdim=True) if num_samples == 1 else race.topk(num_samples, -1)[1]
        return finished("multinomial", found, out=out)
    rows = contiguous(weights)._data.reshape(-1, weights._layout.shape[-1])
    result = new(dtypes.int64, (*weights._layout.shape[:-1], num_samples))
    with source.lock:
        launch(kernels.multinomial, rows, result._data.reshape(len(rows), num_samples), source.state)
    return finished("multinomial", result, out=out)
