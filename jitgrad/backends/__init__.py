"""``jitgrad.backends``: the flags of libraries that PyTorch is built with, so that programs that set them run.

None of these libraries is used here. ``is_available()`` says so, and flags keep what they are set to. Each is a module
(``import jitgrad.backends.cudnn as cudnn``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitgrad.core.lazy_import import lazy_attributes

if TYPE_CHECKING:
    from jitgrad.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]

_attribute, __dir__ = lazy_attributes(__name__, {name: f"{__name__}.{name}" for name in __all__})
__getattr__ = _attribute
