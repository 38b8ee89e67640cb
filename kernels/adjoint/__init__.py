"""Derivatives of a user's loop: a Python function of the kind that Numba compiles, transformed as text.

A function becomes a `program.Program`, a small language in which every statement acts on one scalar or one element of
an array. From a program follow its adjoint and its tangent, which are written as Python text and compiled. Nothing
here knows of tensors or of graphs. Read `program` first: it says what the language is.

From the function to the program: `parse` reads the text, for arguments of given kinds, as often as it takes until
what it has learned agrees (which variables are floats, which arrays move). `constructs` refuses what can't be
differentiated; `routine` finds what names mean; `jumps` writes break, continue and return as flags. A chain of
classes, each of which adds to the last, writes the rest out as loops over elements: `arrays`, `views`, `expressions`,
`creation`, `calls` (other functions are written out in place), `reductions`, `names`, `assignments`, `loops`,
`blocks`; with `values`, `sizes`, `operations`, `known` and `state` below them.

From the program to its derivatives: `ssa` and `to_ssa` give each scalar one definition; `activity` says which have
derivatives that matter, `pullback` writes the reverse of single statements with `derivatives`, `overlap` compares
indices. `plan` decides what the reverse sweep keeps and what it computes again; `forward` and `reverse` write the two
sweeps, with `rows`, `nests`, `stencils`, `handed`, `bases`, `lives`, `split`, `gather` and `choice` for loops that
become vectors. `checkpoint` runs long loops in stretches, or with `binomial` from few states; `shares` runs loops over
prange in threads, `tangent` is forward mode. `entries` compiles; `checks` compares indices with sizes; `callers` is for
callers that Numba compiles. `notes` keeps on disk what was derived; who finds it there imports few of these files.

Decisions, and why:

- Memory is put back, values are computed again. Before an element that the reverse sweep reads is overwritten, its
  old value is kept; scalars of a stretch without loops are computed anew. What is kept so is as much as the state
  that a loop overwrites, whatever the number of operations. What costs much to compute (exp, log) is kept, too.
- One number is kept per run of a block, in an array for each place of the text: sized once where the number of runs
  is known ahead, growing where it isn't.
- The language has elements only. Rows, slices, whole arrays and reductions are loops by the time that anything is
  differentiated, so that there is one rule for each scalar function and one for memory.
- Second derivatives come from tangents: with the Jacobian J, w . (J^T s) is s . (J w), so the gradient of a gradient
  is one of the tangent program. The reverse sweep itself is never differentiated, and any order needs these two only.
"""
