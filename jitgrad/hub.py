"""``torch.hub``: weights that are on this machine already. Nothing is downloaded, and no code is fetched.

``load_state_dict_from_url`` reads a ``file:`` URL, or the file that a download would have left in the cache
(``get_dir()/checkpoints``); so weights that PyTorch has fetched, or that were copied there, are found.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import jitgrad
from jitgrad.core.missing_names import explain_missing_names

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_NO_NETWORK = "jitgrad downloads nothing"
_HASH = re.compile(r"-([a-f0-9]*)\.")
_dir: str | None = None


def get_dir() -> str:
    """The folder of what was fetched: set by ``set_dir``, or ``hub`` in $TORCH_HOME, by default ~/.cache/torch."""
    if _dir is not None:
        return _dir
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder."""
    global _dir
    _dir = os.path.expanduser(d)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The state dict of a ``file:`` URL, or of the file of that name in the cache.

    RuntimeError where it is not there, or where ``check_hash`` is asked for and the name's hash is not the file's.
    """
    parts = urlparse(url)
    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    path = Path(unquote(parts.path)) if parts.scheme == "file" else folder / (file_name or Path(parts.path).name)
    if not path.is_file():
        raise RuntimeError(
            f"torch.hub.load_state_dict_from_url: {_NO_NETWORK}, and there is no file {path}; fetch {url} and put it "
            "there"
        )
    found = _HASH.search(path.name)
    if check_hash and found:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if not digest.startswith(found[1]):
            raise RuntimeError(f'invalid hash value (expected "{found[1]}", got "{digest}")')
    state: dict[str, Any] = jitgrad.load(path, map_location=map_location, weights_only=weights_only)
    return state


def _refused(name: str, why: str) -> Any:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.hub.{name}: {why}")

    refused.__name__, refused.__doc__ = name, f"NotImplementedError: {why}."
    return refused


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """What the entry ``model`` of a local folder's ``hubconf.py`` makes (``source="local"``); others are refused."""
    if source != "local":
        raise NotImplementedError(f"torch.hub.load: {_NO_NETWORK}; clone {repo_or_dir} and pass source='local'")
    return getattr(_entries(repo_or_dir), model)(*args, **kwargs)


def list(github: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """The entries of the ``hubconf.py`` in a local folder."""
    if source != "local":
        raise NotImplementedError(f"torch.hub.list: {_NO_NETWORK}; clone {github} and pass source='local'")
    return [n for n, f in vars(_entries(github)).items() if callable(f) and n[0] != "_"]


def _entries(folder: str) -> Any:
    import importlib.util
    import sys

    spec = importlib.util.spec_from_file_location("hubconf", os.path.join(folder, "hubconf.py"))
    if spec is None or spec.loader is None:
        raise ValueError(f"torch.hub: no hubconf.py in {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


help = _refused("help", _NO_NETWORK)
download_url_to_file = _refused("download_url_to_file", _NO_NETWORK)
explain_missing_names(__name__)
