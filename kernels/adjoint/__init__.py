"""Derivatives of a user's loop: a Python function of the kind that Numba compiles, transformed as text.

A function becomes a `program.Program`, a small language in which every statement acts on one scalar or one element of an
array (`parse` and the files it names). From a program follow its adjoint (`reverse`) and its tangent (`tangent`), which
`write` turns into Python text that Numba compiles. Nothing here knows of tensors or of graphs.

Read `program.py` first: it says what the language is.
"""
