"""Optimisers and schedules of learning rates, under PyTorch's names.

``optimizer.py`` has what all optimisers share: parameter groups, state, hooks, saving. An optimiser (``sgd.py``,
``adam.py``, ``rmsprop.py``) checks its options, makes its state and calls ``fused_step.update`` with a loop from
``kernels/loops/optimizer.py``, where the formulas are. No formula is computed here op by op. Read ``sgd.py`` first.

A step is one launch whose arguments are the arrays of all parameters of a dtype. The tape therefore sees true
arrays, parameters keep memory of their own (one gathered buffer would be faster still, but ``p.data``, shared
weights and views would not be what they seem), and models of all sizes share one compiled kernel. Step counters are
arrays that the kernel advances and hyper-parameters are numbers read at each step, so a recorded step replays as
the next one.
"""

from jitgrad.core.missing_names import explain_missing_names
from jitgrad.optim import lr_scheduler
from jitgrad.optim.adam import Adam, AdamW
from jitgrad.optim.optimizer import Optimizer
from jitgrad.optim.rmsprop import Adagrad, RMSprop
from jitgrad.optim.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]

explain_missing_names(__name__)
