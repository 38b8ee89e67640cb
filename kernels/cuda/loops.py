"""Loops written by hand for CUDA: constants, ranges, sums. Imported when a device is first used.

`LOOPS` gets, by the name of the CPU's loop, what runs in its place on device arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgrad.kernels.cuda.driver import Constant
from jitgrad.kernels.cuda.provider import THREADS, CudaLoop, empty, provider
from jitgrad.kernels.device_array import LOOPS, DeviceArray
from jitgrad.kernels.words.vocabulary import T

A = R = T
cuda: Any = None  # a name in the text of kernels; the provider's module there


def _fill(out, value, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = value


def _fill_strided(out, value, shape, strides, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        rest, at = i, 0
        for d in range(shape.size - 1, -1, -1):
            at += rest % shape[d] * strides[d]
            rest //= shape[d]
        out[at] = value


def _arange(out, start, step, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = start + i * step


def _divide(out, count, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = out[i] / count


def _sum_block(x, out, count, length, parts):
    """One block of threads adds one of ``parts`` parts of a row of ``count`` elements."""
    shared = cuda.shared.array(THREADS, A)
    lane = cuda.threadIdx.x
    part = cuda.blockIdx.x % parts
    row = cuda.blockIdx.x // parts * count
    first, second, third, fourth = A(0), A(0), A(0), A(0)
    # Neighbouring threads read neighbouring elements, which the hardware fetches together. Four independent sums keep
    # four loads of each thread in flight.
    k = row + part * length + lane
    end = row + min(count, (part + 1) * length)
    while k + 3 * THREADS < end:
        first += A(x[k])
        second += A(x[k + THREADS])
        third += A(x[k + 2 * THREADS])
        fourth += A(x[k + 3 * THREADS])
        k += 4 * THREADS
    while k < end:
        first += A(x[k])
        k += THREADS
    shared[lane] = (first + second) + (third + fourth)
    cuda.syncthreads()
    # A tree: half as many threads add in each round, so THREADS must be a power of two.
    half = THREADS // 2
    while half > 0:
        if lane < half:
            shared[lane] += shared[lane + half]
        cuda.syncthreads()
        half //= 2
    if lane == 0:
        out[cuda.blockIdx.x] = shared[0]


def _sum_column(x, out, count, length, parts, inner, n):
    """One thread adds one of ``parts`` parts of a column; neighbours read neighbours."""
    for j in range(cuda.grid(1), n, cuda.gridsize(1)):
        column = j % inner
        part = j // inner % parts
        begin = j // inner // parts * count
        first, second, third, fourth = A(0), A(0), A(0), A(0)
        k = (begin + part * length) * inner + column
        end = (begin + min(count, (part + 1) * length)) * inner
        while k + 3 * inner < end:
            first += A(x[k])
            second += A(x[k + inner])
            third += A(x[k + 2 * inner])
            fourth += A(x[k + 3 * inner])
            k += 4 * inner
        while k < end:
            first += A(x[k])
            k += inner
        out[j] = (first + second) + (third + fourth)


FILL, FILL_STRIDED, ARANGE, DIVIDE = CudaLoop(_fill), CudaLoop(_fill_strided), CudaLoop(_arange), CudaLoop(_divide)
SUM_BLOCK, SUM_COLUMN = CudaLoop(_sum_block), CudaLoop(_sum_column)
ENOUGH, LENGTH = 2048, 1 << 12  # blocks that keep a GPU busy; elements that are worth a block


def fill(out: DeviceArray, value: Any) -> None:
    """Set every element."""
    n = out.size
    if n:
        FILL.grid(out.dtype).over(n)(out, out.dtype.type(value), n)


def fill_strided(first: DeviceArray, value: Any, shape: np.ndarray, strides: np.ndarray) -> None:
    """Set every element of an array of any strides."""
    n = math.prod(map(int, shape))
    if n:
        sizes, steps = (Constant(provider().to_device(a.astype(np.int64))) for a in (shape, strides))
        FILL_STRIDED.grid(first.dtype).over(n)(first, first.dtype.type(value), sizes, steps, n)


def arange(out: DeviceArray, start: Any, step: Any) -> None:
    """start + i step; rounded once, so in float64 unless all are integers."""
    n = out.size
    if n:
        ARANGE.grid(out.dtype).over(n)(out, start, step, n)


def divide(out: DeviceArray, count: int) -> None:
    """Divide every element in place."""
    n = out.size
    if n:
        DIVIDE.grid(out.dtype).over(n)(out, out.dtype.type(count), n)


def sum_rows(x: DeviceArray, out: DeviceArray) -> None:
    """Sum the last axis of (outer, n); long rows in parts, whose sums are summed."""
    outer, n = x.shape
    if not outer:
        return
    # Few long rows would leave most of the GPU idle: they are cut, and the parts' sums summed.
    parts = min(ENOUGH, -(-n // LENGTH)) if outer < ENOUGH and n else 1
    target = out if parts == 1 else empty((outer, parts), out.dtype)
    SUM_BLOCK.grid(x.dtype).blocks(outer * parts)(x, target, n, -(-n // parts), parts)
    if parts > 1:
        sum_rows(target, out)


def sum_columns(x: DeviceArray, out: DeviceArray) -> None:
    """Sum the middle axis of (outer, n, inner)."""
    outer, n, inner = x.shape
    results = outer * inner
    if not results:
        return
    # As many parts as give every thread of ENOUGH blocks a result, of 64 elements or more.
    parts = min(-(-ENOUGH * THREADS // results), -(-n // 64)) if n else 1
    target = out if parts == 1 else empty((outer, parts, inner), out.dtype)
    args = x, target, n, -(-n // parts), parts, inner, results * parts
    SUM_COLUMN.grid(x.dtype).over(results * parts)(*args)
    if parts > 1:
        sum_columns(target, out)


LOOPS.update(
    fill=fill, fill_strided=fill_strided, arange=arange, divide=divide, sum_rows=sum_rows, sum_columns=sum_columns
)
