"""Mixed precision: ``autocast`` runs products in 16 bits and losses in float32, ``GradScaler`` scales losses.

Autocast is an observer of op calls (dispatch/op_calls.py), added while a region of it is open, so that programs without
one test nothing. It casts the arguments of ops in its lists, which are PyTorch's of the CPU, and the ops that such a
call is made of then see them as they are.
"""

from __future__ import annotations

from jitgrad.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from jitgrad.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
