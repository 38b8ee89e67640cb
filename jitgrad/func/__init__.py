"""Functions of functions: grad, vjp, jvp, Jacobians, vmap; they compose."""

from .jacobian import hessian, jacfwd, jacrev
from .modules import functional_call, stack_module_state
from .transforms import grad, grad_and_value, jvp, linearize, vjp
from .vmap import vmap

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip
