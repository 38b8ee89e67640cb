"""Settings of a program that PyTorch has and of which most change nothing here, with PyTorch's defaults.

Programs set them at their start. Every op of jitgrad is deterministic and products are of full precision, so there is
nothing to switch; what was set is what the getters answer. ``set_flush_denormal`` and ``set_warn_always`` do what they
say.
"""

from __future__ import annotations

import warnings
from typing import Any

from jitgrad.core import user_frame
from jitgrad.core.user_frame import user_level
from jitgrad.kernels.threads import flush_denormals

__all__ = [
    "are_deterministic_algorithms_enabled", "compiled_with_cxx11_abi", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled", "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_warn_always", "use_deterministic_algorithms",
]  # fmt: skip

_MODES = ("default", "warn", "error")


class _Flags:
    deterministic = 0  # an index of _MODES
    precision = "highest"
    interop_threads = 1


_flags = _Flags()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for ops that compute the same numbers each time, which all ops do."""
    _flags.deterministic = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Whether ``use_deterministic_algorithms`` was called with True."""
    return _flags.deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it was called with ``warn_only=True``."""
    return _flags.deterministic == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same as a mode: 0 "default", 1 "warn", 2 "error"."""
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _flags.deterministic = debug_mode


def get_deterministic_debug_mode() -> int:
    """The mode as a number."""
    return _flags.deterministic


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 matrices less precision, "high" or "medium": they have the highest all the same."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the currentsetFloat32MatmulPrecision call has "
            "no effect.", UserWarning, stacklevel=user_level(),
        )  # fmt: skip
        return
    _flags.precision = precision


def get_float32_matmul_precision() -> str:
    """What was set, at first "highest"."""
    return _flags.precision


def set_flush_denormal(mode: bool, /) -> bool:
    """Whether this thread's ops take numbers below the smallest normal one for zero from now on, or as they are again.

    Processors need many times as long for an op on such numbers. They come about where averages of gradients that have
    become zero shrink, as Adam's of the weights of a ReLU that is never active any more. RuntimeError for what is no
    bool. Returns False, and changes nothing, on other processors than x86-64 and ARM64.
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    return flush_denormals(mode)


def get_num_interop_threads() -> int:
    """How many threads run independent ops: 1 unless it was set."""
    return _flags.interop_threads


def set_num_interop_threads(threads: Any) -> None:
    """Kept for the getter: one op runs at a time."""
    if threads <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _flags.interop_threads = int(threads)


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once in a process are given each time; Python's filters may still hide them."""
    user_frame.repeated = bool(b)


def is_warn_always_enabled() -> bool:
    """What was set, at first False."""
    return user_frame.repeated


def compiled_with_cxx11_abi() -> bool:
    """True, as of PyTorch's builds; there is no C++ here."""
    return True
