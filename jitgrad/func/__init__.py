"""Functions of functions: grad, vjp, jvp, Jacobians, vmap; they compose."""

from jitgrad.func.jacobian import hessian, jacfwd, jacrev
from jitgrad.func.modules import functional_call, stack_module_state
from jitgrad.func.transforms import grad, grad_and_value, jvp, linearize, vjp
from jitgrad.func.vmap import vmap

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip
