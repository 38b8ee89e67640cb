"""LAPACK's routines by address, applied to batches of matrices by compiled code.

NumPy's wheels bundle all of LAPACK, of which ``numpy.linalg`` offers a part. A routine takes addresses alone, also of
its numbers and options, so one small function of machine code calls any of them, for one matrix after another: each
argument is an address and its distance from one matrix to the next. So a batch costs one call from Python. Integers are
words of 64 bits in those libraries; where NumPy is built otherwise SciPy, if it is there, has LAPACK with 32 bits.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from importlib import import_module
from typing import Any

import numpy as np
from llvmlite import ir

from jitgrad.kernels.blas import address_of, one_thread
from jitgrad.kernels.machine_words import NOTHING, WORD, new_library

__all__ = ["each", "integers", "on_one", "workspace"]

_KINDS = {"f": "s", "d": "d", "F": "c", "D": "z"}  # the first letter of a routine, by the dtype's
# Up to so many elements a matrix is so small that OpenBLAS starts no threads.
_ON_ONE = 2304


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
    title, get = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    title.restype, title.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, title(capsule)), 4


@functools.cache
def integers(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """The dtype of the whole numbers, such as pivots, of a routine."""
    return np.dtype(np.int64 if _routine(_KINDS[dtype.char] + name)[1] == 8 else np.int32)


@functools.cache
def _caller(count: int, texts: int) -> Any:
    """A C function ``void(intptr_t words)`` that calls a routine of so many arguments, ``texts`` of them letters.

    The words: the routine's address, the number of matrices, then of each argument its address and step. Fortran's
    compilers expect the lengths of texts after all arguments.
    """

    def build(module: ir.Module) -> None:
        function = ir.Function(module, ir.FunctionType(NOTHING, [WORD]), "each")
        builder = ir.IRBuilder(function.append_basic_block())
        words = builder.inttoptr(function.args[0], WORD.as_pointer())
        routine, matrices, *pairs = [builder.load(builder.gep(words, [WORD(k)])) for k in range(2 + 2 * count)]
        kind = ir.FunctionType(NOTHING, [WORD] * (count + texts)).as_pointer()
        start, (test, body, end) = builder.block, [function.append_basic_block() for _ in range(3)]
        builder.branch(test)
        builder.position_at_end(test)
        number = builder.phi(WORD)
        builder.cbranch(builder.icmp_signed("<", number, matrices), body, end)
        builder.position_at_end(body)
        given = [builder.add(a, builder.mul(number, s)) for a, s in zip(pairs[::2], pairs[1::2], strict=True)]
        builder.call(builder.inttoptr(routine, kind), [*given, *[WORD(1)] * texts])
        number.add_incoming(WORD(0), start)
        number.add_incoming(builder.add(number, WORD(1)), body)
        builder.branch(test)
        builder.position_at_end(end)
        builder.ret_void()

    library = new_library("each", build)
    _kept.append(library)
    return ctypes.CFUNCTYPE(None, ctypes.c_ssize_t)(library.get_pointer_to_function("each"))


_kept: list[Any] = []  # machine code lives as long as its library


@functools.cache
def _plan(name: str, kinds: str) -> tuple[Any, int, array[int]]:
    """(caller, address of the routine, words to begin with) for arguments of these kinds, a letter each."""
    address, _ = _routine(name)
    return _caller(len(kinds), kinds.count("t")), address, array("q", bytes(8 * (2 + 3 * len(kinds))))


def each(name: str, dtype: np.dtype[Any], matrices: int, *args: Any) -> None:
    """Call a routine, named without its first letter, for so many matrices.

    args: letters, whole numbers, and arrays, of which each matrix has its share: they lie one after the other. A pair
    (array, offset in elements) begins so far from there; a pair (array, None) is the same for all.
    """
    kinds = "".join(["t" if type(a) is str else "i" if type(a) is int else "a" for a in args])
    caller, address, empty = _plan(_KINDS[dtype.char] + name, kinds)
    words = empty[:]
    words[0], words[1] = address, matrices
    own = words.buffer_info()[0] + 8 * (2 + 2 * len(args))  # where the numbers are, behind the addresses
    place, number = 2, 2 + 2 * len(args)
    for argument, kind in zip(args, kinds, strict=True):
        if kind == "a":
            offset: Any = 0
            if type(argument) is tuple:
                argument, offset = argument
            words[place] = argument.__array_interface__["data"][0] + (offset or 0) * argument.itemsize
            words[place + 1] = 0 if offset is None else argument.nbytes // matrices
        else:
            words[number] = argument if kind == "i" else ord(argument)
            words[place] = own
        own, place, number = own + 8, place + 2, number + 1
    caller(words.buffer_info()[0])


def on_one(size: int) -> Any:
    """A block in which LAPACK uses one thread, for matrices of so many elements."""
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
