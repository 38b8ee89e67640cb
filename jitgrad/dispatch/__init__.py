"""From a call to a launch to a node: how ops are declared, checked, planned, recorded, batched and published.

No op is defined here: ops are rows of ``kernels/elementwise/`` or classes in ``ops/``. Read elementwise_publish.py
first, or structured.py for ops that are more than a rule for one element.

The way of ``x + y``: ``Tensor.__add__``, made of the row ``Add`` by elementwise_publish.py, looks up a ForwardPlan by
the layouts of x and y. The first time elementwise.py checks and promotes the operands, and launch_plan.py chooses the
form of the loop and has the kernel compiled. ``plan.compute(x, y)`` allocates the result, calls the kernel and wraps
the array. If an operand requires grad, ``record`` of a BackwardPlan (elementwise_plan.py) makes the node, whose ``vjp``
runs in backward. A structured op does the same in the function that structured_function.py makes, where its own
``plan``, or ``forward``, takes the place of the ForwardPlan; what plans launch is in planned.py, views are in views.py.
Functions that go on to an op after checks that take longer than its kernel keep what these found: settled.py. Where
kernels have to be compiled, foresight.py finds out which will be needed next.

- What depends on the pattern of operands alone is text, generated once: launchers, in which ``launch`` is written out,
  recorders and backward. A node that saves tensors has edges as attributes: the collector is slow with two containers.
- Views get a new history when a write is recorded. PyTorch compares versions whenever the history is asked for, so
  writes under ``no_grad`` change it, too; gradients agree. A view made under ``no_grad`` requires grad as its base
  does, and ops on it record nodes that lead nowhere, unless the base did not require grad when it was made.
- Inplace ops are stricter than PyTorch's where elements share memory: index and mask writes to an expanded tensor are
  errors. An operand that overlaps the target is read as it was, and errors leave the target as it was.
- A declaration names its batch rule; without one vmap applies the op to one sample after another. Profilers and
  checkpoint policies see calls by exchanging the code of the functions (op_calls.py): unobserved calls test nothing.
"""
