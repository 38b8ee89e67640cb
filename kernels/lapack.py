"""LAPACK's routines by address, applied to batches of matrices by compiled code.

NumPy's wheels bundle all of LAPACK, of which ``numpy.linalg`` offers a part. A routine takes addresses alone, also of
its numbers and options, so one small function of machine code calls any of them, for one matrix after another: each
argument is an address and its distance from one matrix to the next. So a batch costs one call from Python. Integers are
words of 64 bits in those libraries; where NumPy is built otherwise SciPy, if it is there, has LAPACK with 32 bits.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from importlib import import_module
from typing import Any

import numpy as np
from llvmlite import ir

from jitgrad.kernels.blas import address_of, one_thread
from jitgrad.kernels.machine_words import NOTHING, WORD
from jitgrad.kernels.native_library import new_library
from jitgrad.kernels.pool_code import DATA

__all__ = ["each", "integers", "on_one", "workspace"]

_KINDS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # the first letter of a routine, by the dtype's
# Up to so many elements OpenBLAS's routines start no threads, the others do sooner or later.
_ON_ONE = 64


@functools.cache
def _routine(name: str) -> tuple[int, int]:
    """(address, bytes of its integers) of a routine; RuntimeError where there is none."""
    if address := address_of(f"scipy_{name}_64_", f"{name}_64_"):
        return address, 8
    try:
        capsule = import_module("scipy.linalg.cython_lapack").__pyx_capi__[name]
    except ImportError:
        raise RuntimeError(
            f"LAPACK's {name} was not found in NumPy's libraries; with SciPy it is: pip install scipy"
        ) from None
    except KeyError:
        capsule = import_module("scipy.linalg.cython_blas").__pyx_capi__[name]
    one_thread.include_scipy()
    title, get = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    title.restype, title.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, title(capsule)), 4


@functools.cache
def integers(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """The dtype of the whole numbers, such as pivots, of a routine."""
    return np.dtype(np.int64 if _routine(_KINDS[dtype.char] + name)[1] == 8 else np.int32)


@functools.cache
def _caller(kinds: str) -> Any:
    """A C function ``void(words)`` that calls a routine of arguments of these kinds: text, integer or array.

    The words: the routine's address, the number of matrices, then of each array its object, the bytes to skip and the
    step, and of each other argument the word itself, whose address the routine gets. Fortran's compilers expect the
    lengths of texts after all arguments.
    """

    def build(module: ir.Module) -> None:
        function = ir.Function(module, ir.FunctionType(NOTHING, [WORD]), "each")
        builder = ir.IRBuilder(function.append_basic_block())
        place = iter(range(2 + 3 * len(kinds)))

        def address() -> Any:
            return builder.add(function.args[0], WORD(8 * next(place)))

        def at(where: Any) -> Any:
            return builder.load(builder.inttoptr(where, WORD.as_pointer()))

        def word() -> Any:
            return at(address())

        def memory() -> Any:
            return builder.add(at(builder.add(word(), WORD(DATA))), word())

        routine, matrices = word(), word()
        pairs = [(memory(), word()) if kind == "a" else (address(), WORD(0)) for kind in kinds]
        lengths = [WORD(1)] * kinds.count("t")
        called = ir.FunctionType(NOTHING, [WORD] * (len(kinds) + len(lengths))).as_pointer()
        start, (test, body, end) = builder.block, [function.append_basic_block() for _ in range(3)]
        builder.branch(test)
        builder.position_at_end(test)
        number = builder.phi(WORD)
        builder.cbranch(builder.icmp_signed("<", number, matrices), body, end)
        builder.position_at_end(body)
        given = [builder.add(first, builder.mul(number, step)) for first, step in pairs]
        builder.call(builder.inttoptr(routine, called), [*given, *lengths])
        number.add_incoming(WORD(0), start)
        number.add_incoming(builder.add(number, WORD(1)), body)
        builder.branch(test)
        builder.position_at_end(end)
        builder.ret_void()

    library = new_library("each", build)
    _kept.append(library)
    # The words are passed as bytes: ctypes gives the function their address.
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p)(library.get_pointer_to_function("each"))


_kept: list[Any] = []  # machine code lives as long as its library
_plans: dict[Any, tuple[Any, Any, int]] = {}  # {(routine, dtype, types of arguments): (caller, pack, address)}


def _plan(key: Any) -> tuple[Any, Any, int]:
    name, letter, *types = key
    address, _ = _routine(_KINDS[letter] + name)
    kinds = "".join(["t" if t is str else "i" if t is int else "a" for t in types])
    found = _plans[key] = _caller(kinds), struct.Struct(f"={2 + len(kinds) + 2 * kinds.count('a')}q").pack, address
    return found


def _object(array: Any) -> int:
    """Where an array's object is, in which its memory's address is found: NumPy takes 1.5 us to tell that itself."""
    if array.__class__ is not np.ndarray:
        array.__array_interface__  # noqa: B018 - a LazyArray raises Unresolved
    return id(array)


def each(name: str, dtype: np.dtype[Any], matrices: int, *args: Any) -> None:
    """Call a routine, named without its first letter, for so many matrices.

    args: letters, whole numbers, and arrays, of which each matrix has its share: they lie one after the other. A pair
    (array, offset in elements) begins so far from there; a pair (array, None) is the same for all.
    """
    key = (name, dtype.char, *map(type, args))
    caller, pack, address = _plans.get(key) or _plan(key)
    words = [address, matrices]
    for a in args:
        kind = a.__class__
        if kind is int:
            words.append(a)
        elif kind is str:
            words.append(ord(a))
        elif kind is tuple:
            whole, offset = a
            words += _object(whole), (offset or 0) * whole.itemsize, 0 if offset is None else whole.nbytes // matrices
        else:
            words += _object(a), 0, a.nbytes // matrices
    caller(pack(*words))


def on_one(size: int) -> Any:
    """A block in which LAPACK uses one thread, for so many elements of all matrices."""
    return one_thread if size > _ON_ONE else _nothing


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


_nothing = _Nothing()


@functools.lru_cache(maxsize=1024)
def workspace(name: str, dtype: np.dtype[Any], *args: Any, more: int = 0) -> int:
    """How many elements of working memory a routine wants: it is asked with -1 in their place.

    args: its arguments before that memory; None where it gets an array, of which it reads an element at most. more: how
    many further arrays for its work it takes, before the last argument, its info.
    """
    nothing, found = np.zeros(1, np.complex128), np.zeros(1, dtype)
    given = [(nothing, None) if a is None else a for a in args]
    each(name, dtype, 1, *given, found, -1, *[np.zeros(2, np.complex128) for _ in range(more)], np.zeros(1, np.int64))
    return max(int(found[0].real), 1)
