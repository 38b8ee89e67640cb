"""jitgrad.func, PyTorch's torch.func: functions that take functions and return their derivatives or batched forms.

``transforms.py`` (grad, vjp, jvp; read it first), ``jacobian.py`` and ``vmap.py`` check arguments and results in
PyTorch's words and take them apart by ``tree.py`` (pytrees; ``jitgrad.utils._pytree`` has PyTorch's names for it).
``modules.py`` calls modules with other parameters. What transforms do to tensors is in jitgrad/transforms/, not here.

- All of them compose in any order. ``jacrev`` and ``jacfwd`` are vjp and jvp under vmap, one product per unit vector;
  ``hessian`` is jacfwd of jacrev.
- Arguments that are not differentiated are passed as aliases: the function may write to their memory, as in PyTorch,
  and the caller's tensors keep their history.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.func.jacobian import hessian, jacfwd, jacrev
from jitgrad.func.modules import functional_call, stack_module_state
from jitgrad.func.transforms import grad, grad_and_value, jvp, linearize, vjp
from jitgrad.func.vmap import vmap

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip

explain_missing_names(__name__)
