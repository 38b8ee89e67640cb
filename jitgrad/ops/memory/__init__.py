"""The memory that tensors show: as storages, in files and pickles, shared with processes and with other libraries.

``storage.py`` and ``typed_storage.py`` are PyTorch's objects that stand for it; ``sharing.py`` moves it to where other
processes reach it. ``asarray.py``, ``dlpack.py`` and ``mapped_file.py`` make tensors on memory of others.
``pickled.py`` is how tensors are pickled, ``rebuild.py`` what PyTorch's pickles call to make them again; files are in
``serialization``. Memory is described by ``Memory`` (dispatch/strides.py), which finds the array that owns it.
"""

from jitgrad.core.dtypes import all_dtypes
from jitgrad.dispatch.registry import publish_later

# PyTorch has no storage classes of the dtypes that are newer than they are.
_OF_DTYPES = " ".join([f"{d.title}Storage" for d in all_dtypes() if not (d.name[:4] == "uint" and d.itemsize > 1)])
publish_later("jitgrad.ops.memory.storage", functions="is_storage UntypedStorage",
              methods="pin_memory untyped_storage")  # fmt: skip
publish_later("jitgrad.ops.memory.typed_storage", functions=f"TypedStorage {_OF_DTYPES}",
              methods="_typed_storage storage storage_type")  # fmt: skip
publish_later("jitgrad.ops.memory.sharing", methods="is_shared share_memory_")
publish_later("jitgrad.ops.memory.asarray", functions="asarray frombuffer")
publish_later("jitgrad.ops.memory.mapped_file", functions="from_file")
