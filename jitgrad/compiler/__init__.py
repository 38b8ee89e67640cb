"""``jitgrad.compile``: a function, a whole training step as well, as one program of recorded launches.

Read `compiled` first: a call looks for a recording whose guards hold and replays it, else it records. `watch` does
what a function, rewritten by `instrument`, asks for, and notes what it reads and changes (`notes`, `tensor_notes`);
`attributes`, `accesses`, `stores` and `builtin_calls` are parts of it, `counts` says what counters are. `recording`
runs the function and listens to its launches; `replay` makes a function of that: guards (`guards`, `tensor_guards`,
`argument_guards`), a program (`program`, ``kernels/program/``), and what Python has to see afterwards.
`memory` says where arrays are in a run, `kept` which gradients may be written to again, `families` which results share
memory, `failures` what an error leaves behind; `differentiable` is for results whose gradients are asked for later,
`trial` for the program's own code that runs in their backward.
Where the function decides by what it reads of a tensor, `parts` makes functions of the stretches between, of what
`flow` knows about its variables and `crossing` about their values; `definitions` turns code to trees and back, and
`kept_code` keeps what became of jitgrad's own functions on disk.
A compiled module is one that calls a compiled function (`optimized_module`).

- A recording is a run of the function as it is, so what is not understood costs nothing but speed: the function ends
  up in parts, or uncompiled, with a reason. Whatever rewritten functions load, call, test or assign goes through the
  Watch; so guards are complete for Python code that is followed, and a change that a program can't repeat is noticed.
  Followed are a user's functions, `nn.modules`, `optim`, `GradScaler`, autograd.Functions and what is given to
  ``checkpoint``. jitgrad's ops are trusted to read their arguments, modes, and gradients; of other objects of its
  classes, such as distributions, all attributes are guarded.
- To record backward for a later caller is to run it once more than the program does. What an autograd.Function does
  there must not be noticed, so such a run ends before its first effect (`trial`), and the statement is left out;
  likewise where backward would run a checkpointed function or hooks on saved tensors.
- A function is followed by its text, if that is what its code was made of. What may be an error is not replayed inside
  of its ``try``: a program knows no handlers.
- Python's objects that were there before are guarded by identity and by words of their memory (a dictionary's
  or class's version, which ``__dict__`` an object has, a list's items): 150 guards take a tenth of a microsecond. What
  is compared by its address lives as long as that is expected. Not guarded: a class or code object that is exchanged
  (``obj.__class__``, ``f.__code__``), methods of jitgrad's own classes, what is exchanged in ``builtins``.
- Functions of C can't be followed. Special methods that they would call of a program's objects are called in their
  place (``float``, ``next``, ``len``), what they go through is given to them by an iterator that is followed
  (``enumerate``, ``sum``); where neither will do (``sorted`` of objects with ``__lt__``) the function isn't compiled.
- Arguments may have any history, since gradients of results flow on along their edges. Where the function runs backward
  itself, that would lead elsewhere: then a leaf stays one, and a history must not lead to what gradients are asked for,
  which is looked up in each call, by a walk as long as the one that uncompiled backward begins with.
- Temporaries share one block by lifetime; results are new arrays; a gradient is written to again while nobody else
  has the tensor or its memory. Arguments may lie anywhere, unless they overlap what they did not when they were
  recorded.
- On a device all is as on the CPU, but gradients are new in each run, and a number that is read ends a stretch.
- A stretch is compiled as a function is, so all that holds for calls holds at borders, and more: its results are new
  tensors or numbers, share no memory, and one of them at most has a graph, as a call has one node. Where a run finds
  another result, the function is cut between, or the statement left out.
- A program runs in one thread at a time. Another thread that calls the function meanwhile runs it uncompiled.
"""

from jitgrad.compiler.compiled import CompileWarning, Compiled, compile, disable, is_compiling, reset

from jitgrad.core.lazy_import import set_lazy_attributes

__all__ = ["CompileWarning", "Compiled", "compile", "disable", "is_compiling", "reset"]

set_lazy_attributes(__name__, dict.fromkeys(
    ("allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "get_default_backend",
     "is_dynamo_compiling", "is_exporting", "list_backends", "load_compiled_function", "nested_compile_region",
     "save_cache_artifacts", "set_default_backend", "set_enable_guard_collectives", "set_stance",
     "substitute_in_graph", "wrap_numpy"),
    "jitgrad.compiler.marks",
))  # fmt: skip
