"""Loops written by hand, one family of ops a file: what is no function of single elements.

Here are reductions, scans, sorts, gathers, losses, norms, random numbers, optimisers' steps and matrix products. A
loop takes arrays and numbers, outputs last, and knows nothing of tensors, graphs, shape rules or devices: what an op
means (its result's shape, its gradient in terms of ops) is in ``jitgrad/ops/``. Ops of single elements belong in
``kernels/elementwise/``, CUDA's forms of these loops into ``kernels/cuda/``.

Floor: above ``kernels/cuda/``; beside ``kernels/elementwise/``, which it does not know. Read `reduction` first: the
forms ``rows`` and ``columns``, sums in blocks, slices from 0; then `jitgrad.kernels.launch.loop`, which declares them.

An optimiser's step is one launch whose arguments are all parameters' arrays, handed to the kernel as objects
(`optimizer.foreach`). So whoever observes launches sees the true arrays, parameters keep memory of their own, and
models of all sizes share one compiled function per dtype. Counters are arrays that the kernel advances, and
hyper-parameters are numbers read at each step: a recorded step, when replayed, is the next step.
"""
