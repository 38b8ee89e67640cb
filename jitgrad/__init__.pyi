# What type checkers see of the package: classes and settings by name, ops as they are published.
from typing import Any

from . import autograd as autograd
from . import cuda as cuda
from . import datasets as datasets
from . import debug as debug
from . import func as func
from . import nn as nn
from . import notebook as notebook
from . import optim as optim
from . import profiler as profiler
from . import testing as testing
from . import utils as utils
from .core.dtypes import dtype as dtype
from .core.grad_mode import enable_grad as enable_grad
from .core.grad_mode import is_grad_enabled as is_grad_enabled
from .core.grad_mode import no_grad as no_grad
from .core.grad_mode import set_grad_enabled as set_grad_enabled
from .core.inference import inference_mode as inference_mode
from .core.inference import is_inference_mode_enabled as is_inference_mode_enabled
from .core.layout import Size as Size
from .core.tensor import Tensor as Tensor
from .extend.kernel_pair import kernel_pair as kernel_pair
from .func import vmap as vmap
from .kernels.elementwise.declaration import Elementwise as Elementwise
from .random import Generator as Generator

__version__: str

def __getattr__(name: str) -> Any: ...

tensor: Any
arange: Any
as_tensor: Any
cat: Any
empty: Any
empty_like: Any
eye: Any
full: Any
full_like: Any
linspace: Any
ones: Any
ones_like: Any
rand: Any
rand_like: Any
randint: Any
randn: Any
randperm: Any
stack: Any
where: Any
zeros: Any
zeros_like: Any
norm: Any
