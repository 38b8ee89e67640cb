"""The random generator's state, to and from PyTorch's bytes, and the ranges of whole numbers.

The state is one uint32 array, so that a recorded launch, when replayed, draws fresh numbers:

    state[0:624]    the words of MT19937
    state[624]      how many of them are used; 0 after seeding, when the first draw refills as well
    state[625]      1 if a normal waits in 626-627: below 16 elements they are made in pairs
    state[626:628]  that normal, a float64
    state[628:630]  the seed, a uint64
    state[630:632]  unused
"""

from __future__ import annotations

import warnings

import numpy as np

from jitgrad.kernels.launch import library

__all__ = ["PACKED_BYTES", "STATE_WORDS", "integer_range", "pack_state", "unpack_state"]

STATE_WORDS = 632
PACKED_BYTES = 5056


@library("packed")
def pack_state(state: np.ndarray, packed: np.ndarray) -> None:
    """packed: the 5056 bytes, uint8, that ``torch.get_rng_state`` gives for this generator.

    That is: the seed; the words left before the next refill and a 1 (int32); the words used and the
    624 words (uint64); 8 bytes of zeros, the float64 normal in waiting, 8 of zeros and its flag
    (int32); padding, and the place of a float32 normal.
    """
    packed[:] = 0
    used = int(state[624])
    packed[0:8] = state[628:630].view(np.uint8)
    # PyTorch counts down from 624, and seeds with 1 left: the first draw refills.
    packed[8:16].view(np.int32)[:] = 625 - used if used else 1, 1
    packed[16:24].view(np.uint64)[:] = used
    packed[24:5016].view(np.uint64)[:] = state[:624]
    packed[5024:5032] = state[626:628].view(np.uint8)
    packed[5040:5044].view(np.int32)[:] = state[625]


@library("state")
def unpack_state(packed: np.ndarray, state: np.ndarray) -> None:
    """Set ``state`` from the bytes of `pack_state`.

    Raises RuntimeError, in PyTorch's words, where they are not 5056 or no state of MT19937.
    """
    if packed.size != PACKED_BYTES:
        raise RuntimeError(
            f"Expected a CPUGeneratorImplState of size {PACKED_BYTES} but found the input RNG "
            f"state size to be {packed.size}"
        )
    packed = np.array(packed, np.uint8).reshape(-1)  # a copy is aligned, as the views below need
    left, seeded = packed[8:16].view(np.int32)
    used = packed[16:24].view(np.uint64)[0]
    if not (seeded == 1 and 0 < left <= 624 and used <= 624):
        raise RuntimeError("Invalid mt19937 state")
    state[:624] = packed[24:5016].view(np.uint64)
    state[624] = used
    state[625] = packed[5040:5044].view(np.int32)[0]
    state[626:628] = packed[5024:5032].view(np.uint32)
    state[628:630] = packed[0:8].view(np.uint32)
    state[630:] = 0


_BITS = {  # of an integer's positive values, or of a float's significand
    **{"bool": 1, "uint8": 8, "int8": 7, "int16": 15, "int32": 31, "int64": 63},
    **{"uint16": 16, "uint32": 32, "uint64": 64},
    **{"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53},
}
_CXX_NAMES = {
    **{"bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short int"},
    **{"int32": "int", "int64": "long", "uint16": "unsigned short", "uint32": "unsigned int"},
    **{"uint64": "unsigned long", "float16": "c10::Half", "bfloat16": "c10::BFloat16"},
    **{"float32": "float", "float64": "double"},
}


def integer_range(
    dtype: str, low: int | None = None, high: int | None = None
) -> tuple[int, int, bool]:
    """Return (low, span, wide) for `integers`, or ``wide_integers``, as PyTorch's ``random_`` chooses them.

    Without bounds: every value of an integer dtype from 0 on, or the whole numbers that a float
    dtype holds exactly. With ``low`` alone: from there on. Else low <= x < high, where bounds that
    a float dtype cannot hold move inwards, with a UserWarning. ``wide`` means two words an element:
    for a span of 2^28 or more or, without bounds, a dtype of 64 bits.

    Raises RuntimeError, in PyTorch's words, for an empty range or one that the dtype cannot hold.
    """
    floating = "float" in dtype
    top = (1 << _BITS[dtype]) - (not floating)
    if low is None:
        return 0, _as_int64(top + 1), dtype in ("float64", "int64", "uint64")
    if low == -(1 << 63) and high is None:
        if dtype not in ("int64", "float32", "float64", "bfloat16"):
            raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
        return 0, 0, True
    _require(high is None or low < high, "'from' to be less than 'to'", low, high, "to")
    if floating:
        # random_(from, to) converts the bounds to the dtype, where they may round out of the range.
        low, high = _inwards(_BITS[dtype], low, high, top)
    _check_bounds(dtype, low, high, top)
    span = (top + 1 if high is None else high) - low
    return (0 if span == 1 << 64 else low), _as_int64(span), span >= 1 << 28


def _require(holds: bool, what: str, low: int, other: int | None, name: str) -> None:
    if not holds:
        sign = ">" if name == "to_inc" else ">="
        raise RuntimeError(f"random_ expects {what}, but got from={low} {sign} {name}={other}")


def _as_int64(value: int) -> int:
    """The int64 with the bits of a uint64; 2^64 becomes 0."""
    value %= 1 << 64
    return value - (1 << 64) if value >> 63 else value


def _inwards(digits: int, low: int, high: int | None, top: int) -> tuple[int, int | None]:
    """Move the bounds that a float of so many digits would round out of the range."""
    after = _rounded(low + 1, digits)
    low = after + _gap(low + 1, digits) if after < low else low
    if high is None:
        what = "'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype"
        _require(low <= top, what, low, top, "to_inc")
        return low, None
    before = _rounded(high - 1, digits)
    high = before - _gap(high - 1, digits) if before >= high else high
    what = "'from' casted to dtype to be less than 'to' casted to dtype"
    _require(low < high, what, low, high, "to")
    return low, high


def _gap(value: int, digits: int) -> int:
    """The distance between neighbouring floats at ``value``, where that is more than 1."""
    return 1 << (abs(value).bit_length() - digits)


def _rounded(value: int, digits: int) -> int:
    """The nearest whole number of ``digits`` significant bits, ties to even."""
    drop = max(abs(value).bit_length() - digits, 0)
    quotient, rest = divmod(value, 1 << drop)
    half = (1 << drop) / 2
    return (quotient + (rest > half or (rest == half and quotient & 1))) << drop


def _check_bounds(dtype: str, low: int, high: int | None, top: int) -> None:
    """Raise for bounds outside an integer dtype or float16, warn of those that a float rounds."""
    name, digits = _CXX_NAMES[dtype], _BITS[dtype]
    floating = "float" in dtype
    least, most = (-top, top) if floating else (_least(dtype), top)
    # float16 ends at 65504, below 2**16; the other floats hold every int64.
    limit = 65504 if dtype == "float16" else 1 << 63
    for label, value in (("from", low), ("to - 1", low if high is None else high - 1)):
        if not (least <= value <= most) and (not floating or abs(value) > limit):
            raise RuntimeError(f"{label} is out of bounds for {name}")
        if not (least <= value <= most):
            warnings.warn(
                f"{label} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision "
                f"limitations {name} can support discrete uniform distribution only within this "
                "range. This warning will become an error in version 1.7 release, please fix the "
                "code in advance",
                stacklevel=3,
            )


def _least(dtype: str) -> int:
    return 0 if dtype == "bool" or dtype[0] == "u" else -(1 << _BITS[dtype])
