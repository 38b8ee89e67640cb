"""``save`` and ``load``: checkpoints that PyTorch and jitgrad both read, and PyTorch's names around them.

Files are PyTorch's: a zip file with a pickle, in which tensors are calls of a few functions, and the memory of tensors
beside it. ``load`` reads such files, those of PyTorch before 1.6, and those that jitgrad wrote before it wrote
PyTorch's; ``save`` writes one format. What lives where: ``saving.py`` and ``loading.py`` are the two functions,
``zip_file.py`` the container, ``unpickler.py`` and ``allow_list.py`` the machine of ``weights_only=True``, which
executes nothing of a file, ``names.py`` which class or function a name in a file means, ``legacy_format.py`` and
``old_format.py`` the formats of former times, ``locations.py`` devices, ``options.py`` what is set for the process,
``safetensors.py`` the other format for tensors (``jitgrad.safetensors``). The functions that files call to make tensors
are beside ``Tensor``'s pickling, in ``ops/memory/rebuild.py``.

Where this differs from PyTorch: a damaged record is an error (PyTorch reads on with wrong numbers; see
``set_crc32_options``), the storages of a file may not claim more bytes than it has, compressed records that grow out of
proportion and keys that are tuples of thousands of parts are refused, and a path is written by replacing the file.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from jitgrad.core.device import device
from jitgrad.core.missing_names import explain_missing_names
from jitgrad.ops.memory.pickled import saving as _serialization_tls
from jitgrad.ops.memory.rebuild import _get_layout
from jitgrad.serialization.allow_list import (
    add_safe_globals, allowed_globals, clear_safe_globals, get_safe_globals, safe_globals, user_globals,
)  # fmt: skip
from jitgrad.serialization.files import check_module_version_greater_or_equal
from jitgrad.serialization.legacy_format import MAGIC_NUMBER, PROTOCOL_VERSION, SourceChangeWarning
from jitgrad.serialization.loading import load
from jitgrad.serialization.locations import (
    default_restore_location, location_tag, register_package, validate_cuda_device,
)  # fmt: skip
from jitgrad.serialization.names import StorageType
from jitgrad.serialization.opened import (
    _is_zipfile, _open_file_like, _open_zipfile_reader, _open_zipfile_writer, get_unsafe_globals_in_checkpoint, mkdtemp,
    normalize_storage_type, storage_to_tensor_type,
)  # fmt: skip
from jitgrad.serialization.options import (
    LoadEndianness, get_crc32_options, get_default_load_endianness, get_default_mmap_options, set_crc32_options,
    set_default_load_endianness, set_default_mmap_options, skip_data,
)  # fmt: skip
from jitgrad.serialization.saving import DEFAULT_PROTOCOL, save

__all__ = [
    "SourceChangeWarning", "mkdtemp", "register_package", "check_module_version_greater_or_equal",
    "validate_cuda_device", "location_tag", "default_restore_location", "normalize_storage_type",
    "storage_to_tensor_type", "save", "load", "StorageType", "LoadEndianness", "get_crc32_options", "set_crc32_options",
    "get_default_load_endianness", "set_default_load_endianness", "get_default_mmap_options",
    "set_default_mmap_options", "clear_safe_globals", "get_safe_globals", "add_safe_globals", "safe_globals",
    "get_unsafe_globals_in_checkpoint", "skip_data",
]  # fmt: skip

MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None  # what ``load`` takes

explain_missing_names(__name__)
