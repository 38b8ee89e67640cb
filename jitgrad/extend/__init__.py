"""A user's own ops, which get all that built-in ops get.

``kernel_pair.py`` makes an op of a forward loop and a backward loop over arrays: it is compiled, cached, shown by
tapes and profilers, and differentiated like any other. It builds on the declaration of structured ops
(``dispatch/structured.py``); ``pair_loop.py`` launches its loops and decides which calls are checked for indices out of
bounds, ``pair_node.py`` has its nodes. Ops that jitgrad itself offers are declared in ``jitgrad/ops/`` instead.

An op is declared anew each time that its backward or its rule is set, since both change what its nodes save.
Nothing counts as a constant in silence: an input that requires grad has a gradient, is declared ``nondifferentiable``,
or the call is an error.
"""
