"""Creation functions."""
import numpy as np
from ..layout import layout_of
from ..tensor import wrap
from .registry import public

def tensor(data, dtype=None, device=None, requires_grad=False):
    """Make a tensor."""
    a=np.array(data)
    if dtype is not None: a=a.astype(dtype.numpy)
    elif a.dtype==np.float64: a=a.astype(np.float32)
    t=wrap(a,layout_of(a)); t.requires_grad=requires_grad
    return t
public(tensor, method_too=False)
@public
def ones_like(x):
    """Ones."""
    a=np.ones_like(x._data); return wrap(a,layout_of(a))
@public
def clone(x):
    a=x._data.copy(); return wrap(a,layout_of(a))
