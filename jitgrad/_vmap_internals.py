"""``torch._vmap_internals``: PyTorch's former vmap, which is ``jitgrad.func.vmap`` here."""

from jitgrad.func import vmap

__all__ = ["vmap"]
_vmap = vmap
