"""Gradients of loops: the examples of tests/extend/loop_examples.py, timed beside what else computes them.

`problems` loads the examples; `adjoints` has gradients written by hand for Numba, `torch_programs` and `jax_programs`
what users of those libraries write; `contenders` runs each in a process of its own, and `figure` prints the table.
"""
