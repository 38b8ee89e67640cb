"""Tensors from numbers, arrays and Python data, and back; and ops that overwrite all of a tensor.

Here live creation functions (``constants.py``: from sizes and numbers, ``ranges.py``:
numbers in a pattern, ``from_data.py``: from nested lists and arrays, ``asarray.py``: on memory of others,
``mapped_file.py``: on files),
ways out (``conversion.py``: item, numpy, to; ``pickled.py``; ``dlpack.py``), copies between devices
(``device_copy.py``),
questions about dtypes and layouts (``type_info.py``), and copy_, fill_, zero_, triangles and diagonals (``fill.py``).
Random values belong in ``random``.

A creation function is no declared op, as it has no input that a gradient could reach: it makes a layout, launches one
kernel and returns through ``finished``. An op that overwrites its first input derives from ``Overwriting``. Rules of
other ops call ``filled`` (dispatch/copying.py) or ``filled_like`` (constants.py), which parse nothing. Read
``_sized`` in constants.py first.
"""

from jitgrad.core.dtypes import all_dtypes
from jitgrad.dispatch.registry import publish_later

# PyTorch has no storage classes of the dtypes that are newer than they are.
_OF_DTYPES = " ".join([f"{d.title}Storage" for d in all_dtypes() if not (d.name[:4] == "uint" and d.itemsize > 1)])
publish_later("jitgrad.ops.creation.storage", functions="is_storage UntypedStorage",
              methods="pin_memory untyped_storage")  # fmt: skip
publish_later("jitgrad.ops.creation.typed_storage", functions=f"TypedStorage {_OF_DTYPES}",
              methods="_typed_storage storage")  # fmt: skip
publish_later("jitgrad.ops.creation.sharing", methods="is_shared share_memory_")
publish_later("jitgrad.ops.creation.asarray", functions="asarray frombuffer")
publish_later("jitgrad.ops.creation.mapped_file", functions="from_file")
publish_later("jitgrad.ops.creation.rare_methods",
              methods="dim_order eig lstsq module_load record_stream reinforce resize resize_as solve "
              "storage_type symeig")  # fmt: skip
