"""What programs set of ``torch._functorch``: settings without effect. Its functions are ``jitgrad.func``'s."""

from jitgrad._functorch import config

__all__ = ["config"]
