"""The kernels of jitgrad: compiled loops over arrays, on NumPy and Numba alone; nothing here knows Tensor or graph.

Floors, from the ground up: ``words/`` (scalar functions), ``codegen/`` (rules and loops to text), this folder's files
(text to machine code, threads, device and lazy arrays, and `launch`, which starts every kernel), ``cuda/``, then
``loops/`` and ``elementwise/`` (the table of ops) side by side. Installed as ``jitgrad.kernels``. Read `launch` first.

`compiled_function` is what a kernel's text (`kernel_text`) becomes: its calls go through one piece of machine code
that tells the kinds of the arguments (`argument_kinds`, `python_call`); for those that it has no kernel for it takes
one from disk. `loaded_library` links that without Numba, with Numba's functions in C where the kernel calls them
(`numba_symbols`): to import Numba takes longer than all else that a program does whose kernels are on disk, so nothing
else here imports it but what is imported to compile.

`numba_dispatcher` is imported to compile, and only there njit is called. `disk_cache` keeps what it has compiled, by
Numba's protocol for dispatchers: one file per overload, named by the hash of text, argument types, CPU and versions,
with a checksum, written by rename. So no file can be stale, and many processes may write at once. The protocol is
private to Numba, whose version has no upper bound here: where a new one changes it, kernels are compiled in each
process, which is slower and right. `pipeline` leaves out stages of Numba's that emitted text has no use for,
`brief_lowering` translates what kernels consist of to half as many instructions, and `quick_numba` does repeated work
of its once. What returns something, or needs constants of Python's, only Numba's dispatcher can call: `numba_context`,
`numba_library` and `loaded_code` load it for that.

`kept_texts` keeps the texts of our own loops, whose hash would else take longer to come by than the kernel.
`compile_ahead` has another process compile what will be needed soon. `past_caches` says when kernels write past the
caches. `blas` keeps NumPy's BLAS from threads of its own.

`threads` runs serial kernels on parts of their arrays in one pool, without ``prange``, OpenMP or TBB: kernels release
the GIL, so no parallel variant need be compiled. ``JITGRAD_NUM_THREADS`` or ``OMP_NUM_THREADS`` sets its size. A job is
a pair of words, the address of a C function ``void(intptr_t)`` and its argument, so that compiled code hands it over
without Python: `native_entry` has such an entry for any compiled kernel, `product_parts` those for products of
matrices, by tiles of our own (`tile_products`) or by BLAS, `split_call` cuts a kernel's arguments into parts, and
`pool_code` is what the threads run. That and the entries are compiled by LLVM directly (`machine_words`), since Numba's
front end would take 1.3 s for them; `native_library` keeps such code on disk, and `native_compilation` makes it.
`direct_call` calls short kernels whose arguments are alike every time, and `direct_parts` those in parts. All rely on
Numba's calling convention, which is private as well; a kernel of which no entry can be made is cut in Python, and
called as Numba would.
"""

if __name__ != "jitgrad.kernels":
    raise ImportError(
        f"this folder was imported as {__name__!r}, but it is the package jitgrad.kernels: "
        "write `import jitgrad.kernels`. If you meant another project called 'kernels', start "
        "Python outside jitgrad's checkout, whose folder of that name hides it."
    )
