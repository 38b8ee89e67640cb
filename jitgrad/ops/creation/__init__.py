"""Tensors from numbers, arrays and Python data, and back; and ops that overwrite all of a tensor.

Here live creation functions (``constants.py``: from sizes and numbers, ``ranges.py``: numbers in a pattern,
``from_data.py``: from nested lists and arrays), ways out (``conversion.py``: item, numpy, to), copies between devices
(``device_copy.py``), questions about dtypes and layouts (``type_info.py``), and copy_, fill_, zero_, triangles and
diagonals (``fill.py``). Random values belong in ``random``; storages, files and memory of others in ``memory``.

A creation function is no declared op, as it has no input that a gradient could reach: it makes a layout, launches one
kernel and returns through ``finished``. An op that overwrites its first input derives from ``Overwriting``. Rules of
other ops call ``filled`` (dispatch/copying.py) or ``filled_like`` (constants.py), which parse nothing. Read
``_sized`` in constants.py first.
"""

from jitgrad.dispatch.registry import publish_later

publish_later("jitgrad.ops.creation.rare_methods", methods="dim_order eig lstsq module_load record_stream reinforce "
              "resize resize_as solve symeig")  # fmt: skip
