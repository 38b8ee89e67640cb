"""Functions of functions: grad, vjp, jvp, Jacobians, vmap; they compose."""

from .jacobian import hessian, jacfwd, jacrev
from .transforms import grad, grad_and_value, jvp, linearize, vjp
from .vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp", "vmap"]
