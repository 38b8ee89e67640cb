"""``torch._ops``: the classes of ops as objects."""

from jitgrad import ops
from jitgrad.core.absent import absent
from jitgrad.ops.aten import OpOverload, OpOverloadPacket

__all__ = ["HigherOrderOperator", "OpOverload", "OpOverloadPacket", "ops"]

HigherOrderOperator = absent("jitgrad._ops", "HigherOrderOperator", "ops that take functions are Python functions here")
