"""Function transforms: forward mode and vmap wrap tensors, reverse mode makes variables. The public names are in func.

Forward mode and vmap open a level (jitgrad/core/wrapped.py: read it first) and hand out dual tensors (``dual.py``,
``dual_inplace.py``) or batched ones (``batched.py``). An op on wrapped operands is given to the class of the
outermost one, which says what it means in terms of ops on what that wraps. Rules of single ops belong to their
declarations.

- Reverse mode has no level. ``func.grad`` and ``func.vjp`` make new variables in the one graph of plain tensors
  (``variables.py``), and results whose history leads to nothing else leave without it. So nodes, engine, kernels and
  hooks know nothing of transforms, and backward inside vmap runs compiled kernels on whole batches.
- The gradient of a wrapped tensor is found below its wrapper (``gradients.py``): of a dual tensor by the product
  rule, of a batch by backward on all samples at once, which is right because inside vmap each sample gets a variable
  of its own. The price: inside vmap shared parameters are expanded, not copied, before forward, and
  ``jacfwd(jacrev(f))`` computes values once per tangent. Gradients that are wrapped themselves (``jacrev``) go
  through the nodes' rules, which are ops.
- A differentiated function opens a scope (``scope.py``), by which writes to what it captures are refused before
  anything is written. It costs 0.08 us per new tensor inside; elsewhere inplace ops test an empty list.
- A batch is dim 0 of the wrapped tensor, and printed so, once an op has run; PyTorch keeps ``bdim`` through some ops.
"""
