"""SummaryWriter: numbers, histograms and images for TensorBoard, written by the package tensorboardX.

It is imported when ``SummaryWriter`` or ``FileWriter`` is first asked for: ImportError if it is not installed. Graphs
of modules are not written (``add_graph`` warns).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jitgrad.core.missing_names import missing_name
from jitgrad.core.tensor import Tensor
from jitgrad.core.user_frame import user_level

if TYPE_CHECKING:
    FileWriter: Any = None
    SummaryWriter: Any = None

__all__ = ["FileWriter", "SummaryWriter"]

# What PyTorch's methods take, and tensorboardX's do not.
_UNKNOWN = ("new_style", "double_precision", "hparam_domain_discrete")


def _plain(value: Any) -> Any:
    """Tensors as numbers and arrays, in containers too."""
    if isinstance(value, Tensor):
        value = value.detach().resolve_conj().cpu()
        if value.ndim == 0:
            return value.item()
        return (value.float() if value.dtype.is_half else value).numpy()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


def _with_plain_arguments(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def add(self: Any, *args: Any, **kwargs: Any) -> Any:
        known = {name: _plain(value) for name, value in kwargs.items() if name not in _UNKNOWN}
        return method(self, *_plain(args), **known)

    return add


def _add_graph(self: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing: there is no graph of a module to write."""
    warnings.warn("SummaryWriter.add_graph() writes nothing: jitgrad traces no graphs", stacklevel=user_level())


@functools.cache
def _summary_writer() -> type:
    base = _package().SummaryWriter
    names = [name for name in dir(base) if name.startswith("add_")]
    methods: dict[str, Any] = {name: _with_plain_arguments(getattr(base, name)) for name in names}

    def add_hparams(self: Any, hparam_dict: Any, metric_dict: Any, hparam_domain_discrete: Any = None,
                    run_name: Any = None, global_step: Any = None) -> None:  # fmt: skip
        base.add_hparams(self, _plain(hparam_dict), _plain(metric_dict), run_name, global_step)

    methods.update(add_graph=_add_graph, add_hparams=add_hparams, __doc__=base.__doc__, __module__=__name__)
    methods["log_dir"] = property(lambda self: self.logdir, doc="The folder that is written to.")
    methods["get_logdir"] = lambda self: self.logdir
    return type("SummaryWriter", (base,), methods)


def _package() -> Any:
    try:
        return import_module("tensorboardX")
    except ImportError as error:
        raise ImportError(
            "jitgrad.utils.tensorboard writes by tensorboardX, which is not installed: pip install tensorboardX",
            name="tensorboardX",
        ) from error


def __getattr__(name: str) -> Any:
    if name == "SummaryWriter":
        return _summary_writer()
    if name == "FileWriter":
        return _package().FileWriter
    raise missing_name(__name__, name)
