"""Settings of PyTorch's that change how modules' parameters are converted by ``to``, ``half``, ..."""

from jitgrad.nn.modules import conversion_flags as _flags

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether parameters become new objects, not the same ones with other values."""
    _flags.overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether parameters become new objects."""
    return _flags.overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether PyTorch swaps the contents of tensors; parameters stay the same objects here in any case."""
    _flags.swap = value


def get_swap_module_params_on_conversion() -> bool:
    """What ``set_swap_module_params_on_conversion`` was given last."""
    return _flags.swap
