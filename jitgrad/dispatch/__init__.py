"""From a call to a launch to a node: how ops are declared, bound, checked, planned, recorded, batched and published.

No op is defined here, only what all have in common; ops are rows of ``kernels/elementwise/`` or classes in ``ops/``.
Read elementwise_publish.py first, or structured.py for ops that are more than a rule for one element.

The way of ``x + y``: ``Tensor.__add__`` is a function that elementwise_publish.py has made of the row ``Add``. It looks
up a ForwardPlan by the layouts of x and y. At first there is none: elementwise.py checks and promotes the operands,
launch_plan.py chooses the form of the loop and has the kernel generated and compiled. ``plan.compute(x, y)`` allocates
the result, calls the kernel and wraps the array. If an operand requires grad, ``record`` of the BackwardPlan
(elementwise_plan.py) makes the node, and its ``vjp`` runs in backward. A structured op goes the same way in
``Structured.apply``, with ``forward`` of its declaration in the place of the plan.

- What depends on a pattern of operands alone is text that is generated once: launchers, recorders, backward. In
  launchers ``launch`` is written out, observers included; as a call it would be a tenth of a small op.
- A node that saves tensors has its edges as attributes, not in a tuple: with two containers that lead from node to node
  Python's collector takes three times as long for a deep graph as with one (6.5 against 2.5 us an op).
- Views get a new history when a write is recorded. PyTorch compares versions whenever a view's history is asked for, so
  that writes under ``no_grad`` change it, too; gradients agree. A view made under ``no_grad`` says that it requires grad
  if its base does; ops on it record nodes that lead nowhere, unless the base did not require grad when it was made.
- Inplace ops are stricter than PyTorch's with memory that elements share: index and mask writes to an expanded tensor
  are errors. An operand that overlaps the target is read as it was before, and errors leave the target as it was.
- A declaration names its batch rule for vmap; without one the op is applied to one sample after another. While somebody
  observes calls of ops, a profiler or a checkpoint's policy, their functions run other code (op_calls.py).
"""
