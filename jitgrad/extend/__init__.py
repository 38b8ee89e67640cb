"""A user's own ops, which get all that built-in ops get.

I have a loop. Which tool?

- **The loop is no loop**: each element of the result is an expression of the same elements of the inputs. Write it in
  tensor ops; nothing else needs to be said. If it is used often, or its steps cost too much memory, declare it:
  ``class Name(jitgrad.Elementwise)`` has the expression and its derivatives, each of which becomes one loop.
- **The loop is all you have**, and you don't want to write its derivative: ``@jitgrad.differentiable`` on the function.
  The gradient is derived from the forward loop alone, which may carry a state from step to step.
- **You know the derivative as a loop**, or know a better one than a program would derive (a recurrence backwards, one
  that recomputes instead of storing, one that skips zeros): ``jitgrad.kernel_pair(forward, backward)``.
- **The work is done elsewhere**, by SciPy, a solver, a C library: ``jitgrad.autograd.Function``. Its forward and
  backward are Python, so nothing is compiled, and anything may be called.
- **There are no tensors at all**, only arrays in a Numba program of your own: ``numba_grad``, which knows no graph.

All but the last give functions of tensors, whose nodes meet in one graph. What is asked of each:

==================  ====================  ==================  ================  =========================
..                  Elementwise           differentiable      kernel_pair       autograd.Function
==================  ====================  ==================  ================  =========================
you write           an expression and     the forward loop    both loops        forward and backward, in
                    its derivatives                                             Python
second derivatives  follow                follow              with ``rule=``    if backward is made of
                                                                                tensor ops
forward mode        follows               follows             with ``rule=``    with ``jvp``
vmap                a whole batch at      one launch, with    sample by sample  with ``vmap``
                    once                  samples in threads
CUDA                yes                   no                  with ``cuda=``    if what it calls has it
==================  ====================  ==================  ================  =========================

A loop, and its gradient
------------------------
Exponential smoothing, by a constant that is to be fitted::

    @jitgrad.differentiable
    def smoothing_error(series, alpha):
        level, total = series[0], 0.0
        for t in range(1, series.shape[0]):
            total += (series[t] - level) ** 2
            level = alpha * series[t] + (1.0 - alpha) * level
        return total

    alpha = jitgrad.tensor(0.3, requires_grad=True)
    smoothing_error(series, alpha).backward()

- The text is all that is asked for: loops, branches, early returns, elements, rows and slices, arrays that the function
  allocates, whole-array expressions, reductions, calls of other such functions. What can't be differentiated is refused
  at the declaration, with the line and what to write instead.
- Backward runs the statements from the last to the first, compiled. Values that are cheap are computed again; kept is
  what is overwritten and needed: ``smoothing_error.adjoint_source(series, 0.3)`` shows it.
- ``checkpoint=True`` for long loops over time: memory for the root of their length.
- ``jitgrad.numba_grad(f)``, ``f.adjoint`` and ``f.tangent`` are for arrays and numbers, and for functions that
  ``numba.njit`` compiles.

A pair, with all that may be said of it
---------------------------------------
The largest element of each row, and where it stands::

    def largest(x, out, out_at):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                if x[i, j] > x[i, out_at[i]]:
                    out_at[i] = j
            out[i] = x[i, out_at[i]]

    def largest_backward(g_out, out_at, grad_x):
        for i in range(grad_x.shape[0]):
            grad_x[i, out_at[i]] = g_out[i]

    def rule(g_out, x, out_at):
        return jitgrad.zeros_like(x).scatter(1, out_at[:, None], g_out[:, None])

    row_max = jitgrad.kernel_pair(
        largest, largest_backward,
        shape=lambda x: (x[:1], x[:1]), dtype=(None, jitgrad.int64),
        rule=rule, example=lambda: (jitgrad.randn(3, 4),),
    )

- Names are the contract: ``out...`` is written, ``g...`` are the outputs' gradients, ``grad_INPUT`` is added to.
- ``shape`` and ``dtype`` say what the outputs are like: an input's name, a shape, an example, or a function of the
  inputs' shapes that returns one of these. An output of integers has no gradient.
- ``rule`` is backward again, in tensor ops: second derivatives and forward mode follow from it.
- ``example`` costs nothing until ``JITGRAD_CHECK=1`` is set. Then the pair's gradients are compared with differences
  when it is declared, and an error names the loop, the input and both numbers. ``jitgrad.testing.check_pair`` does the
  same in a test.
- ``cuda=(forward, backward)`` are numba.cuda loops with the same parameters, for tensors on a GPU.

How it is built
---------------
``differentiable.py`` makes a ``derived_op.py`` of a function, ``numba_grad.py`` functions of arrays. In threads run the
rows of prange by ``derived_shares.py`` and the samples of a batch by ``derived_samples.py``.

``kernel_pair.py`` makes an op of the two loops. It builds on the declaration of structured ops
(``dispatch/structured.py``). ``pair_names.py`` knows what parameters mean, ``pair_outputs.py`` the outputs' shapes and
dtypes; ``pair_loop.py`` launches loops and decides which calls are checked for indices out of bounds;
``pair_backward.py`` calls the backward loop, ``pair_node.py`` has the nodes. Ops that jitgrad itself offers are
declared in ``jitgrad/ops/`` instead.

An op is declared anew each time that its backward or its rule is set, since both change what its nodes save.
Nothing counts as a constant in silence: an input that requires grad has a gradient, is declared ``nondifferentiable``,
or the call is an error.
"""
