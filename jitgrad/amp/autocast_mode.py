"""``autocast``: regions in which ops run in the dtype that suits them, and the settings behind it."""

from __future__ import annotations

import functools
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any, Literal

from jitgrad.amp.op_lists import FLOAT32, LOW, PROMOTE
from jitgrad.core import dtypes
from jitgrad.core.casting import regions
from jitgrad.core.casting import state as _state
from jitgrad.core.device import device
from jitgrad.core.tensor import Tensor
from jitgrad.dispatch.op_calls import OpFunction, add_observer, remove_observer
from jitgrad.ops.shape.copy import cast

__all__ = [
    "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache", "custom_bwd",
    "custom_fwd", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_available",
    "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled",
    "set_autocast_gpu_dtype",
]  # fmt: skip


_lock = threading.Lock()


# -- settings -----------------------------------------------------------------------------------------


def _known(device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise TypeError(f"must be str, not {type(device_type).__name__}")
    name = device(device_type).type
    if name not in _state.enabled:
        raise RuntimeError(f"unknown device type for autocast in get_autocast_dispatch_key_from_device_type: {name}")
    return name


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows a device type."""
    return device(device_type).type in _state.enabled


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether ops on a device type are cast; without one, those on CUDA, as in PyTorch."""
    return _state.enabled["cuda" if device_type is None else _known(device_type)]


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch the casts for a device type on or off."""
    name, on = ("cuda", device_type) if enabled is None else (_known(device_type), enabled)
    before, _state.enabled[name] = _state.enabled[name], bool(on)
    if name == "cpu" and bool(on) != before:
        with _lock:
            regions.count += 1 if on else -1
            if on and regions.count == 1:
                add_observer(_cast_call)
            elif not on and regions.count == 0:
                remove_observer(_cast_call)


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """The dtype that products run in: at first bfloat16 on the CPU."""
    return _state.dtype[_known(device_type)]


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set the dtype that products run in."""
    _state.dtype[_known(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether a parameter is cast once for all its uses in a region."""
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Let parameters be cast once for a region, or at each use."""
    _state.cache_enabled = enabled


def clear_autocast_cache() -> None:
    """Forget the casts of parameters."""
    _state.cache.clear()


def autocast_increment_nesting() -> int:
    """Count a region that opens; returns how many are open."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """Count a region that ends; returns how many are open."""
    _state.nesting -= 1
    return _state.nesting


def _of(device_type: str, name: str, doc: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A setting's function for one device type, under PyTorch's older name."""
    made = functools.partial(function, device_type)

    def older(*args: Any) -> Any:
        return made(*args)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = doc
    return older


is_autocast_cpu_enabled = _of("cpu", "is_autocast_cpu_enabled", "Whether ops on the CPU are cast.", is_autocast_enabled)
set_autocast_cpu_enabled = _of("cpu", "set_autocast_cpu_enabled", "Cast ops on the CPU or not.", set_autocast_enabled)
get_autocast_cpu_dtype = _of("cpu", "get_autocast_cpu_dtype", "The CPU's dtype of products.", get_autocast_dtype)
set_autocast_cpu_dtype = _of("cpu", "set_autocast_cpu_dtype", "Set the CPU's dtype of products.", set_autocast_dtype)
get_autocast_gpu_dtype = _of("cuda", "get_autocast_gpu_dtype", "CUDA's dtype of products.", get_autocast_dtype)
set_autocast_gpu_dtype = _of("cuda", "set_autocast_gpu_dtype", "Set CUDA's dtype of products.", set_autocast_dtype)


# -- casts --------------------------------------------------------------------------------------------


def _cast_call(op: OpFunction, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The observer: an op's call, with its arguments cast as the lists say."""
    if _state.inside or not _state.enabled["cpu"]:
        return call(*args, **kwargs)
    name, dtype = op.name, None
    if op.in_place or kwargs.get("out") is not None:
        pass  # neither these nor what they are made of
    elif name in LOW:
        dtype = _state.dtype["cpu"]
    elif name in FLOAT32:
        dtype = dtypes.float32
    elif name in PROMOTE:
        found = {t._layout.dtype for t in _tensors((args, kwargs)) if _eligible(t)}
        if found - {dtypes.float32, _state.dtype["cpu"]}:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::promote_type")
        dtype = dtypes.float32 if len(found) > 1 or not found else found.pop()
    else:
        return call(*args, **kwargs)
    _state.inside = True
    try:
        if dtype is not None:
            args = _each(args, dtype)
            kwargs = {k: _each(v, dtype) for k, v in kwargs.items()}
        return call(*args, **kwargs)
    finally:
        _state.inside = False


def _eligible(t: Tensor) -> bool:
    """Whether a tensor is cast: floating, but not float64, and on the CPU."""
    dtype = t._layout.dtype
    return dtype.is_floating_point and dtype is not dtypes.float64 and t._layout.device == "cpu"


def _tensors(value: Any) -> Any:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)


def _each(value: Any, dtype: dtypes.dtype) -> Any:
    """A value, or the items of a list, cast where it is a tensor that is eligible."""
    if isinstance(value, Tensor):
        return _cast(value, dtype) if _eligible(value) and value._layout.dtype is not dtype else value
    if type(value) in (list, tuple):
        return type(value)([_each(v, dtype) for v in value])
    return value


def _cast(x: Tensor, dtype: dtypes.dtype) -> Tensor:
    """A tensor as another dtype; of a leaf in float32 that requires grad, the same object for all of a region."""
    kept = _state.cache_enabled and dtype is _state.dtype["cpu"] and x._layout.dtype is dtypes.float32
    if not (kept and x._requires_grad and x.is_leaf and not x._is_view()):
        return cast(x, dtype)
    reference, made = _state.cache.get(id(x), (None, None))
    if reference is None or reference() is not x:
        made = cast(x, dtype)
        _state.cache[id(x)] = weakref.ref(x), made
    return made  # type: ignore[return-value]


# -- regions ------------------------------------------------------------------------------------------

_SUPPORTED = (dtypes.bfloat16, dtypes.float16)


class autocast:
    """A region, as a context manager or decorator, in which products run in a dtype of 16 bits.

    device_type: "cpu" or "cuda". dtype: bfloat16 (the CPU's) or float16; with any other the region warns and does
    nothing. enabled: False for a region inside of another in which nothing is cast. cache_enabled: whether parameters
    are cast once for the outermost region. RuntimeError for a device type that autocast doesn't know.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ):  # fmt: skip
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and device_type == "cuda":
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in _SUPPORTED:
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n{name} Autocast only "
                f"supports dtypes of {', '.join(map(str, _SUPPORTED))} currently.", stacklevel=2,
            )  # fmt: skip
            enabled = False
        self._enabled = enabled

    def __enter__(self) -> autocast:
        self.prev_cache_enabled = is_autocast_cache_enabled()
        self.prev, self.prev_fastdtype = is_autocast_enabled(self.device), get_autocast_dtype(self.device)
        set_autocast_enabled(self.device, self._enabled)
        set_autocast_dtype(self.device, self.fast_dtype)
        autocast_increment_nesting()
        set_autocast_cache_enabled(self._cache_enabled)
        return self

    def __exit__(self, *error: Any) -> Literal[False]:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        set_autocast_enabled(self.device, self.prev)
        set_autocast_dtype(self.device, self.prev_fastdtype)
        set_autocast_cache_enabled(self.prev_cache_enabled)
        return False

    def __call__(self, func: Any) -> Any:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. Did you mean to use autocast as "
                "a context manager? For example:\n    with torch.autocast(device_type=...):\n"
                "        output = model(input)"
            )

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated


# -- Functions of the user ----------------------------------------------------------------------------


def _check_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _inputs(value: Any, dtype: dtypes.dtype) -> Any:
    """Floating tensors among arguments, in lists and dicts too, as ``dtype``; float64 stays."""
    if isinstance(value, Tensor):
        floating = value.dtype.is_floating_point and value.dtype is not dtypes.float64
        return value.to(dtype) if floating else value
    if isinstance(value, dict):
        return {k: _inputs(v, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_inputs(v, dtype) for v in value])
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorate a Function's forward: in a region its inputs are cast to ``cast_inputs``, and then nothing is."""
    _check_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        inside = is_autocast_enabled(device_type)
        args[0]._dtype = get_autocast_dtype(device_type)
        args[0]._fwd_used_autocast = inside and cast_inputs is None
        if cast_inputs is None or not inside:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_inputs(args, cast_inputs), **_inputs(kwargs, cast_inputs))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate a Function's backward, which then runs with the casts of its forward."""
    _check_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return backward
