"""Vector loops with more constants than there are registers.

LLVM knows that a constant can be made again at any place, so in such a loop it reads and broadcasts one ahead of nearly
each operation. An instruction that makes a register of itself, and does nothing, hides from LLVM that the number is a
constant. Then it is broadcast once, ahead of the loop, and put on the stack, from where arithmetic takes it as an
operand: loops that several words were fused in take 0.9 to 0.96 of the time (Zen 3). AVX-512 has operands that are
broadcast, and other processors have 32 registers, so nothing is done for these.
"""

from __future__ import annotations

import re

from jitgrad.kernels.processor import cpu_features

__all__ = ["keep_constants"]

_REGISTERS = 16
# What LLVM's vectoriser makes of a loop: one block, right behind the jump to it.
_LOOP = re.compile(r"^  br label %(vector\.body\d*)\n\n\1:.*?^  br i1 ", re.MULTILINE | re.DOTALL)
_OPERATION = re.compile(r"^  \S+ = (?:fadd|fsub|fmul|fcmp) .*?<(\d+) x float>.*$", re.MULTILINE)
# As LLVM prints a vector of equal numbers from its version 19 on; earlier ones are left as they are. So are 0, since a
# register of it needs no memory, and -1 and 2, by which LLVM doesn't multiply.
_CONSTANT = re.compile(r"splat \(float (?!-?0\.0|-1\.0+e\+00|2\.0+e\+00)[^)]+\)")


def keep_constants(text: str) -> str:
    """LLVM's text of a module, with the constants of its large vector loops made ahead of them."""
    features = cpu_features()
    return _LOOP.sub(_kept, text) if "avx2" in features and "avx512vl" not in features else text


def _kept(loop: re.Match[str]) -> str:
    made: dict[str, str] = {}  # the name of each constant, by what makes it

    def operands(operation: re.Match[str]) -> str:
        kind = f"<{operation[1]} x float>"

        def name(constant: re.Match[str]) -> str:
            call = f'call {kind} asm "", "=x,0"({kind} {constant[0]})'
            return made.setdefault(call, f"%{loop[1]}.constant{len(made)}")

        return _CONSTANT.sub(name, operation[0])

    changed = _OPERATION.sub(operands, loop[0])
    if len(made) <= _REGISTERS:
        return loop[0]
    return "\n".join([*(f"  {name} = {call}" for call, name in made.items()), changed])
