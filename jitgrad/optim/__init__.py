"""Optimisers and schedules of learning rates, under PyTorch's names.

``optimizer.py`` has what all optimisers share: parameter groups, state, hooks, saving. One whose step treats every
element alike derives from ``ElementwiseOptimizer`` (``elementwise.py``): it checks its options, and names its state and
a loop from ``kernels/loops/``, where the formulas are. ``fused_step.update`` runs it. Read ``adamax.py`` first.

A step is one launch whose arguments are the arrays of all parameters of a dtype. The tape therefore sees true
arrays, parameters keep memory of their own (one gathered buffer would be faster still, but ``p.data``, shared
weights and views would not be what they seem), and models of all sizes share one compiled kernel. Step counters are
arrays that the kernel advances and hyper-parameters are numbers read at each step, so a recorded step replays as
the next one.
"""

from typing import TYPE_CHECKING

from jitgrad.core.lazy_import import set_lazy_attributes
from jitgrad.optim import lr_scheduler

# All at once: libraries look for optimisers among the names of the module.
from jitgrad.optim._adafactor import Adafactor
from jitgrad.optim._muon import Muon
from jitgrad.optim.adadelta import Adadelta
from jitgrad.optim.adagrad import Adagrad
from jitgrad.optim.adam import Adam
from jitgrad.optim.adamax import Adamax
from jitgrad.optim.adamw import AdamW
from jitgrad.optim.asgd import ASGD
from jitgrad.optim.lbfgs import LBFGS
from jitgrad.optim.nadam import NAdam
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.radam import RAdam
from jitgrad.optim.rmsprop import RMSprop
from jitgrad.optim.rprop import Rprop
from jitgrad.optim.sgd import SGD
from jitgrad.optim.sparse_adam import SparseAdam

if TYPE_CHECKING:  # what is imported at its first use
    from jitgrad.optim import swa_utils

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip

set_lazy_attributes(__name__, {"swa_utils": "jitgrad.optim.swa_utils"})
