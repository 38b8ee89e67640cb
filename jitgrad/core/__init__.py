"""What every op needs and no op is: dtypes, layouts, storage, devices, modes, nodes, Tensor, levels of transforms.

A file here knows no op, no kernel and no engine: whatever needs one is registered from above (memory of a device in
storage.py, copies to it in device.py, ops as methods in tensor.py). Read layout.py first, then tensor.py and node.py.

- A tensor is an array, a layout, and an edge to the node of the op that has made it. Its attributes are class-level
  defaults that an instance sets only where it differs, instead of __slots__: creation is quicker, and users may set
  attributes of their own.
- Layouts are interned, so plans are found by the identity of objects. Wrapped tensors have layouts of their transform's
  level, miss the plans of plain ones, and so reach the slow path, where levels are looked for.
- Python's collector visits all living objects again whenever there are a quarter more of them, which is most of the
  time of a deep graph. So a recorded op is three objects to it: tensor, node, and the tuple of saved tensors. An edge to
  a first output is the node itself, and a version counter is made with the first write or view.
- A leaf holds its AccumulateGrad, which knows the leaf weakly (PyTorch: the reverse), so it is made once for all ops.
- What observes new nodes (hooks on saved tensors, anomaly mode) and new tensors (inference mode, profiler) is in a list
  that recorders test. A node with packed tensors becomes an instance of a subclass whose ``saved`` unpacks.
- An inference tensor's version counter raises when it is read outside of inference mode; so saving one and writing to
  one are refused by code that is there anyway. A refused write has written nothing (in PyTorch it has), and an op on
  inference tensors only is recorded if one requires grad (PyTorch's is not).
"""
