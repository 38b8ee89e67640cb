"""The functions of ``jitgrad.fft``: they check and parse arguments, fit the input, and call the three transforms.

Every function takes ``norm``: "backward" (by default) divides what inverts by the number of elements, "forward" what
goes forward, "ortho" both by its root.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jitgrad.core import dtypes
from jitgrad.core.dtypes import dtype
from jitgrad.core.errors import not_implemented_for, scalar_type
from jitgrad.core.layout import CAPACITY, as_int, normalize_dim
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch import table
from jitgrad.dispatch.out_argument import into_out
from jitgrad.dispatch.registry import public
from jitgrad.dispatch.settled import settled
from jitgrad.dispatch.sizes import as_ints, int_argument
from jitgrad.ops.creation.constants import as_dtype, finished
from jitgrad.ops.creation.ranges import arange
from jitgrad.ops.fft.transforms import FftC2C, FftC2R, FftR2C
from jitgrad.ops.pointwise.complex import conj_physical
from jitgrad.ops.shape.copy import cast
from jitgrad.ops.shape.join import cat
from jitgrad.ops.shape.lazy_view import Conj
from jitgrad.ops.shape.rearrange import roll
from jitgrad.ops.shape.slicing import Embedded, Slice, with_size

__all__ = ["normalization_of", "resized", "transformable"]


def transformable(x: Tensor, as_complex: bool = False) -> Tensor:
    """``x`` in a dtype that can be transformed: integers as the default dtype."""
    given = x._layout.dtype
    if given.is_complex:
        return x
    wanted: dtype = given if given.is_floating_point else dtypes.get_default_dtype()
    if wanted.name not in ("float32", "float64"):
        raise RuntimeError(f"Unsupported dtype {scalar_type(wanted)}")
    return cast(x, wanted.to_complex() if as_complex else wanted)


def normalization_of(norm: Any, forward: bool) -> int:
    """0, 1 or 2: what a transform is divided by; see transforms.py."""
    if norm is None or norm == "backward":
        return 0 if forward else 2
    if norm == "ortho":
        return 1
    if norm == "forward":
        return 2 if forward else 0
    raise RuntimeError(f'Invalid normalization mode: "{norm}"')


def resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """``x`` with other sizes along ``dims``: cut, or filled with zeros at the end."""
    for d, n in zip(dims, sizes, strict=True):
        have = x._layout.shape[d]
        if have > n:
            x = Slice.apply(x, d, 0, n, 1)
        elif have < n:
            x = Embedded.apply(x, with_size(x._layout, d, n), Slice, (d, 0, have, 1))
    return x


def _count(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


# -- one dim ----------------------------------------------------------------------------------------------


def _one_dim(x: Tensor, n: int | None, dim: int, default: Callable[[int], int]) -> tuple[int, int]:
    """The dim, and how many elements of it are asked for."""
    if not x._layout.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    d = normalize_dim(dim, x._layout.ndim)
    return d, _count(default(x._layout.shape[d]) if n is None else n)


def _from_real(
    x: Tensor, n: int | None, dim: int, norm: Any, name: str = "rfft", forward: bool = True, onesided: bool = True
) -> Any:
    """What transforms ``x``, and its arguments."""
    if x._layout.dtype.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {scalar_type(x.dtype)}")
    d, n = _one_dim(x, n, dim, lambda size: size)
    given = (d,), normalization_of(norm, forward), onesided
    return _fitted(x, False, (d,), (n,), FftR2C.apply if forward else _conjugated_spectrum, *given)


def _conjugated_spectrum(x: Tensor, *args: Any) -> Tensor:
    return Conj.apply(FftR2C.apply(x, *args))


def _to_real(x: Tensor, n: int | None, dim: int, norm: Any, forward: bool) -> Any:
    """What transforms ``x``, and its arguments."""
    d, n = _one_dim(x, n, dim, lambda size: 2 * (size - 1))
    given = (d,), normalization_of(norm, forward), n
    return _fitted(x, True, (d,), (n // 2 + 1,), _real_of_conjugate if forward else FftC2R.apply, *given)


def _real_of_conjugate(x: Tensor, *args: Any) -> Tensor:
    return FftC2R.apply(conj_physical(x), *args)


def _fitted(
    x: Tensor, as_complex: bool, dims: tuple[int, ...], sizes: tuple[int, ...], transform: Any, *args: Any
) -> Any:  # fmt: skip
    """``transform`` and its arguments, or what first brings ``x`` to another dtype, or to ``sizes`` along ``dims``."""
    given, wanted = x._layout.dtype, transformable(x, as_complex)._layout.dtype
    others = [(d, n) for d, n in zip(dims, sizes, strict=True) if x._layout.shape[d] != n]
    if wanted is given and not others:
        return transform, args
    # Integers become the default dtype, which may be another one at the next call: it is asked for each time.
    changed = (lambda x: transformable(x, as_complex)) if given.category < 2 else (lambda x: cast(x, wanted))
    return _of_fitted, (changed, [d for d, _ in others], [n for _, n in others], transform, args)


def _of_fitted(
    x: Tensor, changed: Callable[[Tensor], Tensor], dims: Sequence[int], sizes: Sequence[int], transform: Any, args: Any
) -> Tensor:  # fmt: skip
    found: Tensor = transform(resized(changed(x), dims, sizes), *args)
    return found


# -- several dims -----------------------------------------------------------------------------------------


@functools.lru_cache(CAPACITY)
def _several(
    shape: tuple[int, ...], s: tuple[int, ...] | None, dim: tuple[int, ...] | None, name: str = ""
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dims, and the sizes to which an input is fitted along them; ``name`` is that of one that needs a dim."""
    if dim is not None:
        dims = tuple([normalize_dim(d, len(shape)) if shape else _no_dims(d) for d in dim])
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
        if s is not None and len(dims) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif s is not None:
        if len(s) > len(shape):
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {len(shape)} dimensions."
            )
        dims = tuple(range(len(shape) - len(s), len(shape)))
    else:
        dims = tuple(range(len(shape)))
    given = (-1,) * len(dims) if s is None else s
    sizes = tuple([shape[d] if n == -1 else n for d, n in zip(dims, given, strict=True)])
    for n in sizes:
        _count(n)
    if name and not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    return dims, sizes


def _no_dims(dim: int) -> int:
    raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")


def _all_complex(x: Tensor, s: Any, dim: Any, norm: Any, forward: bool) -> Any:
    """What transforms ``x``, and its arguments."""
    dims, sizes = _several(x._layout.shape, s, dim)
    how = normalization_of(norm, forward)
    return _fitted(x, True, dims, sizes, *((FftC2C.apply, dims, how, forward) if dims else (lambda x: x.clone(),)))


def _rfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Any:
    """What transforms ``x``, and its arguments."""
    if x._layout.dtype.is_complex:
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {scalar_type(x.dtype)}")
    dims, sizes = _several(x._layout.shape, s, dim, "rfftn")
    return _fitted(x, False, dims, sizes, FftR2C.apply, dims, normalization_of(norm, True), True)


def _of_spectrum(name: str, x: Tensor, s: Any, dim: Any, transform: Callable[..., Tensor], how: int) -> Any:
    """What makes real numbers of a spectrum by ``transform``, and its arguments."""
    dims, sizes = _several(x._layout.shape, s, dim, name)
    last = _count(2 * (x._layout.shape[dims[-1]] - 1) if s is None or s[-1] == -1 else sizes[-1])
    return _fitted(x, True, dims, (*sizes[:-1], last // 2 + 1), transform, dims, how, last)


def _irfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Any:
    return _of_spectrum("irfftn", x, s, dim, FftC2R.apply, normalization_of(norm, False))


def _hfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Any:
    return _of_spectrum("hfftn", x, s, dim, _hermitian_to_real, normalization_of(norm, True))


def _hermitian_to_real(x: Tensor, dims: tuple[int, ...], how: int, last: int) -> Tensor:
    if len(dims) > 1:
        x = FftC2C.apply(x, dims[:-1], how, True)
    return FftC2R.apply(conj_physical(x), dims[-1:], how, last)


def _ihfftn(x: Tensor, s: Any, dim: Any, norm: Any) -> Any:
    dims, sizes = _several(x._layout.shape, s, dim, "ihfftn")
    if x._layout.dtype.is_complex:
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {scalar_type(x.dtype)}")
    return _fitted(x, False, dims, sizes, _real_to_hermitian, dims, normalization_of(norm, False))


def _real_to_hermitian(x: Tensor, dims: tuple[int, ...], how: int) -> Tensor:
    found = FftR2C.apply(x, dims[-1:], how, True)
    return FftC2C.apply(conj_physical(found), dims[:-1], how, False) if len(dims) > 1 else Conj.apply(found)


# -- the functions ----------------------------------------------------------------------------------------


def _into(name: str, result: Tensor, out: Any) -> Tensor:
    if isinstance(out, Tensor) and out._layout.dtype.is_complex is not result._layout.dtype.is_complex:
        kind = "complex" if result._layout.dtype.is_complex else "floating point"
        raise RuntimeError(f"{name} expects a {kind} output tensor, but got {scalar_type(out.dtype)}")
    return into_out(f"fft_{name}", result, out)


def _publish(name: str, core: Callable[..., Any], what: str) -> None:
    """Publish ``NAME`` of one dim, ``NAME2`` of two or ``NAMEn`` of several.

    ``core(input, sizes, dims, norm)`` returns what transforms ``input``, and its further arguments.
    """
    if name.endswith("fft"):
        transformed = settled(1)(core)

        def function(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
                     out: Tensor | None = None) -> Tensor:  # fmt: skip
            found: Tensor = transformed(input, n if n is None else as_int(n), as_int(dim), norm)
            return found if out is None else _into(name, found, out)

    else:
        own = f"{name[:-1]}n"
        transformed = settled(1)(
            lambda input, s, dim, norm: core(input, _ints(name, "s", 2, s), _ints(name, "dim", 3, dim), norm)
        )

        def function(input: Tensor, s: Any = None, dim: Any = (-2, -1) if name[-1] == "2" else None,  # type: ignore
                     norm: str | None = None, *, out: Tensor | None = None) -> Tensor:  # fmt: skip
            s, dim = (tuple(v) if type(v) is list else v for v in (s, dim))
            found: Tensor = transformed(input, s, dim, norm)
            return found if out is None else _into(own, found, out)

    function.__name__ = function.__qualname__ = f"fft_{name}"
    function.__doc__ = what
    public(function, module="fft")


def _ints(name: str, argument: str, position: int, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    values = value if isinstance(value, (tuple, list)) else [value]  # PyTorch takes a number for one in a list
    return as_ints(f"fft_{name}", values, argument, position)


def _fft(x: Tensor, n: int | None, dim: int, norm: Any, name: str, forward: bool) -> Any:
    """What transforms ``x``, and its arguments."""
    if not x._layout.dtype.is_complex:
        return _from_real(x, n, dim, norm, name, forward, False)
    d, n = _one_dim(x, n, dim, lambda size: size)
    return _fitted(x, True, (d,), (n,), FftC2C.apply, (d,), normalization_of(norm, forward), forward)


for _name, _core, _doc in (
    ("fft", functools.partial(_fft, name="fft", forward=True),
     "Fourier transform along ``dim``: the sum over k of x[k] exp(-2 pi i j k / n)."),
    ("ifft", functools.partial(_fft, name="ifft", forward=False), "The inverse of ``fft`` along ``dim``."),
    ("rfft", _from_real,
     "Fourier transform of a real tensor along ``dim``: frequencies 0 to n // 2, the others being their conjugates."),
    ("irfft", functools.partial(_to_real, forward=False),
     "The inverse of ``rfft``: ``n`` real numbers, by default 2 (size - 1), which are an even number."),
    ("hfft", functools.partial(_to_real, forward=True),
     "The Fourier transform, ``n`` real numbers, of a Hermitian signal of which the input is one half."),
    ("ihfft", functools.partial(_from_real, name="ihfft", forward=False),
     "The inverse of ``hfft`` of a real tensor: one half of a Hermitian signal."),
):  # fmt: skip
    _publish(_name, _core, _doc)

for _name, _form, _doc in (
    ("fft", functools.partial(_all_complex, forward=True), "Fourier transform over {dims}."),
    ("ifft", functools.partial(_all_complex, forward=False), "The inverse of ``fft{kind}`` over {dims}."),
    ("rfft", _rfftn, "Fourier transform of a real tensor over {dims}, of the last dim frequencies 0 to n // 2."),
    ("irfft", _irfftn, "The inverse of ``rfft{kind}`` over {dims}, real; of the last dim, in which ``s`` gives n."),
    ("hfft", _hfftn, "The Fourier transform, real, over {dims} of a signal that is Hermitian in the last dim."),
    ("ihfft", _ihfftn, "The inverse of ``hfft{kind}`` over {dims}, of a real tensor."),
):
    for _kind, _dims in (("2", "two dims, by default the last ones"), ("n", "several dims, by default all")):
        _publish(_name + _kind, _form, _doc.format(dims=_dims, kind=_kind))


# -- frequencies ------------------------------------------------------------------------------------------


def _frequencies(op: str, n: Any, d: Any, half: bool, dtype: Any, out: Any, device: Any, layout: Any,
                 requires_grad: bool) -> Tensor:  # fmt: skip
    n = int_argument(f"fft_{op}", "n", 1, n)
    wanted = out.dtype if isinstance(out, Tensor) else as_dtype(f"fft_{op}", dtype) or dtypes.get_default_dtype()
    if wanted.category < 2:
        raise RuntimeError(f"{op} requires a floating point or complex dtype")
    if wanted.is_complex:
        raise not_implemented_for("arange_cpu", wanted)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if half:
        steps = arange(n // 2 + 1, dtype=wanted, device=device)
    else:
        parts = arange((n + 1) // 2, dtype=wanted, device=device), arange(-(n // 2), 0, dtype=wanted, device=device)
        steps = cat(parts)
    spacing = n * d
    return finished(f"fft_{op}", table.mul(steps, 1 / spacing if spacing else float("inf")), requires_grad, out)


@functools.partial(public, module="fft")
def fft_fftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
                device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of the ``n`` elements of a transform, for samples ``d`` apart: 0, 1, ..., -2, -1, over n d."""
    return _frequencies("fftfreq", n, d, False, dtype, out, device, layout, requires_grad)


@functools.partial(public, module="fft")
def fft_rfftfreq(n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
                 device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:  # fmt: skip
    """The frequencies of the elements of a real transform of ``n`` samples ``d`` apart: 0 to n // 2, over n d."""
    return _frequencies("rfftfreq", n, d, True, dtype, out, device, layout, requires_grad)


@settled(1)
def _shifted(x: Tensor, name: str, dim: Any, extra: int) -> Any:
    """What shifts ``x``, and its arguments."""
    ndim = x._layout.ndim
    dims = tuple(range(ndim)) if dim is None else _ints(name, "dim", 2, dim) or ()
    places = [normalize_dim(d, ndim) if ndim else _no_dims(d) for d in dims]
    return roll, (tuple([(x._layout.shape[d] + extra) // 2 for d in places]), tuple(places))


@functools.partial(public, module="fft")
def fft_fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The frequencies along ``dim``, by default all dims, in order: 0 goes to the middle."""
    result: Tensor = _shifted(input, "fftshift", tuple(dim) if type(dim) is list else dim, 0)
    return result


@functools.partial(public, module="fft")
def fft_ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """What undoes ``fftshift``."""
    result: Tensor = _shifted(input, "ifftshift", tuple(dim) if type(dim) is list else dim, 1)
    return result
