"""``jitgrad.compile``: a function, a whole training step as well, as one program of recorded launches.

Read `compiled` first: a call looks for a recording whose guards hold and replays it, else it records. `watch` does what
a function, rewritten by `instrument`, asks for, and notes what it reads and changes (`notes`). `recording` runs the
function and listens to its launches; `replay` makes a function of that: guards, a program (``kernels/program/``), and
what Python has to see afterwards.
"""

from jitgrad.compiler.compiled import CompileWarning, Compiled, compile, disable, is_compiling, reset

__all__ = ["CompileWarning", "Compiled", "compile", "disable", "is_compiling", "reset"]
