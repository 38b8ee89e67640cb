"""Rules and loops to the text of kernels: self-contained source, in which no name is looked up outside.

`rules` checks the scalar rules of elementwise ops, `rule_text` writes them and the words for a dtype, `source` resolves
what a hand-written loop names, `emit_cpu` writes the text of CPU kernels (`kernels/cuda/emit.py` that of CUDA's). Of
users' loops `loop_faults` says what their text shows to be wrong, `index_checks` makes the form that is checked for
indices out of bounds, `data_indices` says where data decide on them, `parallel_rows` makes the form for threads. Here
is text only: nothing is compiled, nothing is run, and no op is named. Floor: above ``kernels/words/``, below the
compiler.

Read `rules` first, then ``elementwise_text`` in `emit_cpu`.

Two layouts suffice. Flat kernels loop over contiguous arrays. Strided kernels take first elements: each array comes as
a contiguous array of one element, its first, with the collapsed shape and the strides of all arrays as ``uint64``
arrays. So one compiled overload serves every rank, permutation and broadcast, and unsigned indices spare Numba's test
for negative ones, which would keep LLVM from vectorising. Rules are parsed when they are first used, not at import.
"""
