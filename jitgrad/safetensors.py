"""Files of tensors in the safetensors format, under the names of the ``safetensors.torch`` package.

``save_model`` and ``load_model`` take care of tensors that share memory: a file has each of them once.
"""

import os
from collections.abc import Iterable
from typing import Any

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.core.tensor import Tensor
from jitgrad.nn import Module
from jitgrad.serialization.safetensors import SafetensorError, load, load_file, overlapping, safe_open, save, save_file

__all__ = ["SafetensorError", "load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model"]

_NOT_WHOLE = (
    "Error while trying to find names to remove to save state dict, but found no suitable name to keep for saving "
    "amongst: {}. None is covering the entire storage.Refusing to save/load the model since you could be storing much "
    "more memory than needed. Please refer to https://huggingface.co/docs/safetensors/torch_shared_tensors for more "
    "information. Or open an issue."
)


def save_model(model: Module, filename: str | os.PathLike[str], metadata: dict[str, str] | None = None,
               force_contiguous: bool = True) -> None:  # fmt: skip
    """Write the state dict of a module; of tensors that share memory the first, the others named in the metadata."""
    state = model.state_dict()
    notes = dict(metadata or {})
    for kept, dropped in _duplicates(state).items():
        for name in dropped:
            notes.setdefault(name, kept)
            del state[name]
    tensors = {name: x.contiguous() if force_contiguous else x for name, x in state.items()}
    try:
        save_file(tensors, filename, metadata=notes if notes or metadata is not None else None)
    except ValueError as error:
        more = "Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
        raise ValueError(f"{error} {more}") from None


def load_model(model: Module, filename: str | os.PathLike[str], strict: bool = True, device: Any = "cpu", *,
               backend: str = "mmap") -> tuple[set[str], list[str]]:  # fmt: skip
    """Load a file into a module; (missing names, unexpected names), RuntimeError if there are any and ``strict``."""
    state = load_file(filename, device=device, backend=backend)
    dropped = _duplicates(model.state_dict(), preferred=state)
    result = model.load_state_dict(state, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for name in (name for names in dropped.values() for name in names):
        if name in missing:
            missing.remove(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for kind, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                quoted = ", ".join([f'"{name}"' for name in sorted(names)])
                lines.append(f"    {kind} key(s) in state_dict: {quoted}")
        raise RuntimeError("\n".join(lines))
    return missing, unexpected


def _duplicates(state: dict[str, Tensor], preferred: Iterable[str] = ()) -> dict[str, list[str]]:
    """{name that is kept: names of tensors on the same memory}; the one kept shows all of it."""
    found: dict[str, list[str]] = {}
    for names in overlapping(state):
        if len(names) < 2:
            continue
        whole = {name for name in names if state[name].nbytes == state[name].untyped_storage().nbytes()}
        if not whole:
            raise RuntimeError(_NOT_WHOLE.format(names))
        kept = min(whole & set(preferred) or whole)
        found[kept] = sorted(names - {kept})
    return found


explain_missing_names(__name__)
