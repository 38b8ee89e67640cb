"""What every op needs and no op is: dtypes, layouts, storage, devices, modes, nodes, Tensor, levels of transforms.

A file here knows no op, no kernel and no engine: whatever needs one is registered from above (memory of a device in
storage.py, copies to it in device.py, ops as methods in tensor.py). Read layout.py first, then tensor.py and node.py.

- A tensor is an array, a layout, and an edge to the node of the op that has made it. Its attributes are class-level
  defaults that an instance sets only where it differs, instead of __slots__: creation is quicker, and users may set
  attributes of their own.
- Layouts are interned, so plans are found by the identity of objects. Wrapped tensors have layouts of their level,
  miss the plans of plain ones, and so reach the slow path, where levels are looked for.
- A recorded op is three objects to Python's collector, whose passes take most of the time of a deep graph: tensor,
  node, tuple of saved tensors. An edge to a first output is the node itself; a counter is made by a write or view.
- A leaf holds its AccumulateGrad, which knows the leaf weakly (PyTorch: the reverse), so it is made once for all ops.
- Arrays of 128 KB and more are made by a pool (block_pool.py), which keeps their memory when they are freed. Such
  an array's ``base`` is its block, which is no array: whatever looks for the owner of memory stops at the array.
- Observers of new nodes and of new tensors are in lists that recorders test. A node with packed tensors becomes an
  instance of a subclass whose ``saved`` unpacks. Transforms wrap tensors; the graph is recorded on plain ones.
- A version counts writes, and above them exchanges of data (``.data =``) for another layout, for which kernels of nodes
  that saved the tensor were not planned: backward's one comparison finds both (saved_versions.py).
- A conjugate is a view whose array is a LazyArray (kernels/lazy_array.py). The bits are the array's, not the layout's
  or the tensor's: so views inherit them, results have none, plans are those of plain tensors, and nothing tests for
  them. What wants numbers raises, and the launcher that it was called from resolves its arrays and calls it again.
- An inference tensor's version counter raises when it is read outside of inference mode, so code that is there anyway
  refuses to save it or write to it. A refused write has written nothing (in PyTorch it has), and an op on inference
  tensors only is recorded if one requires grad (PyTorch's is not).
"""
