"""MT19937, the generator of PyTorch's on a CPU: machine code of its own, which random kernels call.

Inlined into each of them it would take 0.3 s more to compile; on its own it takes 0.05 s, and is as quick: state and
results are vectors of 32-bit words, sixteen at a time.
"""
# mypy: ignore-errors

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

from jitgrad.kernels.machine_words import WORD, compiled_words

__all__ = ["SYMBOL", "add_generator"]

SIZE, AHEAD = 624, 397  # words of the state; a new word takes part of the one so many places on
BEHIND = SIZE - AHEAD
WORDS = 16  # in a vector: whatever registers there are, LLVM cuts it into them
BYTES = 4  # of a word
SYMBOL = "jitgrad.mersenne_twister"


def fill(state, words, count):
    """Put the generator's next ``count`` words at the address ``words``; return how many of the state are used now.

    The state is that of `generator_state.py`: its words, then how many of them are used. They are made anew 624 at a
    time, each from the one 397 places on, so a vector of new words reads none of itself.
    """
    used, done = number(state + BYTES * SIZE), 0
    while done < count:
        if (used == 0) | (used == SIZE):
            renew(state, state + BYTES * BEHIND, BYTES * AHEAD)
            copy(state + BYTES * SIZE, state, BYTES)  # the last word's neighbour is the first, already new
            renew(state + BYTES * BEHIND, state + BYTES * SIZE, 0 - BYTES * BEHIND)
            used = 0
        take = SIZE - used
        if count - done < take:
            take = count - done
        hand_out(state + BYTES * used, words + BYTES * done, BYTES * take)
        done, used = done + take, used + take
    return used


def renew(place, end, other):
    """Replace the words from ``place`` to ``end``: each depends on the next and on that ``other`` bytes away."""
    while place + BYTES * WORDS <= end:
        twist_vector(place, other)
        place += BYTES * WORDS
    while place < end:
        twist(place, other)
        place += BYTES


def hand_out(state, words, size):
    """Write ``size`` bytes of the state, tempered, to ``words``."""
    done = 0
    while done + BYTES * WORDS <= size:
        temper_vector(state + done, words + done)
        done += BYTES * WORDS
    while done < size:
        temper(state + done, words + done)
        done += BYTES


def _operations() -> dict[str, Any]:
    """What the functions above do with words, one or a vector at a time."""
    word = ir.IntType(32)

    def place(builder: Any, address: Any, kind: Any) -> Any:
        return builder.inttoptr(address, kind.as_pointer())

    def load(builder: Any, address: Any, kind: Any) -> Any:
        return builder.load(place(builder, address, kind), align=BYTES)

    def store(builder: Any, value: Any, address: Any) -> None:
        builder.store(value, place(builder, address, value.type), align=BYTES)

    def constant(kind: Any, value: int) -> Any:
        return word(value) if kind is word else ir.Constant(kind, [value] * WORDS)

    def twist(builder: Any, address: Any, other: Any, kind: Any = word) -> None:
        """The recurrence of Matsumoto and Nishimura: the top bit of one word, the lower 31 of the next."""
        high = builder.and_(load(builder, address, kind), constant(kind, 0x80000000))
        following = load(builder, builder.add(address, WORD(BYTES)), kind)
        y = builder.or_(high, builder.and_(following, constant(kind, 0x7FFFFFFF)))
        matrix = builder.mul(builder.and_(y, constant(kind, 1)), constant(kind, 0x9908B0DF))
        y = builder.xor(builder.lshr(y, constant(kind, 1)), matrix)
        store(builder, builder.xor(load(builder, builder.add(address, other), kind), y), address)

    def temper(builder: Any, address: Any, target: Any, kind: Any = word) -> None:
        """Equidistributes the bits of what is handed out."""
        y = load(builder, address, kind)
        y = builder.xor(y, builder.lshr(y, constant(kind, 11)))
        for shift, mask in ((7, 0x9D2C5680), (15, 0xEFC60000)):
            y = builder.xor(y, builder.and_(builder.shl(y, constant(kind, shift)), constant(kind, mask)))
        store(builder, builder.xor(y, builder.lshr(y, constant(kind, 18))), target)

    vector = ir.VectorType(word, WORDS)
    return {
        "twist": twist, "twist_vector": functools.partial(twist, kind=vector), "temper": temper,
        "temper_vector": functools.partial(temper, kind=vector),
        "number": lambda builder, address: builder.zext(load(builder, address, word), WORD),
    }  # fmt: skip


@functools.cache
def add_generator() -> None:
    """Let LLVM know `fill` by SYMBOL, by which kernels call it (random_draw.py), before one is linked."""
    made = compiled_words("mt19937", [fill], [renew, hand_out], _operations, Path(__file__).read_text())
    llvm.add_symbol(SYMBOL, made["fill"])
