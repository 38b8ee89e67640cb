"""Backward: runs the nodes of the recorded graph, sums gradients, and keeps the history of memory that is written to.

``task.py`` is one run over the nodes behind its roots: read it first. ``engine.py`` starts runs, ``accumulate.py``
sums gradients, ``hooks.py`` registers and calls hooks, ``view_history.py`` rewires the graph after inplace ops on
views, ``exchanged_data.py`` fits what nodes get after ``.data =``. Nodes know how to compute gradients
(jitgrad/core/node.py, jitgrad/dispatch/); arguments of ``backward`` and ``grad`` are checked in jitgrad/autograd/;
nothing here knows of wrapped tensors, modules or a single op but the sum.

- Nodes run by falling sequence number, without counting who waits for whom. Only while a node lives whose number a
  user has set (``_set_sequence_nr``) are they sorted by dependence; then a number may be anything, as in PyTorch.
- Gradients are summed in place where one of the two is owned: nobody else holds it. A gradient that a node passed on
  as it was is borrowed, and so is one that a hook or observer has seen; what hooks keep so stays as it was, as in
  PyTorch. A view of all of an owned gradient, which a view's backward returns, becomes owned in its place.
- Every 25th nested run (a node or hook that calls backward) gets a thread, and with it a stack. Grad mode and the
  like go along, a user's own thread-locals do not.
- Views get a new history when a write is recorded. PyTorch compares versions whenever a view's history is asked for,
  so there writes under ``no_grad`` or through ``detach()`` also turn a view's node into AsStridedBackward0, and
  forbid outputs of ``unbind`` and its kin afterwards. Gradients agree; only that name and that refusal are missing. A
  view made under ``no_grad`` says ``requires_grad`` as its base does; ops on it record nodes that lead nowhere,
  unless its base did not require grad when the view was made.
"""
