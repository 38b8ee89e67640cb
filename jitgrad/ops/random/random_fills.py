"""Random values written into tensors; number for number PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from jitgrad.core.dtypes import dtype, float32, float64
from jitgrad.core.errors import cpp_type, not_implemented_for, scalar_type
from jitgrad.core.layout import Layout
from jitgrad.core.settings import finfo
from jitgrad.core.tensor import Tensor, wrap
from jitgrad.dispatch import table
from jitgrad.dispatch.batch_randomness import draw_rule
from jitgrad.dispatch.copying import copy_into
from jitgrad.dispatch.drawing import drawn_by, fill_apart, fill_by, generator_for
from jitgrad.dispatch.op_samples import cases, draw
from jitgrad.dispatch.registry import method
from jitgrad.dispatch.sizes import float_argument, int_argument
from jitgrad.kernels.launch import check, launch
from jitgrad.kernels.lazy_array import LazyArray
from jitgrad.kernels.loops import random as kernels
from jitgrad.ops.creation.fill import Overwriting
from jitgrad.ops.shape.complex_view import ViewAsReal
from jitgrad.ops.shape.slicing import zeros_of
from jitgrad.random import Generator, default_generator

__all__ = [
    "DropoutMask", "Normal", "RandomFill", "Uniform", "drawn_bernoulli", "exponential_", "integer_bounds", "normal_",
    "random_", "uniform_",
]  # fmt: skip


def _fills(*parameters: Any) -> Any:
    """Samples of a fill with these parameters: few values, many, and memory in another order."""
    return cases(
        lambda: (draw(2, 3), *parameters, default_generator),
        lambda: (draw(5, 4), *parameters, default_generator),
        lambda: (draw(5, 4).t(), *parameters, default_generator),
    )


class RandomFill(Overwriting, abstract=True):
    """An op that overwrites a tensor with random numbers.

    A subclass gives ``write(x, *parameters, generator)``. ``samples = _fills(*parameters)``.
    ``chosen_kernel``, if it has one, is what draws real numbers of 32 or 64 bits for a layout.
    """

    chosen_kernel: ClassVar[Callable[[Layout], Any]]

    batch = draw_rule


def _fill_complex(op: type[RandomFill], x: Any, generator: Generator, *scalars: float) -> None:
    """Fill real and imaginary parts by the op's kernel: in turns, as they lie in memory, which is PyTorch's order."""
    if type(x._data) is LazyArray:
        return fill_apart(lambda drawn: _fill_complex(op, drawn, generator, *scalars), x)
    parts = ViewAsReal.forward(x)
    return fill_by(op.chosen_kernel(parts._layout), parts, generator, *scalars)


class Uniform(RandomFill):
    """Fill with values uniform in [low, high)."""

    name, grad_name = "uniform_fill", "UniformBackward0"
    samples = _fills(-1.0, 2.0)

    @staticmethod
    def chosen_kernel(x: Layout) -> Any:
        return kernels.uniform64 if x.dtype is float64 else kernels.uniform32

    def write(x, low, high, generator):
        dtype = x._layout.dtype
        if not 0 == low < high == 1 or dtype.category < 2:
            _check_uniform(dtype, low, high)
        if dtype.is_complex:
            return _fill_complex(Uniform, x, generator, float(low), float(high))
        fill_by(Uniform.chosen_kernel(x._layout), x, generator, float(low), float(high))
        if dtype.is_half:  # float32 was rounded: where that gave the end, which is excluded, is the start
            drawn = wrap(x._data, x._layout)
            copy_into(x._data, x._layout, table.where(table.ge(drawn, high), low, drawn))


def _check_uniform(dtype: Any, low: float, high: float) -> None:
    if dtype.category < 2:
        raise not_implemented_for("check_uniform_bounds", dtype)
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    limit = finfo(dtype).max
    for title, bound in (("from", low), ("to", high)):
        if not -limit <= bound <= limit:
            raise RuntimeError(f"{title} is out of bounds for {cpp_type(dtype)}")
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{scalar_type(dtype)}>::max(), but found "
            f"to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


class Normal(RandomFill):
    """Fill with normals of a mean and a standard deviation."""

    name, grad_name = "normal_fill", "NormalBackward0"
    samples = _fills(0.5, 2.0)

    @staticmethod
    def chosen_kernel(x: Layout) -> Any:
        # PyTorch draws 8 pairs at a time where there are 16 elements or more, so other numbers come of the same seed.
        if x.numel < 16 or not x.contiguous:
            return kernels.normal_few
        return kernels.normal64 if x.dtype is float64 else kernels.normal32

    def write(x, mean, std, generator):
        dtype = x._layout.dtype
        if not std >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        if dtype.category < 2:
            raise not_implemented_for("normal_kernel_cpu", dtype)
        if dtype.is_complex:
            # The variance of a complex number is the sum of those of its parts: each has half of it. The mean is that
            # of both parts, as in PyTorch.
            return _fill_complex(Normal, x, generator, float(mean), float(std) / math.sqrt(2))
        rest = x._layout.numel % 16
        if dtype.is_half and rest and x._layout.contiguous and x._layout.numel > 16:
            # Of these dtypes PyTorch fills whole blocks of 16, and then the last 16 elements again.
            memory = x._data.reshape(-1)
            with generator.lock:
                for part in (memory[: memory.size - rest], memory[-16:]):
                    launch(kernels.normal32, part, generator.state, float(mean), float(std))
            return
        fill_by(Normal.chosen_kernel(x._layout), x, generator, float(mean), float(std))


class DropoutMask(RandomFill):
    """Fill with 1 / ``keep`` with probability ``keep``, else 0."""

    name, grad_name = "dropout_fill", "BernoulliBackward2"
    samples = _fills(0.5)

    def write(x, keep, generator):
        fill_by(kernels.dropout_mask, x, generator, float(keep))


class Integers(RandomFill):
    """Fill with whole numbers in [low, high)."""

    name, grad_name = "random_fill", "RandomBackward0"
    samples = _fills(-3, 4)

    def write(x, low, high, generator):
        if x.dtype.is_complex:
            if low is None and high is None:
                raise not_implemented_for("random_kernel_cpu", x.dtype)
            where = "random_from_to_impl" if high is None else "check_random_bounds"
            raise RuntimeError(f"{where} handles only integral, floating-point and boolean types")
        first, span, wide = kernels.integer_range(x.dtype.name, low, high)
        fill_by(kernels.wide_integers if wide else kernels.integers, x, generator, first, span)


class BernoulliNumber(RandomFill):
    """Fill with ones with probability ``p``, else zeros."""

    name, grad_name = "bernoulli_fill", "BernoulliBackward2"
    samples = _fills(0.5)

    def write(x, p, generator):
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        if x.dtype.is_complex:
            raise not_implemented_for("bernoulli_scalar_cpu_", x.dtype)
        fill_by(kernels.bernoulli, x, generator, float(p))


class BernoulliEach(RandomFill):
    """Fill with ones with the probabilities of a tensor, else zeros."""

    name, grad_name = "bernoulli_fill_each", "BernoulliBackward1"
    samples = cases(
        lambda: (draw(2, 3), draw(2, 3, low=0.1, high=0.9, seed=1), default_generator),
        lambda: (draw(3, 2).t(), draw(3, low=0.1, high=0.9, seed=1), default_generator),
    )

    def write(x, p, generator):
        copy_into(x._data, x._layout, drawn_bernoulli(x._layout, p.detach().expand(x._layout.shape), generator))

    def grad_p(g, p_layout):
        return zeros_of(p_layout)


def drawn_bernoulli(out: Layout, p: Tensor, generator: Generator) -> Tensor:
    """Ones with the probabilities ``p``, else zeros: a new tensor of the dtype and shape of ``out``."""
    dtype = p._layout.dtype
    if not dtype.is_floating_point:
        raise not_implemented_for("bernoulli_tensor_cpu_p_", dtype)
    # As in PyTorch, an element takes one 32-bit word of the generator for a float32 probability, two for a float64 one.
    kernel = kernels.bernoulli_each32 if dtype.compute is float32 else kernels.bernoulli_each64
    found = np.zeros(1, np.int64)
    drawn = drawn_by(kernel, out, generator, found, of=(p,))
    check(found, _refuse_probability)
    return drawn


def _refuse_probability(*_: Any) -> NoReturn:
    raise RuntimeError(
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, "
        "please report an enhancement request to PyTorch.)"
    )


def _check_continuous(name: str, x: Tensor, title: Callable[[dtype], str]) -> None:
    """RuntimeError for a dtype that isn't floating point, of which ``title`` is the name that PyTorch uses here."""
    if not x.dtype.is_floating_point:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {title(x.dtype)}"
        )


class Exponential(RandomFill):
    """Fill with values of the density rate * exp(-rate * x)."""

    name, grad_name = "exponential_fill", "ExponentialBackward0"
    samples = _fills(1.5)

    def write(x, rate, generator):
        if not rate > 0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
        _check_continuous("Exponential", x, scalar_type)
        fill_by(kernels.exponential, x, generator, float(rate))


class Geometric(RandomFill):
    """Fill with the numbers of trials up to the first success, each of probability ``p``; in any dtype."""

    name, grad_name = "geometric_fill", "GeometricBackward0"
    samples = _fills(0.3)

    def write(x, p, generator):
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
        if x.dtype.category in (0, 3):
            raise not_implemented_for("geometric_cpu", x.dtype)
        fill_by(kernels.geometric, x, generator, float(p))


class Cauchy(RandomFill):
    """Fill with values of the Cauchy distribution."""

    name, grad_name = "cauchy_fill", "CauchyBackward0"
    samples = _fills(0.5, 2.0)

    def write(x, median, sigma, generator):
        if not sigma > 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
        _check_continuous("Cauchy", x, cpp_type)
        fill_by(kernels.cauchy, x, generator, float(median), float(sigma))


class LogNormal(RandomFill):
    """Fill with exponentials of normals of a mean and a standard deviation."""

    name, grad_name = "log_normal_fill", "LogNormalBackward0"
    samples = _fills(0.5, 0.7)

    def write(x, mean, std, generator):
        if not std > 0:
            raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
        if not x.dtype.is_floating_point:
            raise not_implemented_for("log_normal_cpu", x.dtype)
        fill_by(kernels.log_normal, x, generator, float(mean), float(std))


# -- methods ------------------------------------------------------------------------------------------


def uniform_(self: Tensor, *bounds: float, generator: Any = None, **named: float) -> Tensor:
    """Fill with values uniform in [from, to); ``uniform_(from=0, to=1)``."""
    given = {"from": 0.0, "to": 1.0, **_by_name("uniform_", ("from", "to"), bounds, named)}
    low, high = (float_argument("uniform_", name, k, given[name]) for k, name in enumerate(("from", "to"), 2))
    return Uniform.inplace(self, low, high, generator_for("uniform_", generator))


def _by_name(op: str, order: tuple[str, ...], args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, for functions of which one is ``from``, which Python takes for no parameter."""
    if len(args) > len(order):
        raise TypeError(f"{op}() takes from 0 to {len(order)} positional arguments but {len(args)} were given")
    given = dict(zip(order, args, strict=False))
    for name in named:
        if name in given or name not in order:
            raise TypeError(f"{op}() got an unexpected keyword argument '{name}'")
    return {**given, **named}


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with normals of mean ``mean`` and standard deviation ``std``, complex numbers with both parts' mean."""
    mean, std = float_argument("normal_", "mean", 2, mean), float_argument("normal_", "std", 3, std)
    return Normal.inplace(self, mean, std, generator_for("normal_", generator))


def random_(self: Tensor, *bounds: Any, generator: Any = None, **named: Any) -> Tensor:
    """Fill with whole numbers: ``random_(to)``, ``random_(from, to)``; without bounds all that the dtype holds."""
    low, high = integer_bounds("random_", ("from", "to"), 2, bounds, named)
    return Integers.inplace(self, low, high, generator_for("random_", generator))


def integer_bounds(
    op: str, names: tuple[str, str], position: int, args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[int | None, int | None]:
    """(low, high) of ``op(high)`` and ``op(low, high)``, by ``position`` or by ``names``; (None, None) of ``op()``."""
    given = _by_name(op, names, (None, *args) if len(args) == 1 and names[1] not in named else args, named)
    low, high = given.get(names[0]), given.get(names[1])
    if low is not None:
        low, position = int_argument(op, names[0], position, low), position + 1
    if high is None:
        return low, None
    return low or 0, int_argument(op, names[1], position, high)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones with probability ``p`` (a number, or a tensor that broadcasts), else zeros."""
    source = generator_for("bernoulli_", generator)
    if isinstance(p, Tensor):
        return BernoulliEach.inplace(self, p, source)
    return BernoulliNumber.inplace(self, float_argument("bernoulli_", "p", 2, p), source)


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with values of the density lambd exp(-lambd x)."""
    lambd = float_argument("exponential_", "lambd", 2, lambd)
    return Exponential.inplace(self, lambd, generator_for("exponential_", generator))


def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the numbers of trials up to the first success, each of probability ``p``."""
    p = float_argument("geometric_", "p", 2, p)
    return Geometric.inplace(self, p, generator_for("geometric_", generator))


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Any = None) -> Tensor:
    """Fill with values of the Cauchy distribution."""
    median, sigma = float_argument("cauchy_", "median", 2, median), float_argument("cauchy_", "sigma", 3, sigma)
    return Cauchy.inplace(self, median, sigma, generator_for("cauchy_", generator))


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Any = None) -> Tensor:
    """Fill with exponentials of normals of mean ``mean`` and standard deviation ``std``."""
    mean, std = float_argument("log_normal_", "mean", 2, mean), float_argument("log_normal_", "std", 3, std)
    return LogNormal.inplace(self, mean, std, generator_for("log_normal_", generator))


for _function in (uniform_, normal_, random_, bernoulli_, exponential_, geometric_, cauchy_, log_normal_):
    method(_function)
