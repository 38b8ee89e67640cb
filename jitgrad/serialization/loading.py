"""``load``: which kind of file it is, and the zip files that PyTorch has written since 1.6."""

from __future__ import annotations

import io
import mmap as memory_map
import os
import pickle
import re
import sys
import warnings
from contextlib import contextmanager
from typing import Any

from jitgrad.core.device import device
from jitgrad.core.host_reads import announce_read, read_observers
from jitgrad.core.user_frame import user_level
from jitgrad.ops.memory.pickled import saving
from jitgrad.ops.memory.rebuild import AFTER_LOADING
from jitgrad.ops.memory.storage import UntypedStorage, storage_of_bytes
from jitgrad.ops.memory.typed_storage import TypedStorage
from jitgrad.serialization import legacy_format, old_format, unpickler
from jitgrad.serialization.files import check_dill, check_seekable, is_zip, naming
from jitgrad.serialization.locations import restoring
from jitgrad.serialization.options import options
from jitgrad.serialization.torch_pickles import UNSAFE, cleaned, reading, storage_place
from jitgrad.serialization.zip_file import ZipReader

__all__ = ["load"]

_TORCHSCRIPT = (
    "'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' (call "
    "'torch.jit.load' directly to silence this warning)"
)


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None, **pickle_load_args: Any) -> Any:  # fmt: skip
    """Read what ``torch.save`` wrote, here or in PyTorch.

    f: a path, or a binary file that can be read and sought. map_location: a device for all tensors, {tag: tag}, or a
    function of (storage, tag). weights_only: only tensors, numbers, texts and containers of them, and what
    ``add_safe_globals`` allows, are made, and nothing of the file is executed; False: the file is a pickle like others,
    and who reads it trusts it. mmap: numbers stay in the file, which is mapped, until they are used.

    pickle.UnpicklingError for what ``weights_only`` refuses and for damaged pickles, RuntimeError for other damage,
    EOFError for a file that ends too early. The traceback ends with the file's path.
    """
    weights_only = _weights_only(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_load_args and weights_only:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", UserWarning, stacklevel=user_level())
    check_dill(pickle_module)
    pickle_load_args.setdefault("encoding", "utf-8")
    machine = unpickler if weights_only else pickle_module or pickle
    mmap = options.mmap if mmap is None else mmap
    if read_observers:
        announce_read("load()")
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with naming(path):
            if path.endswith(".safetensors"):
                return _load_safetensors(path, map_location)
            with open(path, "rb") as file, _explained(weights_only):
                return _load(file, path, map_location, machine, mmap, pickle_load_args)
    check_seekable(f)
    with _explained(weights_only):
        return _load(f, None, map_location, machine, mmap, pickle_load_args)


def _weights_only(given: bool | None, pickle_module: Any) -> bool:
    """The argument, or its default; two environment variables may overrule it."""
    always, never = (
        os.environ.get(f"TORCH_FORCE_{name}WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
        for name in ("", "NO_")
    )
    if always and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both "
            "were set."
        )
    if always:
        return True
    if given is None and never:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
            "explicitly passed to `torch.load`, forcing weights_only=False.", UserWarning, stacklevel=user_level(),
        )  # fmt: skip
        return False
    return pickle_module is None if given is None else bool(given)


@contextmanager
def _explained(weights_only: bool) -> Any:
    """Give an error of the restricted unpickler PyTorch's words about what may be done."""
    try:
        yield
    except pickle.UnpicklingError as error:
        if not weights_only:
            raise
        raise pickle.UnpicklingError(_explanation(str(error))) from None


def _explanation(message: str) -> str:
    docs = (
        "\n\nCheck the documentation of torch.load to learn more about types accepted by default with weights_only "
        "https://pytorch.org/docs/stable/generated/torch.load.html."
    )
    if "was not an allowed global by default." in message:
        return (
            "Weights only load failed. This file can still be loaded, to do so you have two options, \033[1mdo those "
            f"steps only if you trust the source of the checkpoint\033[0m. \n\t(1) {UNSAFE}\n\t(2) Alternatively, to "
            "load with `weights_only=True` please check the recommended steps in the following error message.\n\t"
            f"WeightsUnpickler error: {message}{docs}"
        )
    if re.search(r"\S+ must be \S+ to load", message):
        return f"Weights only load failed. {message}\n {UNSAFE}\n"
    report = "" if "is blocked" in message else (
        "Please file an issue with the following so that we can make `weights_only=True` compatible with your use "
        "case: WeightsUnpickler error: "
    )
    return f"Weights only load failed. {UNSAFE}\n{report}\n\n{message}{docs}"


def _load_safetensors(path: str, map_location: Any) -> Any:
    from jitgrad.serialization.safetensors import load_file

    if map_location is not None and not isinstance(map_location, (str, bytes, device)):
        kind = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(
            f"Loading safetensors file with {kind} map_location is not supported. Use a device string or torch.device "
            "instead."
        )
    return load_file(path, device="cpu" if map_location is None else str(map_location))


def _load(file: Any, path: str | None, map_location: Any, machine: Any, mmap: bool, arguments: dict[str, Any]) -> Any:
    """The value of an open file."""
    weights_only = machine is unpickler
    if not is_zip(file):
        if mmap:
            name = f"{path}, " if path else ""
            raise RuntimeError(
                f"mmap can only be used with files saved with `torch.save({name}_use_new_zipfile_serialization=True), "
                "please torch.save your checkpoint with this option in order to use mmap."
            )
        return _checked(legacy_format.load(file, map_location, machine, arguments))
    reader = ZipReader(file)
    if reader.has_record("constants.pkl"):
        if weights_only:
            warnings.warn(_TORCHSCRIPT, UserWarning, stacklevel=user_level())
            raise RuntimeError(
                f"Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. {UNSAFE}"
            )
        raise RuntimeError("a TorchScript archive is a program, which jitgrad does not run: save state_dict() instead")
    if old_format.is_old(reader):
        return old_format.load(file, map_location, weights_only)
    if mmap and path is None:
        raise ValueError("f must be a file path in order to use the mmap argument")
    return _checked(_Checkpoint(reader, map_location, _mapped(file) if mmap else None).load(machine, arguments))


def _checked(value: Any) -> Any:
    """A value whose numbers have been read, after the checks that had to wait for them."""
    for check in AFTER_LOADING:
        check()
    return value


def _mapped(file: Any) -> Any:
    """The whole file in memory, of which only what is used is read; writes stay here unless the flags share them."""
    shared = options.mmap_flags is not None and options.mmap_flags == getattr(memory_map, "MAP_SHARED", None)
    if not shared:
        return memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_COPY)
    with open(file.name, "r+b") as writable:
        return memory_map.mmap(writable.fileno(), 0, access=memory_map.ACCESS_WRITE)


class _Checkpoint:
    """A zip file that is read: its storages, by key, are made when the pickle first names them."""

    def __init__(self, reader: ZipReader, map_location: Any, mapped: Any):
        self.reader, self.mapped = reader, mapped
        self.map_location, self.restore = map_location, restoring(map_location)
        self.storages: dict[Any, TypedStorage] = {}
        self.swapped = self._big_endian() != (sys.byteorder == "big")
        where = getattr(map_location, "type", map_location)
        self.to_meta = isinstance(where, str) and where == "meta"

    def _big_endian(self) -> bool:
        if not self.reader.has_record("byteorder"):
            return options.big_endian()
        order = self.reader.get_record("byteorder")
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order.decode(errors='replace')}")
        return order == b"big"

    def load(self, machine: Any, arguments: dict[str, Any]) -> Any:
        """The value of the pickle."""
        content = io.BytesIO(self.reader.get_record("data.pkl"))
        before, saving.map_location = saving.map_location, self.map_location
        try:
            return reading(machine, content, self.storage, arguments).load()
        finally:
            saving.map_location = before

    def storage(self, place: Any) -> TypedStorage:
        """The storage that the pickle names by ("storage", class, key, device, number of elements)."""
        dtype, key, location, numel = storage_place(place, 5)
        if key not in self.storages:
            made = self._bytes(dtype, key, numel * dtype.itemsize)
            placed = made if self.to_meta else self.restore(made, location)
            self.storages[key] = TypedStorage(wrap_storage=placed.untyped(), dtype=dtype)
        return self.storages[key]

    def _bytes(self, dtype: Any, key: Any, nbytes: int) -> UntypedStorage:
        name = f"data/{key}"
        if self.to_meta:
            return UntypedStorage(nbytes, device="meta")
        if saving.skip_data:
            self.reader.check_size(name, nbytes)
            return UntypedStorage(nbytes)
        if self.mapped is not None:
            made = storage_of_bytes(self.reader.mapped(self.mapped, name, nbytes))
        else:
            made = storage_of_bytes(self.reader.read(name, nbytes))
        if self.swapped:
            made.byteswap(dtype)
        return cleaned(made, dtype)
