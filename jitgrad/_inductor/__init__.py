"""What programs set of ``torch._inductor``, the code generator of PyTorch's compiler: settings without effect."""

from jitgrad._inductor import config

__all__ = ["config"]
